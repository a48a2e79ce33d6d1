"""The common part of the estimators: scikit-learn's interface to the solvers.

A fit is a list of runs of a solver. It can be observed by callbacks, interrupted, saved
to a file and resumed.
"""
