"""Functions and classes that several test files use."""

import math
import random
from itertools import combinations, product

import numpy as np
import pytest

from sk_stormc.engine.oracle import Oracle
from sk_stormc.problems import CompositionalProblem, FiniteSumComposition

SEED = 3


def slow_but(values, *quick):
    """Cases of a parametrisation, all but a few of which are slow."""
    return [
        value if value in quick else pytest.param(value, marks=pytest.mark.slow)
        for value in values
    ]


def few_of(rows, *quick):
    """Cases of a parametrisation, all but those at a few places of which are slow; a
    tuple has several arguments."""
    rows = [row if isinstance(row, tuple) else (row,) for row in rows]
    return [
        pytest.param(*row, marks=() if k in quick else pytest.mark.slow)
        for k, row in enumerate(rows)
    ]


def draws_of(problem, seed=SEED):
    """The oracle that `minimize(..., random_state=seed)` draws from, for transcriptions
    to draw from too."""
    return Oracle(problem, np.random.RandomState(seed).randint(np.iinfo(np.int32).max))


def regression(n):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(n, 3))
    return A, np.tanh(A @ [0.5, 0.5, 0.0]) + 0.3 * rng.normal(size=n)


def composition(A, b, way="jacobian", dtype=float, **kwargs):
    """A nonconvex regression: the loss and its deviation above the mean, of residuals
    bounded by tanh."""

    def losses(x, j):
        return (np.tanh(A[j] @ x) - b[j]) ** 2

    def slopes(x, j):
        t = np.tanh(A[j] @ x)
        return (2 * (t - b[j]) * (1 - t**2))[:, None] * A[j]

    def outer_gradient(x, u, i):
        above = 2 * np.maximum(losses(x, i) - u, 0)
        return ((1 + above)[:, None] * slopes(x, i)).mean(0), -above.mean(keepdims=True)

    def outer(x, u):
        values = losses(x, slice(None))
        return np.mean(values + np.maximum(values - u, 0) ** 2)

    return FiniteSumComposition(
        lambda x, j: losses(x, j).mean(keepdims=True),
        (lambda x, j: slopes(x, j).mean(0, keepdims=True))
        if way == "jacobian"
        else None,
        outer_gradient,
        outer,
        len(b),
        len(b),
        x0=np.array([1.0, -0.5, 0.5], dtype),
        inner_vjp=(lambda x, j, v: slopes(x, j).mean(0) * v) if way == "vjp" else None,
        **kwargs,
    )


def ratio_of_moments(
    mean,
    scale,
    n=100,
    seed=0,
    x0=(0.25,) * 4,
    differences=True,
    summed=False,
    **factors,
):
    """-u_1 / sqrt(u_2 - u_1^2), u the first two moments of returns; ``factors`` are
    mistakes in the derivatives.

    Of a single period the root is that of 0, so that f is not defined there.
    """
    R = mean + scale * np.random.default_rng(seed).normal(size=(n, 4))
    of_f, of_g = (
        np.ones(2) * factors.get(name, 1.0)
        for name in ("outer_gradient", "inner_jacobian")
    )

    def inner(x, j):
        y = R[j] @ x
        return np.array([y.mean(), (y * y).mean()])

    def inner_jacobian(x, j):
        return of_g[:, None] * np.stack([R[j].mean(0), 2 * (R[j] @ x) @ R[j] / len(j)])

    def outer_gradient(x, u, i):
        s = math.sqrt(u[1] - u[0] ** 2)
        return (
            (len(i) if summed else 1)
            * of_f
            * np.array([-1 / s - u[0] ** 2 / s**3, u[0] / (2 * s**3)])
        )

    def outer(x, u):
        return -u[0] / math.sqrt(u[1] - u[0] ** 2)

    return FiniteSumComposition(
        inner,
        None if differences else inner_jacobian,
        outer_gradient,
        outer,
        n,
        1,
        x0=x0,
    )


class Stacked(CompositionalProblem):
    """The portfolio as the paper has it: g_j(x) = (x, <r_j, x>), f_i(y) a function of y
    = g(x) alone."""

    def __init__(self, returns, risk_aversion=1.0):
        self.returns, self.risk_aversion = returns, risk_aversion
        self.n_inner, self.n_variables = returns.shape
        self.n_outer = self.n_inner

    def inner_batch(self, draws):
        return self.returns if draws is None else self.returns[draws]

    outer_batch = inner_batch

    def inner(self, x, batch):
        return np.append(x, batch.mean(0) @ x)

    def jacobian(self, x, batch):
        return np.vstack([np.eye(x.size), batch.mean(0)])

    def outer_gradient(self, x, u, batch):
        d = batch @ u[:-1] - u[-1]
        slope = 2 * self.risk_aversion * d
        return None, np.append((slope - 1) @ batch, -slope.sum()) / len(batch)

    def outer(self, x, u):
        y = self.returns @ u[:-1]
        return float(np.mean(self.risk_aversion * (y - u[-1]) ** 2 - y))


class Callback:
    """A callback of scikit-learn that does nothing but what a subclass adds."""

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass


def covering_array(factors, forbidden=(), seed=SEED, trials=10):
    """Cases in which every allowed pair of values of two factors occurs at least once.

    ``factors`` maps names to lists of values, and ``forbidden`` has dicts of values
    that do not go together. A case is a dict with one value of each factor. Each case
    begins with a missing pair, and takes the values that add most of the others.

    >>> covering_array({"a": [0, 1], "b": [0, 1]}, [{"a": 1, "b": 1}], seed=0)
    [{'a': 0, 'b': 0}, {'a': 0, 'b': 1}, {'a': 1, 'b': 0}]
    """
    rng = random.Random(seed)
    missing = dict.fromkeys(allowed_pairs(factors, forbidden))
    cases = []
    while missing:
        first, found = next(iter(missing)), []
        for _ in range(trials):
            case, others = (
                dict(first),
                [name for name in factors if name not in dict(first)],
            )
            rng.shuffle(others)
            for name in others:
                best = -1
                for value in rng.sample(factors[name], len(factors[name])):
                    if not allowed(case | {name: value}, forbidden):
                        continue
                    gain = sum(
                        tuple(sorted(((name, value), old))) in missing
                        for old in case.items()
                    )
                    if gain > best:
                        best, chosen = gain, value
                if best < 0:
                    break
                case[name] = chosen
            else:
                found.append(case)
        if not found:
            raise ValueError(f"no case has {dict(first)} and nothing forbidden")
        case = max(
            found, key=lambda one: sum(pair in missing for pair in pairs_of(one))
        )
        for pair in pairs_of(case):
            missing.pop(pair, None)
        cases.append({name: case[name] for name in factors})
    return cases


def allowed(case, forbidden):
    """Whether a case, or part of one, has no values that do not go together."""
    return not any(rule.items() <= case.items() for rule in forbidden)


def pairs_of(case):
    """The pairs of values of a case."""
    return combinations(sorted(case.items()), 2)


def allowed_pairs(factors, forbidden=()):
    """The pairs of values of two factors that go together."""
    return [
        ((a, u), (b, v))
        for a, b in combinations(sorted(factors), 2)
        for u, v in product(factors[a], factors[b])
        if allowed({a: u, b: v}, forbidden)
    ]
