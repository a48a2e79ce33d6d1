"""The paper's Bellman experiment: five published methods, the automatic one and L-BFGS on a random model.

400 states with 100 random features, gamma = .95, all methods from w = 0, inner values from an independent successor of
every state. The published constants act on the mean over the states; n Phi is the paper's sum. In the published code
an epoch of VRSC-PG and SARAH-C begins with one component of f that is charged as 100. Here both are run, and each is
charged what it samples: one component, and a hundred.
"""

import numpy as np

from sk_stormc.datasets.markov import make_bellman_problem
from sk_stormc.reproduce.progress import progress_line
from sk_stormc.reproduce.runner import Case, check_methods, group_runs, run_methods, summarize

__all__ = ["MAX_IFO", "METHODS", "run_bellman"]

MAX_IFO = 144_000  # 360 n

_AVERAGING = {"learning_rate": 1e-5, "batch_size": (100, 100, 1), "beta": 0.9, "tol": 0}
_EPOCHS = {"checkpoint_batch_size": (100, 100, 1), "batch_size": (5, 5, 1), "epoch_length": 100, "tol": 0}
METHODS = {
    "scgd": _AVERAGING,
    "asc-pg": _AVERAGING,
    "vrsc-pg": {**_EPOCHS, "learning_rate": 5e-4},
    "sarah-c": {**_EPOCHS, "learning_rate": 1e-5},
    "storm-c-paper": {"tol": 0},
    "storm-c": {"tol": 1e-6},
    "lbfgs": {"tol": 1e-6},
}
AUTOMATIC = ("storm-c", "lbfgs")  # with the problem's metric; the published steps are without
ROWS = {  # of the picture
    "checkpoint f 1": "published constants,\ncheckpoints with 1 component of f",
    "checkpoint f 100": "checkpoints with\n100 components of f",
    "momentum .02": "momentum .02\nin place of .1",
    "automatic": "automatic steps,\nin a metric",
}
_MARKERS = dict(zip(METHODS, "os^vDPX", strict=True))
_TICKS = {0: "0", **{k * 1000: f"{k}k" for k in (2, 5, 10, 20, 50, 100, 200, 500)}}
_COINCIDE = 0.01  # relative: curves that are nowhere farther apart lie on one another


def run_bellman(model=None, methods=tuple(METHODS), *, max_ifo=MAX_IFO, n_seeds=3, progress=None):
    """Run the Bellman experiment: minimise the mean squared Bellman residual from w = 0."""
    methods = check_methods(methods, METHODS)
    model = make_bellman_problem(random_state=1) if model is None else model
    published, scaled = model.problem(metric=None), model.problem()
    x0 = published.initial_point(None)
    optimum = published.objective(published.minimizer())
    scale = published.objective(x0) - optimum

    def case(name, problem=published):
        return Case(name, problem, x0, optimum, scale)

    def some(names, **changes):
        return {name: {**methods[name], **changes} for name in names if name in methods}

    first = [name for name in methods if name not in AUTOMATIC]
    jobs = [
        ([case("checkpoint f 1")], some(first)),
        ([case("checkpoint f 1", scaled)], some(AUTOMATIC)),
        ([case("checkpoint f 100")], some(("vrsc-pg", "sarah-c"), checkpoint_batch_size=(100, 100, 100))),
        ([case("momentum .02")], some(("storm-c-paper",), momentum=0.02)),
    ]
    jobs = [(cases, wanted) for cases, wanted in jobs if wanted]
    runs = []
    for k, (cases, wanted) in enumerate(jobs):

        def show(text, fraction, k=k):
            if progress is not None:
                progress(text, (k + fraction) / len(jobs))

        runs += run_methods(cases, wanted, max_ifo=max_ifo, n_seeds=n_seeds, progress=show)
    return runs


def add_arguments(parser):
    """Add no option: the model is the paper's."""


