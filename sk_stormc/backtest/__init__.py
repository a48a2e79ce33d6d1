"""What a portfolio would have earned: fits on past returns only, and the accounts of
the weights that are held.

`walk_forward` uses only ``fit``, the parameters and the weights of an estimator, so
that it works for any portfolio with scikit-learn's interface.
"""
