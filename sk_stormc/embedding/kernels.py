"""The kernels of an embedding, by what is kept of the squared length D of an edge: w, a function of D."""

import numpy as np

__all__ = ["Gaussian", "StudentT"]


class Gaussian:
    """k(D) = exp(-D), attraction phi(D) = D; w = k."""

    def base(self, D):
        """w, written over D."""
        return np.exp(np.negative(D, out=D), out=D)

    def value(self, w):
        """k."""
        return w

    def attraction(self, s, w):
        """s phi'."""
        return s

    def repulsion(self, w):
        """-k'."""
        return w


class StudentT:
    """k(D) = (1 + D / a)^-a of a degrees of freedom, attraction phi(D) = a log(1 + D / a); w = 1 / (1 + D / a).

    For a = 1 that is t-SNE's kernel, and for large a nearly exp(-D). It is the kernel that openTSNE has, after Kobak
    et al., "Heavy-tailed kernels reveal a finer cluster structure in t-SNE visualisations", 2019. scikit-learn's power
    is (a + 1) / 2 in place of a.

    Parameters
    ----------
    dof : float, default=1.0
        a.
    """

    def __init__(self, dof=1.0):
        self.dof = dof

    def base(self, D):
        """w, written over D."""
        if self.dof != 1:
            D /= D.dtype.type(self.dof)
        return np.reciprocal(np.add(D, 1, out=D), out=D)

    def value(self, w):
        """k."""
        return w if self.dof == 1 else w**self.dof

    def attraction(self, s, w):
        """s phi'."""
        return s * w

    def repulsion(self, w):
        """-k'."""
        return w * w if self.dof == 1 else w ** (self.dof + 1)
