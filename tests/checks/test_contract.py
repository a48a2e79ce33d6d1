"""The contract of problems and solvers: all are discovered, and `check_solver` checks
pairs of them.

A new solver needs a name in SOLVERS. A new problem needs a line in EXAMPLES.
"""

import copy
import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from helpers import composition, few_of, regression

from sk_stormc.affinities import perplexity_affinities
from sk_stormc.checks import check_solver
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.problems import (
    BellmanProblem,
    CompositionalProblem,
    DifferentiableComposition,
    DifferentiableLogMeanExp,
    PortfolioProblem,
    ProjectedBellmanProblem,
    SNEProblem,
    check_problem,
)
from sk_stormc.solvers import SOLVERS, minimize

# more than are batches of all components
RETURNS = make_gaussian_returns(1100, 4, mean=0.3, random_state=0)


def portfolio(*args, dtype=float, **kwargs):
    return PortfolioProblem(RETURNS.astype(dtype), *args, **kwargs)


def embedding(n=25, **kwargs):
    points = np.random.default_rng(0).normal(size=(n, 5))
    return SNEProblem(perplexity_affinities(points, 5), 2, **kwargs)


def policy(kind="garnet", **kwargs):
    model = make_bellman_problem(50, None, gamma=0.9, kind=kind, random_state=0)
    return BellmanProblem(model.transition_matrix, model.rewards, gamma=0.9, **kwargs)


def transitions(**kwargs):
    model = make_bellman_problem(20, 4, gamma=0.9, kind="garnet", random_state=0)
    log = model.transitions(1100, random_state=0)
    return ProjectedBellmanProblem(log.X, log.next_X, log.y, 0.9, **kwargs)


def composed(way, dtype=float, **kwargs):
    return composition(*regression(1100), way, dtype, **kwargs)


def differentiable(dtype=float, **kwargs):
    jnp = pytest.importorskip("jax.numpy", reason="needs JAX")

    def loss(x, row):
        a, b = row
        return (jnp.tanh(a @ x) - b) ** 2

    def outer(x, u, row):
        return loss(x, row) + jnp.maximum(loss(x, row) - u, 0) ** 2

    data = regression(1100)
    return DifferentiableComposition(
        loss, outer, data, data, x0=np.array([1.0, -0.5, 0.5], dtype), **kwargs
    )


def exponents():
    pytest.importorskip("jax", reason="needs JAX")
    rows = regression(1100)
    return DifferentiableLogMeanExp(
        lambda x, row: (row[0] @ x - row[1]) ** 2 / 2, rows, x0=np.zeros(3), scale=2.0
    )


EXAMPLES = {
    "PortfolioProblem": {
        "variance": portfolio,
        "semivariance": lambda: portfolio(
            0.5, risk_measure="semivariance", preconditioner="variance"
        ),
        "weighted": lambda: portfolio(sample_weight=1.0 + np.arange(1100)),
        "l1": lambda: portfolio(penalty=L1(0.05)),
        "box": lambda: portfolio(penalty=Box(0, 0.4)),
        "budget": lambda: portfolio(penalty=Box(0, 0.4, budget=1.0)),
        "float32": lambda: portfolio(dtype=np.float32),
        "matrix preconditioner and penalty": lambda: portfolio(
            preconditioner=np.eye(4), penalty=L1(0.05)
        ),
        "few periods": lambda: PortfolioProblem(RETURNS[:50]),
    },
    "EntropicPortfolioProblem": {
        "entropic": lambda: portfolio(0.5, risk_measure="entropic"),
        "weighted": lambda: portfolio(
            0.5, risk_measure="entropic", sample_weight=1.0 + np.arange(1100)
        ),
        "simplex": lambda: portfolio(risk_measure="entropic", penalty=Simplex()),
        "float32": lambda: portfolio(0.5, risk_measure="entropic", dtype=np.float32),
    },
    "SNEProblem": {
        "gaussian": embedding,
        "student-t": lambda: embedding(kernel="student-t"),
        "float64": lambda: embedding(dtype=np.float64),
        "literal": lambda: embedding(near_field=False),
        "dense": lambda: embedding(jacobian="dense"),
    },
    "BellmanProblem": {
        "successor": policy,
        "column": lambda: policy(sampling="column"),
        "plain": lambda: policy(preconditioner=None),
        "weighted": lambda: policy(sample_weight=1.0 + np.arange(50)),
    },
    "ProjectedBellmanProblem": {
        "full preconditioner": transitions,
        "plain": lambda: transitions(preconditioner=None, alpha=0.01),
    },
    "FiniteSumComposition": {
        "jacobian": lambda: composed("jacobian"),
        "vjp": lambda: composed("vjp"),
        "differences": lambda: composed("differences"),
        "float32": lambda: composed("jacobian", np.float32),
        "l1": lambda: composed("vjp", penalty=L1(0.01)),
    },
    "DifferentiableComposition": {
        "sampled": differentiable,
        "operator": lambda: differentiable(jacobian="operator"),
        "float32": lambda: differentiable(np.float32),
    },
    "DifferentiableLogMeanExp": {"robust": exponents},
}
MAY_BE_REFUSED = {
    "budget",
    "simplex",
    "matrix preconditioner and penalty",
}  # by some solver
# these also refuse operator Jacobians, and problems that limit the steps
PLAIN_STEPS = {"sketchy-storm"}
EXCLUDED = {  # class: reason; may name a class that is still to come
    "StreamingProblem": "has no number of components, and draws from an iterator "
    "once: its own tests",
    "TransitionStream": "the same",
    "_Exponents": "a part of DifferentiableLogMeanExp",
}


