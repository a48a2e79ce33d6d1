"""The paper's claims, and how measured numbers decide about them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sk_stormc.reproduce.report.grids import METHODS, PARTS, STORM
from sk_stormc.reproduce.report.notes import NAMES
from sk_stormc.reproduce.slopes import fit_slope
from sk_stormc.reproduce.tuning import WIDER

__all__ = [
    "CLAIMS",
    "CONFIRMED",
    "NOT_CONFIRMED",
    "NOT_CONTRADICTED",
    "RULE",
    "THERE_ONLY",
    "UNDECIDED",
    "Claim",
    "Results",
    "ahead",
    "as_good",
    "verdict",
]

CONFIRMED, THERE_ONLY, NOT_CONFIRMED = "confirmed", "confirmed at those constants only", "not confirmed"
NOT_CONTRADICTED, UNDECIDED = "not contradicted", "undecided"
FLOOR = 1e-4  # of what there was to gain: nearer counts as the minimum itself
STUCK = 0.9  # of what there was to gain: farther counts as the start
ALIKE = 1.1  # largest ratio of two medians that count as equally good
GOOD = 2  # largest ratio to the best of a grid of a setting that counts as good
ORDER = 3.3  # largest upper end of an interval that still agrees with an order of at most 3
RIVAL = "sarah-c"  # with which tuning is compared
TITLES = {
    "portfolio": "Finite-sum portfolio",
    "streaming": "Streaming portfolio",
    "bellman": "Bellman",
    "sne": "SNE",
}

RULE = f"""\
The numbers below decide, by this rule alone. A run's end is how far Phi is from its minimum, as a part of what there
was to gain: |Phi*| for portfolios, as Phi is 0 for weights of 0, and elsewhere the way from the start to the minimum.
For SNE, with its many local minima, the minimum is the lowest divergence of all runs in this report. Ends below
{FLOOR:g} are all alike, and so are those above {STUCK:g}, where next to nothing was gained.

- Ends are compared at the published constants, and again with every method tuned. A claim is **{CONFIRMED}** if it
  holds both times, **{THERE_ONLY}** if it holds at the published constants only, and **{NOT_CONFIRMED}** if it does not
  hold there (where it holds when tuned, that is said). It is **{UNDECIDED}** if it does not hold when tuned, but
  STORM-C's best learning rate still stands at an end of its grid after {WIDER} more rates.
- "Lower than others": on every data set each of its seeds ends lower than all seeds of the others.
- "At least as good": on every data set its median is at most {ALIKE:g} times the least median of the others.
- "Simpler to tune": on every data set a larger part of its grid than of SARAH-C's ends within a factor of {GOOD} of the
  best of its own grid (one tuning seed; the grids have as many settings, and are not widened here).
- A statement of theory is tried on one problem with known constants, which can refute it but not prove it: where it
  holds it is **{NOT_CONTRADICTED}**. An order of at most eps^-3 holds if the 95 % interval of the fitted exponent ends
  at or below {ORDER}.
