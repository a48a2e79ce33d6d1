"""Penalties and constraints R(x): their value, their proximal operator, and the
projection on their domain.

The step of a solver is x~ = prox_{eta R}(x - eta D F), with a diagonal preconditioner
D. The argument ``step`` is therefore a number, or an array with a number for each
coordinate. For an array, the operator uses the norm sum_j z_j^2 / step_j."""

from __future__ import annotations

from typing import Any

import numpy as np

from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.docstrings import inherit_sections
from sk_stormc.utils.parameters import check_int, check_number, short
from sk_stormc.utils.types import ArrayLike, FloatArray


def check_penalty(penalty: Any, n_variables: int, name: str = "penalty") -> None:
    """Check that an object is a penalty, and has a feasible point with this number of
    variables.

    Parameters
    ----------
    penalty : object or None
    n_variables : int
    name : str, default="penalty"
        Name of the penalty in error messages.

    Raises
    ------
    ValueError
        If the object lacks one of the methods value, prox and project, if it is a class
        and not an instance, or if its bounds do not fit.

    Examples
    --------
    >>> from sk_stormc.penalties import Simplex, check_penalty
    >>> check_penalty(Simplex(), 3)
    >>> check_penalty("l1", 3)
    Traceback (most recent call last):
        ...
    ValueError: penalty must be None or have value, prox and project, \
as L1(0.1), Box(0, 1) and Simplex() of sk_stormc.penalties have, got 'l1'
    """
    check_int("n_variables", n_variables, low=1)
    if penalty is None:
        return
    methods = (getattr(penalty, name, None) for name in ("value", "prox", "project"))
    if isinstance(penalty, type) or not all(map(callable, methods)):
        raise ValueError(
            f"{name} must be None or have value, prox and project, as L1(0.1), Box(0, "
            f"1) and Simplex() of sk_stormc.penalties have, got {short(penalty)}"
        )
    as_penalty(penalty).check(n_variables)


def as_penalty(penalty: Any) -> Penalty:
    """A problem's ``penalty`` with all methods of `Penalty`."""
    if penalty is None:
        return Box(-np.inf, np.inf)
    return penalty if isinstance(penalty, Penalty) else _OfUser(penalty)


def projected(penalty, x):
    """The nearest feasible point of a problem's ``penalty``, which may be None."""
    return x if penalty is None else penalty.project(x)


def penalized(value, penalty, x):
    """A value of Phi at x with R(x) added, if there is a penalty."""
    return value if penalty is None else value + penalty.value(x)