def discovered():
    """All concrete problems within the package, by name."""
    found = {}
    names = ("core", "streams", "portfolio", "embedding", "values")
    packages = [importlib.import_module(f"sk_stormc.{name}") for name in names]
    modules = [
        m
        for package in packages
        for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    for module in modules:
        for name, value in vars(importlib.import_module(module.name)).items():
            if (
                inspect.isclass(value)
                and issubclass(value, CompositionalProblem)
                and not inspect.isabstract(value)
            ):
                found[name] = value
    return found


def examples():
    return [(name, label) for name, labels in EXAMPLES.items() for label in labels]


def pairs():
    """Each solver, with its defaults and with small batches: all on the first example
    of a problem, a part on others.

    Most are left to the slow tests.
    """
    sampled = [
        name
        for name, solver in SOLVERS.items()
        if "batch_size" in solver().get_params()
    ]
    ways = [(name, "auto") for name in SOLVERS] + [(name, 32) for name in sampled]
    found = []
    for i, example in enumerate(examples()):
        first = example[1] == next(iter(EXAMPLES[example[0]]))
        for j, way in enumerate(ways):
            default = way == ("storm-c", "auto")
            by_jax = example[0].startswith("Differentiable")
            if by_jax and not default:
                # JAX compiles for each; the trajectories are those of
                # FiniteSumComposition: test_autodiff.py
                continue
            quick = (default and first and not by_jax) or (i + j) % 61 == 0
            if quick or default or first or (i + j) % 11 == 0:
                # of a run, in iterations
                length, marks = (12, []) if quick else (24, [pytest.mark.slow])
                found.append(pytest.param(*example, *way, length, marks=marks))
    return found


def test_every_problem_has_an_example():
    classes = discovered()
    assert classes.keys() - EXCLUDED.keys() == EXAMPLES.keys(), (
        f"add a small example to EXAMPLES in {__file__}"
    )


QUICK = [
    k
    for k, (name, label) in enumerate(examples())
    if label == next(iter(EXAMPLES[name])) and not name.startswith("Differentiable")
]


@pytest.mark.parametrize(("name", "label"), few_of(examples(), *QUICK))
def test_problem(name, label):
    if label == "literal":
        pytest.skip(
            "one column has no entry for its own point, whose u is then 0: "
            "tests/embedding/test_problem.py"
        )
    problem = EXAMPLES[name][label]()
    assert type(problem).__name__ == name
    check_problem(problem, n_draws=100)


class Worked(Exception):
    """Something of the problem was asked for."""


def refusal(solver, problem):
    """What a solver says that does not run on the problem, before it asks anything of
    it; None if it runs."""
    barred = copy.copy(problem)

    def work(*args):
        raise Worked

    for method, _ in inspect.getmembers(CompositionalProblem, inspect.isfunction):
        setattr(barred, method, work)
    try:
        solver.solve(barred)
    except Worked:
        return None
    except ValueError as error:
        return str(error)
    raise AssertionError("ran without the problem")


@pytest.mark.parametrize(("name", "label", "solver", "batch_size", "max_iter"), pairs())
def test_pair(name, label, solver, batch_size, max_iter):
    method = (
        SOLVERS[solver]()
        if batch_size == "auto"
        else SOLVERS[solver](batch_size=batch_size)
    )
    problem = EXAMPLES[name][label]()
    if refusal(method, problem) is None:
        check_solver(method, problem, max_iter=max_iter)
    else:
        special = (
            problem.jacobian_kind == "operator"
            or problem.advice.normalization is not None
        )
        expected = label in MAY_BE_REFUSED or (solver in PLAIN_STEPS and special)
        assert expected, f"{solver} refuses: {refusal(method, problem)}"


@pytest.mark.parametrize("name", ["storm-c", "lbfgs"])
def test_writing_into_a_record_is_harmless(name):
    """Records have copies of x: whatever a callback does to them, the run and its state
    know nothing of it."""
    problem, settings = (
        portfolio(),
        {"random_state": 0, "max_iter": 12, "record_every": 1, "tol": 0},
    )

    def spoil(record):
        record.x[:] = np.nan

    plain, spoilt = (
        minimize(problem, name, on_record=look, **settings) for look in (None, spoil)
    )
    np.testing.assert_array_equal(spoilt.x, plain.x)
    np.testing.assert_array_equal(spoilt.loss_curve, plain.loss_curve)
    rests = [
        minimize(problem, name, state=part.state, max_iter=24, tol=0)
        for part in (plain, spoilt)
    ]
    np.testing.assert_array_equal(rests[1].x, rests[0].x)
    np.testing.assert_array_equal(rests[1].state.best_x, rests[0].state.best_x)