def report(args):
    """Run the experiment, print its table and write its picture."""
    model = make_bellman_problem(random_state=1)
    n = model.transition_matrix.shape[0]
    with progress_line() as show:
        runs = run_bellman(model, args.methods, max_ifo=args.ifo, n_seeds=args.seeds, progress=show)
    start, optimum = runs[0].gap[0] + runs[0].optimum, runs[0].optimum
    print(f"The paper's model: {n} states, {model.features.shape[1]} features, gamma = {model.gamma}; w_0 = 0.")
    print(f"n Phi: {n * optimum:.4f} at the minimum (least squares), {n * start:.4f} at w_0.")
    print("Published constants; storm-c and lbfgs choose their own steps, in a metric, and stop at tol=1e-6.\n")
    print(summarize(runs))
    print(f"Initial gap: {runs[0].gap[0]:.4e}; the passes are to 1e-3 of it.")
    draw(runs).savefig(args.out, dpi=150)
    print(f"\nPicture written to {args.out}")


def draw(runs):
    """The picture of the runs: a row for each case, and one for the automatic methods."""
    from sk_stormc.plotting import plot_curves  # matplotlib: not for --help

    panels = {}
    for case, methods in group_runs(runs).items():
        for method, seeds in methods.items():
            row = panels.setdefault(ROWS["automatic" if method in AUTOMATIC else case], {})
            row[method] = [(r.ifo, r.gap / r.gap[0], r.gradient_norm) for r in seeds]
    panels = {row: panels[row] for row in ROWS.values() if row in panels}
    labels = ["gap / gap at the start", "exact gradient  $|\\nabla\\Phi(w)|$"]
    figure = plot_curves(panels, labels)
    figure.set_size_inches(11, 2.9 * len(panels) + 1)
    lines = {}
    for ax in figure.axes:
        _set_ticks(ax)
        for k, line in enumerate(ax.get_lines()):
            # at equal distances along the curve, and of each curve elsewhere
            line.set(marker=_MARKERS[line.get_label()], markersize=6, markevery=(0.02 + 0.03 * k, 0.17))
            line.set(markerfacecolor="white", markeredgecolor=line.get_color(), markeredgewidth=1.4)
            lines.setdefault(line.get_label(), line)
    names = {name: name + _lies_on(name, panels) for name in lines}
    figure.legends[0].remove()
    figure.legend(lines.values(), names.values(), loc="outside lower center", ncols=4, handlelength=4)
    return figure


def _set_ticks(ax):
    """Ticks in plain numbers, several to a decade unless the curves fall through many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    low, high = ax.get_ylim()
    many = high > 1e3 * low
    if not many:
        y = np.concatenate([line.get_ydata() for line in ax.get_lines()])
        ax.set_ylim(min(y.min(), 0.5 * y.max()) / 1.25, 1.25 * y.max())
    ax.yaxis.set_major_locator(LogLocator(100) if many else LogLocator(10, subs=(1, 1.5, 2, 3, 5, 7)))
    if not many:
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())
    right = ax.get_xlim()[1]
    ticks = {x: text for x, text in _TICKS.items() if x <= right}
    if len(ticks) > 1:
        ax.set_xticks(list(ticks), list(ticks.values()))
    ax.tick_params(labelbottom=True)


def _lies_on(name, panels):
    """Which earlier curve hides that of a method wherever both are drawn, as a remark for the legend."""
    others = list(METHODS)[: list(METHODS).index(name)]
    for other in others:
        both = [methods for methods in panels.values() if name in methods and other in methods]
        if both and all(_coincide(methods[name], methods[other]) for methods in both):
            return f" (on the curve of {other})"
    return ""


def _coincide(one, other):
    for (x, *curves), (at, *beside) in zip(one, other, strict=True):
        for y, z in zip(curves, beside, strict=True):
            if not (np.abs(y - np.interp(x, at, z)) <= _COINCIDE * np.abs(y)).all():
                return False
    return True
