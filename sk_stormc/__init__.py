"""Stochastic compositional optimisation with scikit-learn's interface."""

__version__ = "0.1.0"