class Penalty:
    """Base class of the penalties. A user's own penalty need not derive from it."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        inherit_sections(cls)

    def value(self, x: ArrayLike) -> float:
        """R(x). Points outside the domain are not penalised.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        float
        """
        raise NotImplementedError

    def prox(self, x: ArrayLike, step: float | FloatArray) -> FloatArray:
        """The minimiser of R(z) + sum_j (z_j - x_j)^2 / (2 step_j) over the domain.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        step : float or ndarray of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        raise NotImplementedError

    def project(self, x: ArrayLike) -> FloatArray:
        """The nearest feasible point.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        raise NotImplementedError

    def check(self, n_variables: int) -> None:
        """Check that the penalty fits this number of variables.

        Parameters
        ----------
        n_variables : int

        Raises
        ------
        ValueError
        """

    def as_box(self) -> Box | None:
        """The penalty as bounds, a budget and an l1 norm.

        Returns
        -------
        Box or None
            None if the penalty does not have this form.
        """
        return None


class _OfUser(Penalty):
    """A wrapper of a user's penalty with the methods value, prox and project, and
    perhaps check."""

    def __init__(self, given):
        self.value, self.prox, self.project = given.value, given.prox, given.project
        self.check = getattr(given, "check", super().check)


def check_alpha(alpha):
    """The weights of an l1 norm: a number, or an array of one for each variable."""
    if np.ndim(alpha) == 0:
        check_number("alpha", alpha, low=0)
        return float(alpha)
    # a copy: the caller's array may change
    weights = np.array(as_numbers("alpha", alpha))
    good = (np.isfinite(weights) & (weights >= 0)).all()
    if weights.ndim != 1 or not weights.size or not good:
        raise ValueError(
            f"alpha must be a number or a vector of numbers >= 0, got {short(alpha)}"
        )
    return weights


def _text(value):
    """A number, or the first and last numbers of an array."""
    return short(value) if np.ndim(value) else str(value)


class L1(Penalty):
    """The l1 norm, R(x) = alpha |x|_1, or sum_j alpha_j |x_j|.

    Parameters
    ----------
    alpha : float, array-like of shape (n_variables,) or pytree
        Weight of the norm, >= 0, or that of each variable, with 0 for those without a
        penalty. For a `DifferentiableComposition` it may have the structure of x0, with
        a number or an array for each leaf.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.penalties import L1
    >>> L1(1.0).prox(np.array([3.0, -0.2, -2.0]), 0.5)
    array([ 2.5, -0. , -1.5])
    """

    def __init__(self, alpha: Any):
        self.alpha: Any = (
            alpha if isinstance(alpha, (dict, tuple)) else check_alpha(alpha)
        )

    def __repr__(self):
        return f"L1(alpha={_text(self.alpha)})"

    def value(self, x: ArrayLike) -> float:
        """R(x)."""
        if np.ndim(self.alpha):
            return float(np.abs(x).astype(float) @ self.alpha)
        return self.alpha * float(np.abs(x).sum(dtype=np.float64))

    def check(self, n_variables: int) -> None:
        """Check that alpha has ``n_variables`` entries, if it is not a number.

        Parameters
        ----------
        n_variables : int

        Raises
        ------
        ValueError
            If it has another length, or is a pytree for a problem without one.
        """
        shape = getattr(self.alpha, "shape", ())
        if isinstance(self.alpha, (dict, tuple)) or shape not in ((), (n_variables,)):
            raise ValueError(
                f"alpha must be a number or of shape ({n_variables},), got "
                f"{f'shape {shape}' if shape else short(self.alpha)}"
            )

    def prox(self, x: ArrayLike, step: float | FloatArray) -> FloatArray:
        """Soft thresholding at ``alpha * step``."""
        x = floating(x)
        return soft(x, self.alpha * step).astype(x.dtype, copy=False)

    def project(self, x: ArrayLike) -> FloatArray:
        """x itself, since every point is feasible. Integers become floats."""
        return floating(x)

    def as_box(self) -> Box:
        """A `Box` without bounds."""
        return Box(-np.inf, np.inf, alpha=self.alpha)


class Box(Penalty):
    """Bounds low <= x <= high, with an optional budget sum_j x_j = budget and l1 norm.

    Parameters
    ----------
    low, high : float or array-like of shape (n_variables,)
        Bounds, which may be infinite.
    budget : float, default=None
        Required sum of the coordinates. None means any sum.
    alpha : float or array-like of shape (n_variables,), default=0.0
        Weight of an additional l1 norm, or that of each variable.

    Raises
    ------
    ValueError
        If low > high, a bound is NaN, or no point between the bounds has the budget.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.penalties import Box
    >>> Box(0.0, 0.6, budget=1.0).prox(np.array([2.0, 0.5, 0.0]), 1.0)
    array([0.6, 0.4, 0. ])
    """

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        budget: float | None = None,
        alpha: Any = 0.0,
    ):
        given = f"got low={low!r}, high={high!r}"
        # copies: the caller's arrays may change
        low, high = as_numbers("low", low), as_numbers("high", high)
        differ = low.ndim and high.ndim and low.shape != high.shape
        if low.ndim > 1 or high.ndim > 1 or differ:
            raise ValueError(
                "low and high must be scalars or of one length, got shapes "
                f"{low.shape} and {high.shape}"
            )
        self.low, self.high = (np.array(b) for b in np.broadcast_arrays(low, high))
        if np.isnan(low).any() or np.isnan(high).any():
            raise ValueError(f"low and high must not be NaN or None, {given}")
        if (low == np.inf).any() or (high == -np.inf).any():
            raise ValueError(
                f"low must be below infinity and high above -infinity, {given}"
            )
        for j in np.flatnonzero(self.low > self.high)[:1]:
            raise ValueError(
                f"low must not exceed high, got low={self.low.flat[j]} > "
                f"high={self.high.flat[j]} for coordinate {j}"
            )
        check_number("budget", budget, words=(None,))
        self.budget = None if budget is None else float(budget)
        self._l1 = L1(alpha)
        self.alpha = self._l1.alpha

    def __repr__(self):
        budget = "" if self.budget is None else f", budget={self.budget}"
        alpha = f", alpha={_text(self.alpha)}" if np.any(self.alpha) else ""
        return f"Box(low={_text(self.low)}, high={_text(self.high)}{budget}{alpha})"

    def value(self, x: ArrayLike) -> float:
        """alpha |x|_1. It is finite outside the bounds too, because `prox` keeps the
        bounds."""
        return self._l1.value(x)

    def as_box(self) -> Box:
        """The penalty itself."""
        return self

    def check(self, n_variables: int) -> None:
        """Check that there is a feasible point with ``n_variables`` coordinates.

        Parameters
        ----------
        n_variables : int

        Raises
        ------
        ValueError
            If the bounds have another length, or the budget cannot be reached.
        """
        self._l1.check(n_variables)
        if self.low.ndim and self.low.shape != (n_variables,):
            raise ValueError(
                f"low and high must be scalars or of shape ({n_variables},), got "
                f"{self.low.shape}"
            )
        if self.budget is not None:
            least, most = (
                float(np.broadcast_to(b, n_variables).sum())
                for b in (self.low, self.high)
            )
            # tolerance for rounding of the sums
            slack = 1e-10 * max(1.0, abs(self.budget))
            if not least - slack <= self.budget <= most + slack:
                raise ValueError(
                    f"budget={self.budget} is unreachable: between the bounds the "
                    f"{n_variables} coordinates sum to a value from {least} to {most}"
                )

    def prox(self, x: ArrayLike, step: float | FloatArray) -> FloatArray:
        """Soft thresholding and clipping. With a budget, x is shifted by the multiplier
        that meets it."""
        return self._solve(x, step, self.alpha)

    def project(self, x: ArrayLike) -> FloatArray:
        """The nearest feasible point."""
        return self._solve(x, 1.0, 0.0)

    def _solve(self, x, step, alpha):
        threshold = alpha * step

        def shrink(z):
            return soft(z, threshold) if np.any(alpha) else z

        kinks = (self.low, self.high, 0.0)
        bends = [kink + sign * threshold for kink in kinks for sign in (-1, 1)]
        return within(self, x, step, shrink, bends)


class Simplex(Penalty):
    """The probability simplex: x >= 0, sum_j x_j = total.

    Parameters
    ----------
    total : float, default=1.0
        Required sum of the coordinates, > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.penalties import Simplex
    >>> Simplex().prox(np.array([0.9, 0.5, -1.0]), 1.0)
    array([0.7, 0.3, 0. ])
    """

    def __init__(self, total: float = 1.0):
        check_number("total", total, low=0, inclusive=False)
        self.total = float(total)

    def __repr__(self):
        return f"Simplex(total={self.total})"

    def value(self, x: ArrayLike) -> float:
        """0, also outside the simplex, because `prox` keeps the constraint."""
        return 0.0

    def prox(self, x: ArrayLike, step: float | FloatArray) -> FloatArray:
        """The weighted projection max(x - nu step, 0), with nu such that the sum is
        met, exactly by sorting."""
        x = floating(x)
        step = np.broadcast_to(near_one(step), x.shape)
        # shifts nu to the size of the total, for less rounding if x is large
        z = x - step * (x / step).max()
        order = np.argsort(-z / step)
        nu = (np.cumsum(z[order]) - self.total) / np.cumsum(step[order])
        positive = np.flatnonzero(z[order] > nu * step[order])
        if not positive.size:  # entries of extreme sizes: put the total on the largest
            total = np.nan if np.isnan(x).any() else self.total
            is_largest = np.arange(x.size) == np.argmax(x)
            return np.where(is_largest, total, 0.0).astype(x.dtype)
        solution = z - nu[positive[-1]] * step
        # remove rounding errors
        solution[solution < 8 * np.finfo(float).eps * self.total] = 0.0
        return solution.astype(x.dtype, copy=False)

    def project(self, x: ArrayLike) -> FloatArray:
        """The nearest feasible point."""
        return self.prox(x, 1.0)

    def as_box(self) -> Box:
        """Bounds of 0 and infinity, with the sum as budget."""
        return Box(0.0, np.inf, budget=self.total)


# projection on bounds and a budget in a diagonal norm


def floating(x):
    """x as an array of floats, because integer arrays would truncate the result of a
    step or projection."""
    x = np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(float)


def near_one(step):
    """The step divided by a power of two, so that its largest entry is between 0.5 and
    1.

    A projection depends only on the ratios of the steps. Divisions by a very large or
    small step could overflow.
    """
    step = np.asarray(step, float)
    return np.ldexp(step, -np.frexp(step.max())[1])


def soft(x, threshold):
    """Soft thresholding: x moved towards 0 by the threshold, but not beyond 0."""
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0)


def within(box, x, step, shrink, bends):
    """The vector clip(shrink(x - step nu)) between the bounds of a `Box`, with nu such
    that its budget is met."""

    def at(nu):
        return np.clip(shrink(x - step * nu), box.low, box.high)

    x, step = floating(x), near_one(step)
    dtype, x = x.dtype, x.astype(float)
    solution = at(0.0)
    if box.budget is not None:
        for _ in range(3):
            nu = _multiplier(box, x, step, bends, lambda nu: at(nu).sum())
            solution = at(nu)
            missing = abs(solution.sum() - box.budget)
            if missing <= 1e-12 * max(1.0, abs(box.budget)):
                break
            # repeat with the shifted x, because a large nu has a large rounding error
            x = x - step * nu
    return solution.astype(dtype, copy=False)


def _multiplier(box, x, step, bends, total):
    """nu with total(nu) = budget, by bisection.

    total is nonincreasing in nu, and linear between the values at which a coordinate
    meets a bound or a kink. Bisection over these values followed by one interpolation
    is exact.
    """
    kinks = np.sort(np.concatenate([np.ravel((x - bend) / step) for bend in bends]))
    kinks = kinks[np.isfinite(kinks)]
    first, last = 0, len(kinks) - 1
    while last - first > 1:
        middle = (first + last) // 2
        if total(kinks[middle]) >= box.budget:
            first = middle
        else:
            last = middle
    a, b = (kinks[first], kinks[last]) if len(kinks) else (0.0, 0.0)
    over, under = total(a), total(b)
    if over >= box.budget >= under and over > under:
        # interpolate from the nearer end, for less rounding
        part = (over - box.budget) / (over - under)
        if part < 0.5:
            return a + (b - a) * part
        return b - (b - a) * ((box.budget - under) / (over - under))
    # beyond the outermost kinks only coordinates without a bound change
    a, over, bound = (b, under, box.low) if under > box.budget else (a, over, box.high)
    slopes = np.where(np.isfinite(bound), 0.0, step)
    slope = np.broadcast_to(slopes, x.shape).sum()
    return a + (over - box.budget) / slope if slope else a
