"""What the estimators share: scikit-learn's interface over the solvers.

A fit is a list of runs of a solver. It can be watched by callbacks, interrupted, kept in a file and resumed.
"""
