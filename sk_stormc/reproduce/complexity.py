"""Complexity, measured: the IFO that a method needs for E|grad Phi| <= eps, and its
growth as eps decreases.

The problem is a bent valley in ten variables along which Phi decreases for ever
(non-convex, known constants, noise that never vanishes), for seven values of eps over
1.5 decades. As in the theorems, x^ is uniform among the iterates. The criterion is
therefore the average of the exact |grad Phi(x_t)| over the iterates and the seeds. For
each eps the parameters of a method have the order that its theory requires, times
constants that are the same for all eps.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.stats import linregress
from scipy.stats import t as student
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.cli.arguments import progress_line, save_figure
from sk_stormc.compare.tables import as_text, finite
from sk_stormc.core.schedules import power
from sk_stormc.reproduce.bent_valley import BentValley
from sk_stormc.reproduce.experiment import MAX_IFO
from sk_stormc.solvers import StopReason, minimize
from sk_stormc.theory import storm_parameters
from sk_stormc.utils.parameters import check_int
from sk_stormc.utils.warnings import ignored

EPSILONS = tuple(0.4 * 10 ** (-k / 4) for k in range(7))
SEEDS = 20
RESAMPLES = 200  # number of bootstrap samples over seeds


def _storm(eps):
    B = math.ceil(1 / eps)
    return {
        "momentum": 0.5 * eps,
        "batch_size": B,
        "init_batch_size": B,
        "learning_rate": 2.0,
        "precision": eps,
        "normalization": "global",
    }


def _sarah(eps):
    sizes = {
        "batch_size": math.ceil(3 / eps),
        "checkpoint_batch_size": math.ceil(2 / eps**2),
    }
    return {**sizes, "epoch_length": math.ceil(1 / eps), "learning_rate": 0.5}


def _scgd(eps):
    return {"batch_size": math.ceil(1 / eps**2), "learning_rate": 0.5, "beta": 0.9}


def _scgd_published(eps):
    return {"batch_size": 4, "learning_rate": power(-3 / 4, 4.0), "beta": power(-1 / 2)}


def _storm_any_time(eps):
    return {"batch_size": 16, "learning_rate": 0.5}


# The theory's exponent of 1/eps, and the parameters as a function of eps. Names begin
# with that of the method. None of the constants was chosen for a particular eps.
ROWS = {
    "storm-c-paper": ("3", _storm),
    "storm-c-paper, a_t = 1/(t+1)": ("-", _storm_any_time),
    "sarah-c": ("3", _sarah),
    "scgd": ("4", _scgd),
    "scgd, published steps": ("8", _scgd_published),
}
METHODS = {
    method: [name for name in ROWS if name.startswith(method)]
    for method in ("storm-c-paper", "sarah-c", "scgd")
}


class Slope(NamedTuple):
    """A fitted exponent, log IFO against log(1/eps), and its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def interval(self):
        """The interval as text."""
        return f"[{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Measured:
    """The cost of a method for each eps, in decreasing order down to the last one that
    was reached."""

    name: str
    order: str
    epsilons: np.ndarray
    # IFO of the shortest run whose average of |grad Phi(x_t)|, over iterates and seeds,
    # is at most eps
    ifo: np.ndarray
    # the same for seeds resampled with replacement, of shape (n_resamples, n_reached)
    resampled: np.ndarray
    slope: Slope


