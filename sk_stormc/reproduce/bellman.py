"""The paper's Bellman experiment: five published methods, the automatic one and L-BFGS
on a random model.

The model has 400 states with 100 random features and gamma = .95. All methods start
from w = 0, and inner values are sampled with an independent successor of every state.
The published constants apply to the mean over the states; n Phi is the paper's sum. In
the published code an epoch of VRSC-PG and SARAH-C begins with one component of f that
is charged as 100. Here both variants are run, and each is charged for what it samples:
one component, or a hundred.
"""

from sk_stormc.datasets.markov import make_bellman_problem
from sk_stormc.reproduce.experiment import (
    Case,
    Labels,
    five_methods,
    run_command,
    show_results,
    summarize,
)
from sk_stormc.reproduce.tuning import variants

_EPOCHS = {
    "checkpoint_batch_size": (100, 100, 1),
    "batch_size": (5, 5, 1),
    "epoch_length": 100,
    "tol": 0,
}
PUBLISHED = five_methods(
    {"learning_rate": 1e-5, "batch_size": (100, 100, 1), "beta": 0.9, "tol": 0},
    {**_EPOCHS, "learning_rate": 1e-5},
) | {"vrsc-pg": {**_EPOCHS, "learning_rate": 5e-4}}
# with the problem's preconditioner
AUTOMATIC = dict.fromkeys(("storm-c", "lbfgs"), {"tol": 1e-6})
METHODS = PUBLISHED | AUTOMATIC
# the published scripts charge a checkpoint for a hundred components of f, and use one
WITH_100 = {
    method: {**PUBLISHED[method], "checkpoint_batch_size": (100, 100, 100)}
    for method in ("vrsc-pg", "sarah-c")
}
VARIANTS = variants(
    PUBLISHED | WITH_100,
    "100, 100 and 1",
    "checkpoints of 100, 100 steps of 5, 5 and 1",
)
VARIANTS["storm-c-paper"] = {
    "precision .1": {},
    "precision 10": {"precision": 10.0},
    "precision 10, momentum .02, batches of 100": {
        "precision": 10.0,
        "momentum": 0.02,
        "batch_size": 100,
        "init_batch_size": 100,
    },
}
LABELS = Labels(
    "Bellman",
    "(Phi - Phi\\*) / (Phi(w_0) - Phi\\*)",
    ".2e",
    ["gap / gap at the start", "exact gradient  $|\\nabla\\Phi|$"],
)


def case(name, methods, model, preconditioner=None):
    """The mean squared Bellman residual of a model, from w = 0."""
    problem = model.problem(preconditioner=preconditioner)
    return Case(
        name,
        methods,
        problem,
        problem.initial_point(None),
        problem.objective(problem.minimizer()),
    )


def cases(methods, model):
    """The published constants, two variants of them, and the automatic methods, which
    have a preconditioner."""

    def some(parameters):
        return {
            method: parameters[method] for method in methods if method in parameters
        }

    yield case("checkpoint f 1", some(PUBLISHED), model)
    yield case("checkpoint f 1", some(AUTOMATIC), model, preconditioner="auto")
    yield case("checkpoint f 100", some(WITH_100), model)
    momentum = {"storm-c-paper": {"momentum": 0.02, "tol": 0}}
    yield case("momentum .02", some(momentum), model)


def add_arguments(parser):
    """Add no option, because the model is the paper's."""


def report(args):
    """Run the experiment, print its table and save its figure."""
    model = make_bellman_problem(random_state=1)
    n, d = model.features.shape
    results = run_command(cases(args.methods, model), args.ifo, args.seeds)
    first = next(iter(results.values()))
    show_results(
        results,
        args.out,
        f"The paper's model: {n} states, {d} features, gamma = {model.gamma}; w_0 = 0.",
        f"n Phi: {n * first.optimum:.4f} at the minimum (least squares), "
        f"{n * first.start:.4f} at w_0.",
        "Published constants; storm-c and lbfgs choose their own steps, with a preconditioner, "
        "and stop at tol=1e-6.\n",
        summarize(results),
        f"Initial gap: {first.scale:.4e}; the passes are to 1e-3 of it.",
    )
