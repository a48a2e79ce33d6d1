"""The paper's claims, and how measured numbers decide about them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sk_stormc.reproduce.complexity import METHODS as ROWS
from sk_stormc.reproduce.report.grids import METHODS, STORM
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
    "verdict",
]

CONFIRMED, THERE_ONLY, NOT_CONFIRMED = "confirmed", "confirmed at those constants only", "not confirmed"
NOT_CONTRADICTED, UNDECIDED = "not contradicted", "undecided"
NEAR = 0.01  # of what there was to gain: nearer counts as having converged
FLOOR = 1e-4  # of what there was to gain: nearer counts as the minimum itself
ORDER = 3.3  # largest upper end of an interval that still agrees with an order of at most 3
TITLES = {
    "portfolio": "Finite-sum portfolio",
    "streaming": "Streaming portfolio",
    "bellman": "Bellman",
    "sne": "SNE",
}

RULE = f"""\
A verdict is computed from the numbers below by this rule, and nothing else:

- A statement is tried at the published constants, and once more with every method tuned. It is **{CONFIRMED}** if it
  holds both times, **{THERE_ONLY}** if it holds with the published constants but not with
  tuned ones, and **{NOT_CONFIRMED}** if it does not hold with the published constants, whatever tuning does
  (where it holds when tuned, that is said). A statement that has no constants to be tuned is tried once.
- Tuning widens a grid while its best learning rate stands at an end. Where it still does after {WIDER} more rates, and
  the statement holds with the published constants, it is **{UNDECIDED}**.
- "STORM-C is ahead of others" holds if on every data set each of its seeds ends lower than all seeds of the others.
  Where seeds overlap nothing is seen, and it does not hold. Ends within {FLOOR:g} of what there was to gain are the
  minimum for this purpose, all alike, and a run that overflowed is behind all others.
- "STORM-C comes near the minimum" holds if on every data set the median of its seeds ends within {NEAR:g} of what
  there was to gain. For portfolios that is |Phi*|, as Phi is 0 for weights of 0; elsewhere it is the way from the start
  to the minimum. For SNE, which has many local minima, the minimum is the lowest divergence of all runs in this report.
- Statements of theory are tried on one problem, whose constants are known (that of the section on complexity). One
  problem can refute a theorem, and cannot prove it: where it holds it is **{NOT_CONTRADICTED}**.
- An order of at most eps^-3 holds if the 95 % interval of the fitted exponent ends at or below {ORDER}. It is an upper
  bound, so that a smaller exponent agrees with it too. One order is below another if the two intervals do not overlap.
"""


def verdict(published, tuned=None, theory=False):
    """The verdict on a claim.

    Parameters
    ----------
    published : bool
        Whether it holds at the published constants.
    tuned : bool, "undecided" or None, default=None
        Whether it holds with every method tuned; None where nothing can be.
    theory : bool, default=False
        Whether it is a statement for all problems, of which one was tried.

    Returns
    -------
    str

    Examples
    --------
    >>> from sk_stormc.reproduce.report.claims import verdict
    >>> verdict(True, True), verdict(True, False), verdict(False, True)
    ('confirmed', 'confirmed at those constants only', 'not confirmed')
    >>> verdict(True, "undecided"), verdict(True, theory=True)
    ('undecided', 'not contradicted')
    """
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
        for part in ("published", "tuned", "defaults"):
            for methods in self.part(experiment, part).values():
                for piece in methods.values():
                    yield from piece["curves"]


def ahead(ends, others):
    """Whether each seed of one method ended lower than all seeds of others; at the minimum all are equal.

    Parameters
    ----------
    ends : array-like of float
    others : list of array-like of float

    Returns
    -------
    bool
    """
    return bool(max(np.max(ends), FLOOR) < min(np.min(other) for other in others))


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


def _ahead_of(experiment, others):
    names = " and ".join(name.upper() for name in others)

    def decide(results):
        holds, words = {}, []
        for part in ("published", "tuned"):
            cases = results.part(experiment, part)
            found = []
            for case, methods in cases.items():
                ends = {name: results.ends(experiment, methods[name]) for name in (STORM, *others)}
                holds[part] = holds.get(part, True) and ahead(ends[STORM], [ends[name] for name in others])
                best = min(others, key=lambda name, ends=ends: np.median(ends[name]))
                found.append(
                    f"{case}: {_number(np.median(ends[STORM]))} against {_number(np.median(ends[best]))} "
                    f"({best.upper()})"
                )
            words.append(f"{part} - {'; '.join(found)}")
        return holds["published"], _tuned(results, experiment, holds), ". ".join(map(_capital, words)) + "."

    return Claim(f"{TITLES[experiment]} experiment", f"At equal oracle calls STORM-C ends lower than {names}.", decide)


def _comes_near(experiment):
    def decide(results):
        holds, words = {}, []
        for part in ("published", "tuned"):
            ends = {
                case: np.median(results.ends(experiment, methods[STORM]))
                for case, methods in results.part(experiment, part).items()
            }
            holds[part] = bool(ends) and all(end <= NEAR for end in ends.values())
            words.append(f"{part} - {'; '.join(f'{case}: {_number(end)}' for case, end in ends.items())}")
        return holds["published"], _tuned(results, experiment, holds), ". ".join(map(_capital, words)) + "."

    return Claim(f"{TITLES[experiment]} experiment", "STORM-C converges: it comes near the minimum.", decide)


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
    found = {}
    for method in ROWS:
        for name, row in results[f"complexity/{method}"].items():
            found[name] = fit_slope(row["epsilons"], row["ifo"], row["resampled"])
    return found


def _order(results):
    storm = slopes(results)["storm-c"]
    return storm.high <= ORDER, None, f"Exponent {_interval(storm)}."


def _order_below_scgd(results):
    found = slopes(results)
    storm, tuned, published = found["storm-c"], found["scgd"], found["scgd, published steps"]
    return (
        storm.high < published.low,
        storm.high < tuned.low,
        f"STORM-C {_interval(storm)}; SCGD with the steps of its paper {_interval(published)}, with constant steps "
        f"and batches of eps^-2 {_interval(tuned)}.",
    )


def _number(value):
    if not np.isfinite(value):
        return "overflow"
    return f"{value:.3g}"


def _interval(slope):
    return f"{slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]"


def _capital(text):
    return text[0].upper() + text[1:]


_AVERAGES = tuple(name for name in METHODS if name in ("scgd", "asc-pg"))
_REDUCED = tuple(name for name in METHODS if name in ("vrsc-pg", "sarah-c"))
CLAIMS = (
    Claim("Lemma 3.1", "T iterations of Algorithm 1 take S_g + S_dg + S_f + T (B_g + B_dg + B_f) calls.", _count),
    Claim("Theorem 1", "Where its condition holds, E|grad Phi(x^)| is at most eps.", _accuracy, theory=True),
    Claim("Proposition 3.2", "Its parameters meet the condition of Theorem 1.", _parameters),
    Claim("Proposition 3.2", "Its closing formula is the number of calls.", _closing_formula),
    Claim("Corollary 3.1", "The number of calls grows at most as eps^-3.", _order, theory=True),
    Claim("Complexity", "The order of STORM-C is below that of SCGD.", _order_below_scgd),
    *(
        claim
        for experiment in TITLES
        for claim in (
            _ahead_of(experiment, _AVERAGES),
            _ahead_of(experiment, _REDUCED),
            _comes_near(experiment),
        )
    ),
)
