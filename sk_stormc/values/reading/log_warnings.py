"""Warnings about logged transitions that are valid but look wrong."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.utils.warnings import warn
from sk_stormc.values.reading.episodes import WARNED_SHARE

ROUTING = (
    "est.set_fit_request({0}).set_score_request({0}) after "
    "sklearn.set_config(enable_metadata_routing=True) makes "
    "GridSearchCV and the like pass them on"
)
# fraction of the values that must satisfy linear relations between X and next_X before
# there is a warning that their scales differ; chance alone does not bring so many
LINEAR_SHARE = 0.8
# difference of equal values, relative to the range of their column; without it, values
# that were rounded to four digits would differ
EQUAL_UP_TO = 1e-4
# number of unusual successors that there must be for a warning; fewer may be outliers
MIN_UNUSUAL = 5


def check_given(estimator, log_columns):
    """Raise a ValueError if `fit` was given successors but a score was not, as in a
    search without metadata routing.

    Without successors each row would be an episode of one step.
    """
    names, ends = estimator._given
    if not names:
        return
    if not log_columns.successor_names():
        raise ValueError(
            f"{' and '.join(names)} must be given to score and td_error as they were "
            "to fit: without them each row would be scored as an episode of one step; "
            f"{ROUTING.format(', '.join(f'{name}=True' for name in names))}."
        )
    if log_columns.terminal is None and ends:
        warn(
            "fit was given terminal, and score or td_error was not: no transition "
            "counts as the end of an episode. "
            "Give terminal, with False for transitions that do not end one.",
        )


def warn_of_no_ends(log_columns, episodes):
    """Warn if a log has ``episodes``, and it is not known whether any of them ends."""
    if log_columns.terminal is None and episodes:
        then = (
            "the last row of each is dropped"
            if log_columns.next_X is None
            else "continue from their last next_X"
        )
        warn(
            f"terminal was not given: all episodes count as cut off, and {then}. If "
            "episodes end, pass terminal, which is True for the transitions that end "
            "one; otherwise pass False for all transitions."
        )


def warn_of_gaps(n_gaps):
    """Warn if rows within episodes are missing, whose ratios and rewards are
    unknown."""
    if n_gaps:
        warn(
            f"time has {n_gaps} gaps within episodes, and rows that are missing there "
            "have neither ratios nor rewards in the value: leave such episodes out. If "
            "time only gives the order, number the rows of an episode."
        )


def warn_of_ranges(states, follows, terminal):
    """Warn if most successors are far outside the range of X in a column, as if only
    one of the two was scaled.

    A value is far outside if its distance from the range between the 5 % and 95 %
    quantiles of the column exceeds the width of this range. Columns with a width of 0
    are not checked. If a column of X has few different values, most of those of next_X
    must be among them.
    """
    ongoing = np.flatnonzero(~terminal)
    if len(ongoing) < MIN_UNUSUAL:
        return
    follows, states = _some(follows[ongoing]), _some(states)
    low, high = np.quantile(states, [0.05, 0.95], axis=0)
    width = high - low
    beyond = ((follows < low - width) | (follows > high + width)).sum(axis=0) * (
        width > 0
    )
    different = 1 + np.count_nonzero(np.diff(np.sort(states, axis=0), axis=0), axis=0)
    for j in np.flatnonzero(different <= np.sqrt(len(states))):
        values = np.unique(states[:, j])
        near = EQUAL_UP_TO * max(np.ptp(values), EQUAL_UP_TO * abs(values).max())
        beyond[j] = np.count_nonzero(
            abs(follows[:, j, None] - values).min(axis=1) > near
        )
    j = int(np.argmax(beyond))
    if beyond[j] < MIN_UNUSUAL or 2 * beyond[j] <= len(follows):
        return
    warn(
        f"next_X is far outside the range of X in column {j}, or has other values: X "
        f"has {low[j]:.4g} to {high[j]:.4g}, next_X has values such as "
        f"{np.median(follows[:, j]):.4g}. If X was transformed and next_X was not (in "
        "a Pipeline, say), give the transformer as features=, which transforms both.",
    )


def _some(rows):
    """At most 500 of the rows, evenly spaced, which are enough for quantiles."""
    return rows[:: -(-len(rows) // 500)]


def warn_of_scales(states, follows, terminal):
    """Warn if X of most rows is a linear function of next_X of the rows before, as if
    only one of them was scaled.

    In an ordered log the two are equal, except at the end of an episode that was cut
    off. If they are equal, their scales are the same. Otherwise linear relations are
    tested in the rows in which a column changes. An indicator that is hardly ever 1
    gives no information.
    """
    ongoing = np.flatnonzero(~terminal[: min(2000, len(states)) - 1])
    left, came = states[ongoing + 1], follows[ongoing]
    width = np.ptp(left, axis=0) if len(ongoing) else 0
    succeed = (abs(left - came) <= EQUAL_UP_TO * width).all(axis=1)
    if not len(ongoing) or np.mean(succeed) > 0.1:  # then the scales are the same
        return
    off, agreeing, compared = None, 0, 0
    # slopes between distant rows
    other = np.random.default_rng(0).permutation(len(ongoing))
    columns = np.flatnonzero(np.ptp(came, axis=0) > 0)
    for k, j in enumerate(columns):
        # not enough rows agree, even if all of the remaining ones do: a third of the
        # time of a fit of 5,000 rows
        rest = (len(columns) - k) * len(ongoing)
        if agreeing + rest < LINEAR_SHARE * (compared + rest):
            return
        rows = np.flatnonzero(came[:, j] != np.median(came[:, j]))
        steps, times = came[other, j] - came[:, j], left[other, j] - left[:, j]
        if min(len(rows), np.count_nonzero(steps)) < MIN_UNUSUAL:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            factor = np.median(times[steps != 0] / steps[steps != 0])
            shift = np.median(left[:, j] - factor * came[:, j])
            off_line = abs(left[rows, j] - factor * came[rows, j] - shift)
            agree = off_line <= EQUAL_UP_TO * width[j]
            differ = abs((factor - 1) * came[:, j] + shift).max() > 0.01 * width[j]
        agreeing = agreeing + np.count_nonzero(agree) * (factor > 0)
        compared = compared + len(rows)
        if factor > 0 and differ:
            off = off or (j, factor, shift)
    if off and agreeing >= LINEAR_SHARE * compared:
        warn(
            f"next_X and X have different scales: in column {off[0]}, X is "
            f"{off[1]:.4g} times next_X of the row before plus {off[2]:.4g}. If X was "
            "transformed and next_X was not (in a Pipeline, say), give the transformer "
            "as features=, which transforms both.",
        )


def effective_size(weights):
    """The effective sample size of weights (Kish): their squared sum over the sum of
    squares."""
    share = weights / (weights.max(initial=0.0) or 1.0)
    return float(share.sum() ** 2 / (np.square(share).sum() or 1.0))


def warn_of_ratios(ratios, name="importance_ratio"):
    """Warn if the mean of importance ratios differs too much from 1, or if few rows
    have nearly all the weight.

    Returns whether there was a warning.
    """
    with np.errstate(over="ignore"):
        deviation = ratios.std()
    return warn_of_mean_ratio(
        len(ratios), ratios.mean(), deviation, effective_size(ratios), name
    )


def warn_of_mean_ratio(n, mean, deviation, size, name="importance_ratio"):
    """`warn_of_ratios` for n ratios with this mean, standard deviation and effective
    sample size."""
    few = 0 < size < min(20, n / 5)
    # beyond 3.6 standard errors, and beyond the rounding of the ratios
    off = not few and abs(mean - 1) > max(3.6 * deviation / np.sqrt(n), 0.02)
    if few:
        warn(
            f"importance_ratio gives nearly all weight to few of the {n} rows, whose "
            "effective sample size is "
            f"{size:.3g}: the log hardly has the actions of the policy."
        )
    elif off:
        warn(
            f"{name} is {mean:.3g} on average, but should be about 1: a ratio is the "
            "probability of the action under the target policy, divided by that under "
            "the behaviour policy. Are the two swapped, or does the target policy take "
            "actions that the log lacks?"
        )
    return few or off


def warn_of_unknown_successors(next_Z, occurs):
    """Warn if successors have features that no row of X has, whose coefficients are
    unknown and set to 0."""
    number = np.count_nonzero(np.asarray(abs(next_Z[:, ~occurs]).sum(axis=1)))
    if number > max(MIN_UNUSUAL, WARNED_SHARE * next_Z.shape[0]):
        warn(
            f"{number / next_Z.shape[0]:.0%} of the successors have a feature that no "
            "row of X has, such as the indicator of a state in which every episode was "
            "cut off. Its coefficient is unknown and set to 0. If episodes end there, "
            "pass terminal."
        )


def warn_of_endless_values():
    """Warn if features grow along transitions faster than the discount reduces them."""
    warn(
        "The values do not exist: along these transitions, a linear function of the "
        "features grows by more than a factor of 1 / gamma in each step, so that the "
        "sum of discounted rewards diverges, and coef_ has no meaning. Lower gamma, "
        "pass terminal if episodes end, or use features that stay bounded.",
        ConvergenceWarning,
    )


def warn_of_no_information(high, low, ends, goes_on):
    """Warn if rewards and ends do not depend on the actions, so that no policy is
    better than another.

    The arguments are the highest and the lowest reward, whether an episode ends, and
    whether one goes on.
    """
    same = high - low <= 1e-12 * max(abs(high), abs(low))
    if not same or (high and ends and goes_on):
        return
    why = " and no episode ends" if goes_on else " and each row ends an episode"
    hint = "" if ends else " If episodes end, pass terminal."
    warn(
        "the log does not tell which action is better: all rewards are "
        f"{high:g}{why if high else ''}, so that every policy is worth the same. "
        f"Rounding or alpha decides which one is returned.{hint}"
    )


def warn_of_state_numbers(features, states):
    """Warn if X seems to contain the numbers of states: values are not linear in
    these."""
    if (
        features is not None
        or states.shape[1] != 1
        or (states != np.rint(states)).any()
    ):
        return
    values = np.unique(states)
    if (
        2 < len(values) <= len(states) / 2
    ):  # for two states a linear function is equivalent to indicators
        warn(
            f"X has one column, of {len(values)} integers that repeat: if these are "
            "numbers of states, their values are not linear in them. Then use "
            "features=OneHotEncoder(handle_unknown='ignore').",
        )
