"""Values of policies and their differences, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sk_stormc.plotting._style import axes_for, check_kwargs
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.parameters import check_text, short

ROW = 0.42  # height of a policy in inches
WARNED = "0.55"


class PolicyValueDisplay:
    """The values of policies with their intervals, and beside them the differences to a
    baseline.

    The policies are below each other, in the order in which they are given. The point
    of a difference is open if its interval contains 0. Policies with a warning are
    grey, because their intervals may be wrong.

    Parameters
    ----------
    values : dict of array-like of shape (3,)
        Value, lower and upper end of the interval of each policy. NaN is not drawn.
    differences : dict of array-like of shape (3,)
        The same of the difference to the baseline.
    baseline : str, default="behaviour"
        Name of the baseline.
    confidence : float, default=None
        Level of the intervals, for the labels of the axes.
    warned : sequence of str, default=()
        Names of the policies with a warning.

    Attributes
    ----------
    value_intervals_, difference_intervals_ : dict of matplotlib.lines.Line2D
        The intervals of each policy.
    axes_ : ndarray of matplotlib.axes.Axes
        Those of the values and of the differences.
    figure_ : matplotlib.figure.Figure

    See Also
    --------
    sk_stormc.compare_policies : Computes what is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc import compare_policies
    >>> from sk_stormc.plotting import PolicyValueDisplay
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(2, size=500)
    >>> log = {"x": np.ones(500), "action": action, "reward": action + rng.random(500)}
    >>> found = compare_policies(
    ...     log | {"p": np.full(500, 0.5)},
    ...     {"always 1": lambda X: np.ones(len(X), dtype=int)},
    ...     state="x",
    ...     probability="p",
    ... )
    >>> display = PolicyValueDisplay.from_comparison(found)
    >>> list(display.value_intervals_)
    ['behaviour', 'always 1']
    """

    figure_: Figure
    value_intervals_: dict[str, Line2D]
    difference_intervals_: dict[str, Line2D]

    def __init__(
        self,
        values: Mapping[str, Any],
        differences: Mapping[str, Any],
        *,
        baseline: str = "behaviour",
        confidence: float | None = None,
        warned: Sequence[str] = (),
    ) -> None:
        self.values = values
        self.differences = differences
        self.baseline = baseline
        self.confidence = confidence
        self.warned = warned

    @classmethod
    def from_comparison(
        cls, comparison: Any, *, axes: Sequence[Axes] | None = None, **kwargs: Any
    ) -> Self:
        """Draw the result of `sk_stormc.compare_policies`.

        Parameters
        ----------
        comparison : PolicyComparison
        axes : sequence of two matplotlib.axes.Axes, default=None
            Axes for the values and for the differences. None means those of a new
            figure.
        **kwargs
            Properties of the intervals, see `plot`.

        Returns
        -------
        PolicyValueDisplay

        Raises
        ------
        ValueError
            If the comparison is not that of `sk_stormc.compare_policies`, and for the
            reasons of `plot`.
        """
        table, values = (
            getattr(comparison, name, None) for name in ("table", "values")
        )
        if table is None or not isinstance(values, Mapping):
            raise ValueError(
                f"comparison must be that of compare_policies, got {short(comparison)}"
            )
        shown, differences = (
            np.column_stack([table[name] for name in names])
            for names in (
                ("value", "low", "high"),
                ("difference", "difference_low", "difference_high"),
            )
        )
        display = cls(
            dict(zip(values, shown, strict=True)),
            dict(zip(values, differences, strict=True)),
            baseline=comparison.baseline,
            confidence=comparison.confidence,
            warned=[
                n for n, text in zip(values, table["warning"], strict=True) if text
            ],
        )
        return display.plot(axes, **kwargs)

    def plot(self, axes: Sequence[Axes] | None = None, **kwargs: Any) -> Self:
        """Draw the intervals.

        Parameters
        ----------
        axes : sequence of two matplotlib.axes.Axes, default=None
            Axes for the values and for the differences. None means those of a new
            figure.
        **kwargs
            Properties of all intervals, such as ``color="C1"`` or ``linewidth=3``.

        Returns
        -------
        self : PolicyValueDisplay

        Raises
        ------
        ValueError
            If the values and the differences are not those of the same policies, or
            ``axes`` are not two.
        """
        check_kwargs("plot", kwargs, Line2D)
        check_text("baseline", self.baseline)
        values, differences = (
            _triples(name, getattr(self, name)) for name in ("values", "differences")
        )
        if list(values) != list(differences):
            raise ValueError(
                f"differences must be those of {list(values)}, got {list(differences)}"
            )
        left, right = axes = self._axes(axes, len(values))
        self.value_intervals_ = self._draw(left, values, False, kwargs)
        self.difference_intervals_ = self._draw(right, differences, True, kwargs)
        right.axvline(0.0, color="0.5", linewidth=1, zorder=1)
        level = (
            ""
            if self.confidence is None
            else f", with {100 * self.confidence:g} % intervals"
        )
        left.set(xlabel=f"value{level}")
        right.set(xlabel=f"value minus that of {self.baseline}")
        for ax, labels in ((left, list(values)), (right, [])):
            ax.set_yticks(range(len(values)), labels or [""] * len(values))
            ax.set_ylim(len(values) - 0.5, -0.5)
            ax.xaxis.set_major_locator(MaxNLocator(5))
            # visible on light and on dark axes
            color = ax.xaxis.label.get_color()
            ax.grid(True, axis="x", color=color, alpha=0.15, linewidth=0.6)
            ax.set_axisbelow(True)
            ax.tick_params(axis="y", length=0)
        for label in left.get_yticklabels():
            if label.get_text() in self.warned:
                label.set_color(WARNED)
        self.axes_, self.figure_ = np.array(axes, dtype=object), left.figure
        return self

    def _draw(self, ax, triples, differences, kwargs):
        """The intervals of one panel by policy. Those of differences are open if they
        contain 0."""
        lines = {}
        for k, (name, (value, low, high)) in enumerate(triples.items()):
            style = {
                "color": WARNED if name in self.warned else "C0",
                "linewidth": 2,
                "solid_capstyle": "butt",
            } | kwargs
            (lines[name],) = ax.plot([low, high], [k, k], **style)
            undecided = differences and low <= 0 <= high
            fill = ax.get_facecolor() if undecided else lines[name].get_color()
            edge = lines[name].get_color()
            ax.plot(value, k, "o", color=edge, markerfacecolor=fill, markersize=7)
        return lines

    def _axes(self, axes, n_policies):
        """The given axes, or two new ones beside each other."""
        if axes is None:
            from matplotlib import pyplot as plt  # importing pyplot chooses a backend

            size = 8.0, 1.0 + ROW * max(n_policies, 2)
            _, axes = plt.subplots(1, 2, figsize=size, layout="constrained")
        axes = list(np.ravel(np.asarray(axes, dtype=object)))
        if len(axes) != 2:
            raise ValueError(
                f"axes must be two, for the values and the differences, got {len(axes)}"
            )
        return [axes_for(ax) for ax in axes]


def _triples(name, given):
    """The value and the interval of each policy."""
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{name} must be a dict by policy, got {short(given)}")
    triples = {key: as_numbers(f"{name}[{key!r}]", part) for key, part in given.items()}
    for key, part in triples.items():
        if part.shape != (3,):
            raise ValueError(
                f"{name} must be a value and the ends of its interval, got "
                f"{short(part)} for {key!r}"
            )
    return triples