def run_complexity(
    methods=METHODS,
    epsilons=EPSILONS,
    *,
    max_ifo=MAX_IFO["complexity"],
    n_seeds=SEEDS,
    first_seed=0,
    progress=lambda text, fraction: None,
):
    """Measure the IFO that each method needs for each eps."""
    check_int("first_seed", first_seed, low=0)
    measured, names = [], [name for method in methods for name in METHODS[method]]
    for i, name in enumerate(names):
        costs, every = [], 1
        order, parameters = ROWS[name]
        for k, eps in enumerate(epsilons):
            progress(
                f"{name}, eps {eps:.4f}", (i + (k / len(epsilons)) ** 2) / len(names)
            )
            seeds = [
                (first_seed * len(epsilons) + k) * n_seeds + s for s in range(n_seeds)
            ]
            run = partial(_run, name.partition(",")[0], every=every, **parameters(eps))
            cost = _measure(run, eps, seeds, max_ifo)
            if cost is None:
                break
            costs.append(cost)
            every = max(1, cost[0] // 100)
        reached = np.array(epsilons[: len(costs)])
        ifo, *resampled = np.array(costs, dtype=float).reshape(-1, 1 + RESAMPLES).T
        measured.append(
            Measured(
                name,
                order,
                reached,
                ifo,
                np.array(resampled),
                fit_slope(reached, ifo, resampled),
            )
        )
    return measured


def _measure(run, eps, seeds, max_ifo):
    """IFO at the first record at which the mean over the seeds is at most eps, and that
    of the resamples; or None."""
    # one run, to a little less than eps, determines the length of all, which is
    # increased if necessary
    ifo, average = run(seeds[0], max_ifo, stop=0.9 * eps)
    if average[-1] > eps:
        return None  # the other seeds would take as long
    while True:
        horizon = ifo[-1]
        averages = np.array([run(seed, horizon)[1] for seed in seeds])
        reached = averages.mean(axis=0) <= eps
        if reached.any():
            break
        ifo, _ = run(seeds[0], min(max_ifo, 3 * horizon // 2))
        if ifo[-1] == horizon:
            return None
    draws = np.random.default_rng(seeds).integers(
        len(seeds), size=(RESAMPLES, len(seeds))
    )
    again = averages[draws].mean(axis=1) <= eps
    # a resample that has not reached eps counts with the whole length
    again[:, -1] = True
    return ifo[[reached.argmax(), *again.argmax(axis=1)]]


def _run(solver, seed, max_ifo, every, stop=0.0, **parameters):
    """IFO at the records after x_0, and the average of |grad Phi| over the iterates up
    to each record."""
    # (IFO, t, |grad Phi(x_t)|, sum of the norms up to t)
    problem, records = (BentValley(), [])

    def on_record(record):
        t = record.iteration
        norm = np.linalg.norm(problem.gradient(record.x))
        total = 0.0
        if records:
            _, t_old, norm_old, total = records[-1]
            total += (norm + norm_old) / 2 * (t - t_old)
        records.append((record.ifo, t, norm, total))
        return t and total / t <= stop

    limits = {"max_ifo": max_ifo, "max_iter": 60_000, "tol": 0, "record_every": every}
    # a warning about the Phi of the last point is irrelevant here
    with ignored(ConvergenceWarning):
        result = minimize(
            problem,
            solver,
            random_state=seed,
            on_record=on_record,
            **limits,
            **parameters,
        )
    if result.stop_reason == StopReason.INTERRUPTED:  # Ctrl-C ends the whole experiment
        raise KeyboardInterrupt
    ifo, t, _, total = np.array(records[1:] or [(0, 1, 0, math.inf)]).T
    return ifo.astype(int), total / t


def fit_slope(epsilons, ifo, resampled=None):
    """The exponent p of IFO ~ eps^-p, by least squares on logarithms, with a 95 %
    interval.

    The variance of the slope is the sum of the variance from the residuals, which is
    larger for a curve that is not a power law, and of the bootstrap variance, if given.
    The interval is Student's t with n - 2 degrees of freedom for n points. The
    residuals also contain the noise of the seeds, so the interval is too wide rather
    than too narrow.
    """
    if len(epsilons) < 2:
        return Slope(math.nan, math.nan, math.nan)
    x = -np.log(epsilons)
    fit = linregress(x, np.log(ifo))
    variance = fit.stderr**2
    if resampled is not None:
        variance += np.var(np.polyfit(x, np.log(resampled).T, 1)[0])
    half = student.ppf(0.975, len(x) - 2) * math.sqrt(variance)  # NaN for two points
    return Slope(fit.slope, fit.slope - half, fit.slope + half)


def proposition_ifo(epsilons=EPSILONS):
    """The IFO of Proposition 3.2 for each eps, or None where eps is too large for
    it."""
    constants, found = BentValley().constants(), []
    for eps in epsilons:
        try:
            found.append(storm_parameters(constants, eps).ifo)
        except ValueError:
            found.append(None)
    return found


def summarize(measured, epsilons=EPSILONS):
    """A table: slope, interval, the theory's exponent and the IFO at each eps; then the
    IFO of Proposition 3.2."""
    rows = [
        (m.name, m.order, f"{m.slope.value:.2f}", m.slope.interval, m.ifo)
        for m in measured
    ]
    rows.append(("Proposition 3.2", "3", "", "", proposition_ifo(epsilons)))
    header = (
        "method",
        "order",
        "slope",
        "95 % interval",
        *(f"eps {eps:.3g}" for eps in epsilons),
    )
    n = len(epsilons)
    return as_text(
        header,
        [
            (*row, *(finite(value, ".3g") for value in [*ifo, *[None] * n][:n]))
            for *row, ifo in rows
        ],
    )


def draw_slopes(measured):
    """IFO against eps, with the fitted lines."""
    from sk_stormc.plotting._style import draw_grid, styles_of, unmanaged_figure

    figure = unmanaged_figure(6.4, 4.6)
    ax = figure.subplots()
    styles = styles_of(m.name for m in measured)
    for m in measured:
        if not m.ifo.size:
            continue
        errors = np.abs(np.percentile(m.resampled, [2.5, 97.5], axis=0) - m.ifo)
        label = f"{m.name}: {m.slope.value:.2f} {m.slope.interval}"
        color, marker = styles[m.name]["color"], styles[m.name]["marker"]
        ax.errorbar(
            m.epsilons,
            m.ifo,
            errors,
            fmt=marker,
            color=color,
            ms=5,
            capsize=3,
            label=label,
        )
        level = np.mean(np.log(m.ifo) + m.slope.value * np.log(m.epsilons))
        ax.plot(
            m.epsilons,
            np.exp(level) * m.epsilons**-m.slope.value,
            color=color,
            linewidth=1.2,
        )
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="eps",
        ylabel="IFO to  E$|\\nabla\\Phi|$ <= eps",
    )
    ax.invert_xaxis()
    draw_grid(ax)
    ax.legend(title="slope [95 % interval]", fontsize="small")
    return figure


def add_arguments(parser):
    """Add the experiment's own option."""
    parser.add_argument(
        "--repetition",
        type=int,
        default=0,
        metavar="R",
        help="another number takes other seeds (default: 0)",
    )


def report(args):
    """Run the experiment, print its table and save its figure."""
    with progress_line() as show:
        measured = run_complexity(
            args.methods,
            max_ifo=args.ifo,
            n_seeds=args.seeds,
            first_seed=args.repetition,
            progress=show,
        )
    if not any(m.ifo.size for m in measured):
        raise ValueError(
            f"--ifo must pay for the largest eps, {EPSILONS[0]:g}, by some method; "
            f"got {args.ifo}"
        )
    print(
        "A bent valley of 10 variables, non-convex; constants known. IFO to E|grad "
        "Phi(x^)| <= eps, x^ uniform among"
    )
    print(
        f"the iterates, means over {args.seeds} seeds; parameters follow eps by the "
        "theory's orders.\n"
    )
    print(summarize(measured))
    print(
        "\norder: the theory's exponent. Intervals: least squares on logarithms, "
        "variance of the residuals plus that of\na bootstrap over seeds. -: not "
        "reached within the budget (or, Proposition 3.2: eps too large for it)."
    )
    slopes = {m.name: m.slope for m in measured}
    if "storm-c-paper" in slopes and "scgd" in slopes:
        high, low = slopes["storm-c-paper"].high, slopes["scgd"].low
        print(
            f"storm-c-paper's interval ends at {high:.2f}, scgd's begins at {low:.2f}."
        )
    save_figure(draw_slopes(measured), args.out, dpi=110)
    print(f"\nPicture written to {args.out}")