"""


def verdict(published, tuned=None, theory=False):
    """The verdict on a claim."""
    if not published:
        return NOT_CONFIRMED
    if tuned == UNDECIDED:
        return UNDECIDED
    if tuned is None or tuned:
        return NOT_CONTRADICTED if theory else CONFIRMED
    return THERE_ONLY


class Results:
    """What the pieces found, by name.

    Parameters
    ----------
    pieces : dict of dict
        As `Store.run` returns them.
    """

    def __init__(self, pieces):
        self.pieces = {name: piece["result"] for name, piece in pieces.items()}
        self.seconds = sum(piece["seconds"] for piece in pieces.values())

    def __getitem__(self, name):
        return self.pieces[name]

    def part(self, experiment, part):
        """Pieces of a part: by case, then method."""
        found = {}
        for name, piece in self.pieces.items():
            where, _, rest = name.partition("/")
            if where == experiment and rest.startswith(f"{part}/"):
                _, case, method = rest.split("/")
                found.setdefault(case, {})[method] = piece
        return found

    def least(self, experiment):
        """Phi* in the units of the gaps: 0, and for SNE the lowest divergence of all runs."""
        if experiment != "sne":
            return 0.0
        return min(min(curve["gap"]) for curve in self._curves("sne") if not curve["failed"])

    def scale(self, experiment, piece):
        """What there was to gain."""
        if piece["scale"] is not None:
            return piece["scale"]
        return piece["curves"][0]["gap"][0] - self.least(experiment)

    def ends(self, experiment, piece):
        """The final gaps of the seeds, in what there was to gain."""
        least, scale = self.least(experiment), self.scale(experiment, piece)
        ends = [np.inf if curve["failed"] else (curve["gap"][-1] - least) / scale for curve in piece["curves"]]
        return np.maximum(ends, 0.0)

    def _curves(self, experiment):
        for part in (*PARTS, "defaults"):
            for methods in self.part(experiment, part).values():
                for piece in methods.values():
                    yield from piece["curves"]


def ahead(ends, others):
    """Whether each seed of one method ended lower than all seeds of others; at minimum and start all are equal."""
    return bool(max(np.max(ends), FLOOR) < min(STUCK, *(np.min(other) for other in others)))


def as_good(ends, others):
    """Whether the median of one method is about that of the best of the others, or lower."""
    return bool(np.median(ends) <= max(ALIKE * min(np.median(other) for other in others), FLOOR))


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes
    ----------
    source : str
        Where the paper has it.
    text : str
    decide : callable
        ``decide(results)``: (published, tuned or None, the numbers in words).
    theory : bool
        Whether it is a statement for all problems, of which one is tried.
    """

    source: str
    text: str
    decide: Callable
    theory: bool = False


def _compared(experiment, others, text, rule):
    """A claim that STORM-C is better than other methods, by a rule for its ends and those of the others."""

    def decide(results):
        holds, words = {}, []
        for part in PARTS:
            found = []
            for case, methods in results.part(experiment, part).items():
                ends = {name: results.ends(experiment, piece) for name, piece in methods.items()}
                theirs = {name: end for name, end in ends.items() if name.partition(" (")[0] in others}
                holds[part] = holds.get(part, True) and rule(ends[STORM], list(theirs.values()))
                best = min(theirs, key=lambda name, theirs=theirs: np.median(theirs[name]))
                base, mark, extra = best.partition(" (")
                found.append(
                    f"{case}: {_number(np.median(ends[STORM]))} against {_number(np.median(ends[best]))} "
                    f"({NAMES[base]}{mark}{extra})"
                )
            words.append(f"{part.capitalize()} - {'; '.join(found)}")
        return holds["published"], _tuned(results, experiment, holds), ". ".join(words) + "."

    *first, last = (NAMES[name] for name in others)
    names = f"{', '.join(first)} and {last}"
    return Claim(f"{TITLES[experiment]} experiment", f"At equal oracle calls STORM-C {text} {names}.", decide)


def _simpler(results):
    """How much of the grids of STORM-C and SARAH-C ends within a factor of two of the best."""
    holds, words = True, []
    for experiment in TITLES:
        for case, methods in results.part(experiment, "tuned").items():
            n_good, sizes = {}, {}
            for name in (STORM, RIVAL):
                piece = methods[name]
                ends = np.array(piece["grid"], dtype=float) - results.least(experiment)
                ends = np.maximum(ends / results.scale(experiment, piece), FLOOR)
                n_good[name] = int(np.sum(ends <= GOOD * ends.min())) if np.isfinite(ends.min()) else 0
                sizes[name] = len(ends)
            holds = holds and n_good[STORM] / sizes[STORM] > n_good[RIVAL] / sizes[RIVAL]
            words.append(f"{case}: {n_good[STORM]} of {sizes[STORM]} against {n_good[RIVAL]} of {sizes[RIVAL]}")
    return holds, None, f"{_capital('; '.join(words))}."


