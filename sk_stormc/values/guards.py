"""What of logged transitions looks like a mistake, though nothing in it is out of range."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.utils.warnings import warn

__all__ = [
    "check_given",
    "effective_size",
    "told",
    "warn_of_ranges",
    "warn_of_ratios",
    "warn_of_scales",
    "warn_of_state_numbers",
    "warn_of_unknown_successors",
]

ROUTING = (
    "est.set_fit_request({0}).set_score_request({0}) after sklearn.set_config(enable_metadata_routing=True) has "
    "GridSearchCV and the like hand them on"
)
QUANTILES = 500  # rows that are enough for them
LOOKED_AT = 2000  # rows that are enough to see how most go on
GOING_ON = 0.8  # of the rows: where so many agree on how next_X is scaled, they follow one another
UNKNOWN = 0.01  # of the successors
FEW = 20  # rows
FAR, OFF = 6, 0.05  # standard errors, and more, by which a mean of ratios may be off
FEWEST = 5  # successors beyond the range of X that are worth a warning, at the least


def told(next_X, terminal, time, before=None, episode=None):
    """Names of the arguments given, here or ``before``, and whether an episode ends, for `check_given` later."""
    known, ends = before or ((), False)
    named = {"next_X": next_X, "terminal": terminal, "time": time, "episode": episode}
    names = tuple(name for name, value in named.items() if value is not None or name in known)
    if ends and terminal is None and next_X is not None:
        warn("terminal was given before, and is None here: no transition is taken to end an episode. Give terminal, of "
             "False where none does.")
    return names, ends or (terminal is not None and bool(np.any(terminal)))


def check_given(estimator, next_X, terminal, time, episode=None):
    """Raise where fit knew of successors and the transitions to be scored come without, as in a search without routing.

    Without any of them each row would be an episode of one step.
    """
    known, ends = getattr(estimator, "_given", ((), False))  # not there after unpickling what an old version made
    if not known:
        return
    if next_X is None and terminal is None and time is None and episode is None:
        names = " and ".join(known)
        raise ValueError(
            f"{names} must be given to score and td_error as they were to fit: without them each row would be scored "
            f"as an episode of one step; {ROUTING.format(', '.join(f'{name}=True' for name in known))}."
        )
    if terminal is None and ends:
        warn(
            "fit was given terminal, and score or td_error was not: no transition is taken to end an episode. Give "
            "terminal, of False where none does.",
        )


def warn_of_ranges(states, follows, terminal):
    """Warn if most successors are far outside what X has in a column: X was scaled and next_X was not, or the reverse.

    Far is further than the width of the middle nine tenths of X's column from them. Columns of which nine tenths are
    one number are not looked at.
    """
    going = np.flatnonzero(~terminal)
    if len(going) < FEWEST:
        return
    follows = follows[going[:: -(-len(going) // QUANTILES)]]
    states = states[:: -(-len(states) // QUANTILES)]
    low, high = np.quantile(states, [0.05, 0.95], axis=0)
    width = high - low
    beyond = ((follows < low - width) | (follows > high + width)).sum(axis=0) * (width > 0)
    j = int(np.argmax(beyond))
    if beyond[j] < FEWEST or 2 * beyond[j] <= len(follows):
        return
    warn(
        f"next_X is far outside the range of X in column {j}: X has {low[j]:.4g} to {high[j]:.4g}, next_X has values "
        f"such as {np.median(follows[:, j]):.4g}. If X was transformed and next_X was not (in a Pipeline, say), give "
        "the transformer as features=, which transforms both.",
    )


def warn_of_scales(states, follows, terminal):
    """Warn if X of the rows is next_X of the rows before them, times one number and plus another in each column."""
    left, came, going = states[1:LOOKED_AT], follows[: LOOKED_AT - 1][: len(states) - 1], ~terminal[: LOOKED_AT - 1]
    left, came = left[going[: len(left)]], came[going[: len(left)]]
    off = None
    for j in np.flatnonzero(np.ptp(came, axis=0) > 0 if len(came) else ()):
        steps, times = np.diff(came[:, j]), np.diff(left[:, j])
        steps, times = steps[steps != 0], times[steps != 0]
        if len(steps) < FEWEST:
            continue
        width = np.ptp(left[:, j])
        with np.errstate(over="ignore", invalid="ignore"):
            factor = np.median(times / steps)
            shift = np.median(left[:, j] - factor * came[:, j])
            agree = abs(left[:, j] - factor * came[:, j] - shift) <= 1e-4 * width
            differ = abs((factor - 1) * came[:, j] + shift).max() > 0.01 * width
        if factor == 0 or np.mean(agree) < GOING_ON:
            return
        if differ:
            off = off or (j, factor, shift)
    if off:
        warn(
            f"next_X is scaled as X is not: in column {off[0]}, X is {off[1]:.4g} times next_X of the row before plus "
            f"{off[2]:.4g}. If X was transformed and next_X was not (in a Pipeline, say), give the transformer as "
            "features=, which transforms both.",
        )


def effective_size(weights):
    """How many equal weights say as much as these."""
    largest = weights.max(initial=0.0)
    return float((weights / largest).sum() ** 2 / np.square(weights / largest).sum()) if largest > 0 else 0.0


def warn_of_ratios(ratios):
    """Warn if ratios of probabilities are not 1 on average, as they would be, or if few rows have all the weight."""
    n, mean, size = len(ratios), ratios.mean(), effective_size(ratios)
    if 0 < size < min(FEW, n / 5):
        warn(
            f"importance_ratio gives nearly all weight to few of the {n} rows, which stand for {size:.3g} rows of the "
            "policy itself: the log hardly has what the policy does."
        )
    elif abs(mean - 1) > FAR * ratios.std() / np.sqrt(n) + OFF:
        warn(
            f"importance_ratio is {mean:.3g} on average, and would be 1 for the probabilities of what was done under a "
            "policy, over those under the one that acted. Are the two swapped, or does the policy do what was never "
            "done?"
        )


def warn_of_unknown_successors(next_Z, known):
    """Warn if successors have features that no left state has, whose coefficients are 0 whatever they are worth."""
    number = np.count_nonzero(np.asarray(abs(next_Z[:, ~known]).sum(axis=1)))
    if number > max(FEWEST, UNKNOWN * next_Z.shape[0]):
        warn(
            f"{number / next_Z.shape[0]:.0%} of the successors have a feature that no left state has, such as the "
            "indicator of a state in which every episode was cut off. Its coefficient is 0, whatever it is worth. If "
            "episodes end there, say so by terminal."
        )


def warn_of_endless_values():
    """Warn of transitions along which features grow by more than the discount takes off."""
    warn(
        "The values do not exist: by these transitions, something that is linear in the features is multiplied by more "
        "than 1 / gamma in each step, so that the sum of its discounted rewards has no end, and coef_ means nothing. "
        "Lower gamma, say by terminal where episodes end, or take features that stay bounded.",
        ConvergenceWarning,
    )


def warn_of_state_numbers(features, states):
    """Warn if X seems to be the numbers of states, which have no scale that a linear value could follow."""
    if features is not None or states.shape[1] != 1 or (states != np.rint(states)).any():
        return
    values = np.unique(states)
    if 2 < len(values) <= len(states) / 2:  # of two states, a line through both is as good as indicators
        warn(
            f"X has one column, of {len(values)} integers that repeat: if these are numbers of states, their values "
            "are not linear in them. Give features=OneHotEncoder(handle_unknown='ignore') then.",
        )
