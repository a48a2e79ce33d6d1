"""The paper's Bellman experiment: five published methods, the automatic one and L-BFGS on a random model.

400 states with 100 random features, gamma = .95, all methods from w = 0, inner values from an independent successor of
every state. The published constants act on the mean over the states; n Phi is the paper's sum. In the published code
an epoch of VRSC-PG and SARAH-C begins with one component of f that is charged as 100. Here both are run, and each is
charged what it samples: one component, and a hundred.
"""

from sk_stormc.datasets import make_bellman_problem
from sk_stormc.experiments.progress import progress_line
from sk_stormc.experiments.runner import Case, check_methods, group_runs, run_methods, summarize

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


def run_bellman(model=None, methods=tuple(METHODS), *, max_ifo=MAX_IFO, n_seeds=3, progress=None):
    """Run the Bellman experiment: minimise the mean squared Bellman residual from w = 0.

    Parameters
    ----------
    model : MarkovRewardProcess, default=None
        None means the paper's.
    methods : sequence of str, default=all of `METHODS`
        All but "storm-c" and "lbfgs" use the published constants.
    max_ifo : int, default=144,000
        Budget of each run: 360 n.
    n_seeds : int, default=3
    progress : callable, default=None
        Called with (text, fraction done).

    Returns
    -------
    list of sk_stormc.experiments.runner.Run
        Gaps are of the mean form. Three cases: a checkpoint with one component of f, with a hundred, and STORM-C with
        the momentum .02 of the published code.

    Raises
    ------
    ValueError
        For an unknown method, a max_ifo or n_seeds that is not an integer >= 1.

    Examples
    --------
    >>> from sk_stormc.datasets import make_bellman_problem
    >>> from sk_stormc.experiments.bellman import run_bellman
    >>> model = make_bellman_problem(30, 5, random_state=0)
    >>> run, = run_bellman(model, ["storm-c"], max_ifo=20_000, n_seeds=1)
    >>> bool(run.gap[-1] < 1e-3 * run.gap[0])
    True
    """
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
    """Add no option: the model is the paper's.

    Parameters
    ----------
    parser : argparse.ArgumentParser
    """


def report(args):
    """Run the experiment, print its table and write its picture.

    Parameters
    ----------
    args : argparse.Namespace
        ifo, seeds, methods, out.

    Raises
    ------
    ValueError, OSError
        As `run_bellman`; where the picture cannot be written.
    """
    from sk_stormc.plotting import plot_curves  # matplotlib: not for --help

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
    panels = {
        case: {method: [(r.ifo, r.gap / r.gap[0], r.gradient_norm) for r in seeds] for method, seeds in methods.items()}
        for case, methods in group_runs(runs).items()
    }
    labels = ["gap / initial gap", "exact gradient  $|\\nabla\\Phi(w)|$"]
    plot_curves(panels, labels).savefig(args.out, dpi=150)
    print(f"\nPicture written to {args.out}")