def _tuned(results, experiment, holds):
    """Whether a claim holds tuned; undecided where it does not, and STORM-C's best rate ends its grid."""
    at_end = any(methods[STORM]["at_end"] for methods in results.part(experiment, "tuned").values())
    return UNDECIDED if at_end and not holds["tuned"] else holds["tuned"]


def _count(results):
    counts = results["theory/Lemma 3.1"]["counts"]
    equal = sum(used == said for used, said in counts)
    return equal == len(counts), None, f"{equal} of {len(counts)} runs with random batch sizes used exactly that many."


def _accuracy(results):
    found = results["theory/Theorem 1"]
    mean, eps = float(np.mean(found["means"])), found["epsilon"]
    condition = results["theory/Proposition 3.2"]["corrected"]["condition"]
    return (
        condition <= 1 / 16 and mean <= eps,
        None,
        f"Left side {_number(condition)} (corrected), at most 1/16 = 0.0625: the mean of |grad Phi| over "
        f"{found['iterations']} iterates is {_number(mean)}, eps = {eps:g}; at x_0 it is {_number(found['start'])}.",
    )


def _parameters(results):
    found = results["theory/Proposition 3.2"]
    paper, corrected = found["paper"], found["corrected"]
    return (
        max(paper["condition"], paper["printed_condition"]) <= 1 / 16 and paper["equipartition"] <= 1 + 1e-9,
        None,
        f"As printed the left side is {_number(paper['condition'])} ({_number(paper['printed_condition'])} by the "
        f"theorem as printed), where at most 0.0625 is allowed. With the proposition corrected (see below) it is "
        f"{_number(corrected['condition'])}.",
    )


def _closing_formula(results):
    found = results["theory/Proposition 3.2"]["corrected"]
    ratio = found["closing_formula"] / found["ifo"]
    return (
        abs(ratio - 1) <= 0.01,
        None,
        f"{_number(found['closing_formula'])} by the formula, {_number(found['ifo'])} by Lemma 3.1, at eps = "
        f"{results['theory/Proposition 3.2']['epsilon']:g}: the factor (32/3) L_Phi Delta is missing.",
    )


def slopes(results):
    """The fitted exponents of `sk_stormc.reproduce.complexity`, by row; nothing where two eps were not reached."""
    rows = [row for name, piece in results.pieces.items() if name.startswith("complexity/") for row in piece.items()]
    return {name: fit_slope(row["epsilons"], row["ifo"], row["resampled"]) for name, row in rows}


def _order(results):
    storm = slopes(results)[STORM]
    return storm.high <= ORDER, None, f"Exponent {_interval(storm)}."


def _number(value):
    if not np.isfinite(value):
        return "overflow"
    return f"{value:.3g}"


def _interval(slope):
    return f"{slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]"


def _capital(text):
    return text[0].upper() + text[1:]


_AVERAGES, _REDUCED = ("scgd", "asc-pg"), ("vrsc-pg", "sarah-c")
_OTHERS = tuple(name for name in METHODS if name != STORM)
CLAIMS = (
    Claim("Lemma 3.1", "T iterations of Algorithm 1 take S_g + S_dg + S_f + T (B_g + B_dg + B_f) calls.", _count),
    Claim("Theorem 1", "Where its condition holds, E|grad Phi(x^)| is at most eps.", _accuracy, theory=True),
    Claim("Proposition 3.2", "Its parameters meet the condition of Theorem 1.", _parameters),
    Claim("Proposition 3.2", "Its closing formula is the number of calls.", _closing_formula),
    Claim("Corollary 3.1", "The number of calls grows at most as eps^-3.", _order, theory=True),
    *(
        _compared(experiment, others, "ends lower than", ahead)
        for experiment in ("portfolio", "bellman", "sne")
        for others in (_AVERAGES, _REDUCED)
    ),
    _compared("streaming", _OTHERS, "is at least as good as", as_good),
    Claim("All experiments", "STORM-C is simpler to tune than SARAH-C.", _simpler),
)
