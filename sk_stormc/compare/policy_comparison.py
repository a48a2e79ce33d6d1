"""The table of a comparison of policies: as a frame, as text, as HTML and as a plot."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sk_stormc.compare.tables import as_html, as_text, finite
from sk_stormc.values.off_policy.value import PolicyValue

if TYPE_CHECKING:
    from sk_stormc.plotting import PolicyValueDisplay


@dataclass(frozen=True, eq=False)
class PolicyComparison:
    """The values of policies from one log, and which of them is the best.

    It prints as a table, and is an HTML table in notebooks.

    Attributes
    ----------
    table : DataFrame or dict of ndarray
        A row for each policy, the baseline first: its value, ``std_error`` and
        interval (``low``, ``high``), the ``difference`` to the baseline with its
        interval, the effective number of episodes (as ``effective_size`` of
        `PolicyValue`), the largest weight of an episode as a share of all, the method,
        and the warnings as text. Differences are paired by episodes, and NaN if the
        methods of the two rows measure different things. Without pandas, a dict of the
        columns, in which "policy" contains the names.
    values : dict of PolicyValue
        The value of each policy, by name.
    best_ : str or None
        The policy that is better than all others: the interval of its difference to
        every other row is above 0. The level is shared among these differences
        (Bonferroni), so that all of them hold together with the given confidence. None
        if there is no such policy, or if a row has a warning.
    reason_ : str
        Why ``best_`` is the best policy, or why none is.
    baseline : str
        The policy that the differences are to.
    confidence : float
        The level of the intervals.

    See Also
    --------
    compare_policies : Makes the comparison.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc import compare_policies
    >>> action = np.arange(100) % 2
    >>> log = {
    ...     "x": np.zeros(100),
    ...     "action": action,
    ...     "reward": action + 0.1 * (np.arange(100) // 2 % 2),
    ...     "p": np.full(100, 0.5),
    ... }
    >>> policies = {"always 1": lambda X: np.ones(len(X), dtype=int)}
    >>> found = compare_policies(log, policies, state="x", probability="p")
    >>> print(found.notes())
    Best: always 1. Its difference to every other row is above 0 (confidence 0.95).
    >>> found.table["value"].round(3).tolist()
    [0.55, 1.05]
    """

    values: dict[str, PolicyValue]
    baseline: str
    confidence: float
    best_: str | None
    reason_: str
    _columns: dict[str, Any] = field(repr=False)

    @property
    def table(self) -> Any:
        """A row for each policy."""
        try:
            from pandas import DataFrame
        except ImportError:
            return self._columns
        return DataFrame(self._columns).set_index("policy")

    def plot(self, axes: Any = None, **kwargs: Any) -> PolicyValueDisplay:
        """Draw the values and the differences, with their intervals.

        Parameters
        ----------
        axes : sequence of two matplotlib.axes.Axes, default=None
            Axes for the values and for the differences. None means those of a new
            figure.
        **kwargs
            Properties of the intervals, see
            `sk_stormc.plotting.PolicyValueDisplay.plot`.

        Returns
        -------
        PolicyValueDisplay
        """
        from sk_stormc.plotting import PolicyValueDisplay

        return PolicyValueDisplay.from_comparison(self, axes=axes, **kwargs)

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the rows of the printed table, as texts.

        Returns
        -------
        header : list of str
        rows : list of list of str
        """
        c = self._columns
        rows = [
            [
                name,
                finite(c["value"][k], ".4g"),
                _interval(c["low"][k], c["high"][k]),
                finite(c["difference"][k], ".4g"),
                _interval(c["difference_low"][k], c["difference_high"][k]),
                finite(c["effective_episodes"][k], ".1f"),
                finite(c["largest_weight"][k], ".1%"),
                c["method"][k],
            ]
            for k, name in enumerate(c["policy"])
        ]
        interval = f"{100 * self.confidence:g} % interval"
        header = [
            "policy", "value", interval, f"minus {self.baseline}", interval,
            "effective episodes", "largest weight", "method",
        ]  # fmt: skip
        return header, rows

    def notes(self) -> str:
        """Return the text below the table: the best policy, and warnings in short.

        Returns
        -------
        str
        """
        notes = [f"Best: {self.best_ or 'none'}. {self.reason_}"]
        pairs = zip(self._columns["policy"], self._columns["warning"], strict=True)
        firsts = [(name, re.split(r"[.:] ", text)[0]) for name, text in pairs if text]
        return "\n".join(notes + [f"Warning, {name}: {text}." for name, text in firsts])

    def __str__(self):
        return f"{as_text(*self.cells(), left=1)}\n\n{self.notes()}"

    def _repr_html_(self):
        notes = [f"<p>{html.escape(line)}</p>" for line in self.notes().splitlines()]
        return "\n".join([as_html(*self.cells(), left=1), *notes])

    __repr__ = __str__


def _interval(low, high):
    """The ends of an interval as a cell."""
    return f"{low:.4g} to {high:.4g}" if low < high else "-"
