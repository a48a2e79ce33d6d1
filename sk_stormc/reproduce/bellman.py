"""The paper's Bellman experiment: five published methods, the automatic one and L-BFGS on a random model.

The model has 400 states with 100 random features and gamma = .95. All methods start from w = 0, and inner values are
sampled with an independent successor of every state. The published constants apply to the mean over the states; n Phi
is the paper's sum. In the published code an epoch of VRSC-PG and SARAH-C begins with one component of f that is charged
as 100. Here both variants are run, and each is charged for what it samples: one component, or a hundred.
"""

from dataclasses import replace

from sk_stormc.datasets.markov import make_bellman_problem
from sk_stormc.reproduce.runner import Case, check_methods, draw_runs, progress_line, run_methods, summarize

__all__ = ["MAX_IFO", "METHODS", "bellman_case", "run_bellman"]

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
AUTOMATIC = ("storm-c", "lbfgs")  # with the problem's preconditioner; the published methods have none


def bellman_case(name, model, **params):
    """The mean squared Bellman residual of a model, from w = 0."""
    problem = model.problem(**params)
    x0 = problem.initial_point(None)
    optimum = problem.objective(problem.minimizer())
    return Case(name, problem, x0, optimum, problem.objective(x0) - optimum)


def run_bellman(model=None, methods=tuple(METHODS), *, max_ifo=MAX_IFO, n_seeds=3, progress=None):
    """Run the Bellman experiment: minimise the mean squared Bellman residual from w = 0."""
    methods = check_methods(methods, METHODS)
    model = make_bellman_problem(random_state=1) if model is None else model
    published, automatic = bellman_case("checkpoint f 1", model, metric=None), bellman_case("checkpoint f 1", model)

    def some(names, **changes):
        return {name: {**methods[name], **changes} for name in methods if name in names}

    jobs = [
        (published, some(set(methods) - set(AUTOMATIC))),
        (automatic, some(AUTOMATIC)),
        (
            replace(published, name="checkpoint f 100"),
            some(("vrsc-pg", "sarah-c"), checkpoint_batch_size=(100, 100, 100)),
        ),
        (replace(published, name="momentum .02"), some(("storm-c-paper",), momentum=0.02)),
    ]
    return run_methods(jobs, max_ifo=max_ifo, n_seeds=n_seeds, progress=progress)


def add_arguments(parser):
    """Add no option, because the model is the paper's."""


def report(args):
    """Run the experiment, print its table and save its figure."""
    model = make_bellman_problem(random_state=1)
    n, d = model.features.shape
    with progress_line() as show:
        runs = run_bellman(model, args.methods, max_ifo=args.ifo, n_seeds=args.seeds, progress=show)
    case = runs[0].case
    print(f"The paper's model: {n} states, {d} features, gamma = {model.gamma}; w_0 = 0.")
    print(
        f"n Phi: {n * case.optimum:.4f} at the minimum (least squares), {n * (case.optimum + case.scale):.4f} at w_0."
    )
    print("Published constants; storm-c and lbfgs choose their own steps, in a metric, and stop at tol=1e-6.\n")
    print(summarize(runs))
    print(f"Initial gap: {case.scale:.4e}; the passes are to 1e-3 of it.")
    draw_runs(runs, args.out)
    print(f"\nPicture written to {args.out}")
