"""The kernels of an embedding, as functions of w. For an edge of squared length D, only w (a function of D) is kept."""

import numpy as np

from sk_stormc.utils.validation import check_number

__all__ = ["Gaussian", "StudentT", "check_degrees_of_freedom"]

MOST_DOF = 1e4  # float32 does not tell 1 + D / a from 1 for much more; the kernel is all but exp(-D) there


class Gaussian:
    """The kernel k(D) = exp(-D) with the attraction phi(D) = D. Here w = k."""

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
    """The kernel k(D) = (1 + D / a)^-a with a degrees of freedom. Here w = 1 / (1 + D / a).

    The attraction is phi(D) = a log(1 + D / a). For a = 1 this is t-SNE's kernel, and for large a it is nearly exp(-D).
    openTSNE has the same kernel, after Kobak et al., "Heavy-tailed kernels reveal a finer cluster structure in t-SNE
    visualisations", 2019. scikit-learn has the power (a + 1) / 2 in place of a.

    Parameters
    ----------
    dof : float, default=1.0
        Degrees of freedom a.
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


def check_degrees_of_freedom(dof, kernel):
    """Raise a ValueError where they are no positive number, are too many, or not 1 for a kernel that has none."""
    check_number("dof", dof, low=0, high=MOST_DOF, inclusive=False)
    if kernel == "gaussian" and dof != 1:
        raise ValueError(f"dof must be 1 for kernel='gaussian', because only kernel='student-t' uses it; got {dof}")
