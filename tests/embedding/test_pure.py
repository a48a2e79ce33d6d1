"""A problem is pure: what it returns hangs on the values that it is given, and on nothing that was asked before."""

import functools
import threading

import numpy as np
import pytest
from helpers import composition, few_of, regression, slow_but
from scipy.optimize import minimize as scipy_minimize

from sk_stormc import minimize
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.engine import Oracle
from sk_stormc.problems import SNEProblem

KERNELS = ("gaussian", "student-t")
CASES = [(kernel, d, 60) for kernel in KERNELS for d in (2, 3)] + [("student-t", 2, 1100)]  # the last has a mesh


@functools.cache
def affinities(n, seed):
    return perplexity_affinities(np.random.default_rng(seed).normal(size=(n, 5)), 8)


def make_problem(kernel, d, n=60, dtype=np.float64, seed=0, **kwargs):
    return SNEProblem(affinities(n, seed).copy(), d, kernel=kernel, dtype=dtype, **kwargs)


def make_point(problem, seed=1):
    return np.random.default_rng(seed).normal(size=problem.n_variables)


EVALUATIONS = {
    "objective": lambda problem, x: problem.objective(x),
    "gradient": lambda problem, x: problem.gradient(x),
    "divergence": lambda problem, x: problem.divergence(x),
    "metric": lambda problem, x: problem.metric.at(x, 3).apply(np.ones_like(x)),
    "size": lambda problem, x: problem.metric.at(x, 3).size(x),
    "reported": lambda problem, x: problem.reported(x),
    "expected": lambda problem, x: problem.outer(x, problem.inner(x, problem.inner_batch(None))),
}


@pytest.mark.parametrize("kernel, d, n", few_of(CASES, 1, 2, 4))
@pytest.mark.parametrize("what", EVALUATIONS)
def test_a_point_may_be_written_into(what, kernel, d, n):
    problem, evaluate = make_problem(kernel, d, n), EVALUATIONS[what]
    x = make_point(problem)
    for before in EVALUATIONS.values():
        before(problem, x)
        x *= 0.8
        x[0] += 0.1
        found = evaluate(problem, x)
        np.testing.assert_array_equal(found, evaluate(make_problem(kernel, d, n), x.copy()))


@pytest.mark.parametrize("jacobian", ["operator", "dense"])
@pytest.mark.parametrize("kernel, d, n", CASES[:4])
def test_batches_and_jacobians_may_be_kept_while_a_point_is_written_into(kernel, d, n, jacobian):
    problem = make_problem(kernel, d, n, jacobian=jacobian)
    for draws in (None, np.arange(0, n, 2)):
        x, batch, fresh = make_point(problem), problem.inner_batch(draws), make_problem(kernel, d, n, jacobian=jacobian)
        start, v = x.copy(), 1 / problem.inner(x, batch)
        J = problem.jacobian(x, batch)
        x *= 3
        np.testing.assert_array_equal(problem.inner(x, batch), fresh.inner(x.copy(), fresh.inner_batch(draws)))
        # J is that of the point where it was taken
        np.testing.assert_array_equal(
            problem.vjp(J, v), fresh.vjp(fresh.jacobian(start, fresh.inner_batch(draws)), v)
        )
        F = problem.compositional_gradient(x, 1 / v, J, None)
        np.testing.assert_allclose(F, problem.outer_gradient(x, 1 / v, None)[0] + problem.vjp(J, v), rtol=1e-9)


def test_a_jacobian_of_callables_is_that_of_the_point_where_it_was_taken():
    problem = composition(*regression(1100), "vjp")
    x = problem.initial_point(None)
    J, v = problem.jacobian(x, None), np.ones(1)
    before = problem.vjp(J, v)
    x *= 3
    np.testing.assert_array_equal(problem.vjp(J, v), before)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", slow_but([2, 3], 2))
def test_an_optimiser_that_works_in_place_finds_what_others_find(kernel, d):
    problem, own = make_problem(kernel, d), np.empty(60 * d)

    def in_place(of):
        def evaluate(x):
            own[:] = x  # one array for all points
            return of(own)

        return evaluate

    start, options = make_point(problem), {"maxiter": 40}
    right = scipy_minimize(
        lambda x: make_problem(kernel, d).objective(x),
        start,
        jac=lambda x: make_problem(kernel, d).gradient(x),
        method="L-BFGS-B",
        options=options,
    )
    found = scipy_minimize(
        in_place(problem.objective), start, jac=in_place(problem.gradient), method="L-BFGS-B", options=options
    )
    np.testing.assert_array_equal(found.x, right.x)
    assert found.fun == right.fun < problem.objective(start)


@pytest.mark.parametrize("kernel, d, n", CASES)
def test_two_runs_that_take_turns_do_not_disturb_each_other(kernel, d, n):
    problem = make_problem(kernel, d, n, dtype=np.float32)
    alone = [minimize(problem, random_state=seed, max_iter=6) for seed in (0, 1)]

    def inner_run(record):
        if record.iteration == 3:
            results.append(minimize(problem, random_state=1, max_iter=6))
            problem.objective(10 * make_point(problem).astype(np.float32))

    results = []
    outer = minimize(problem, random_state=0, max_iter=6, record_every=1, on_record=inner_run)
    np.testing.assert_array_equal(outer.x, alone[0].x)
    np.testing.assert_array_equal(results[0].x, alone[1].x)


@pytest.mark.parametrize("kernel, d, n", CASES[1:])
def test_runs_in_two_threads_do_not_disturb_each_other(kernel, d, n):
    problem = make_problem(kernel, d, n, dtype=np.float32)
    alone = [minimize(problem, random_state=seed, max_iter=8).x for seed in range(4)]
    found = [None] * 4

    def work(seed):
        found[seed] = minimize(problem, random_state=seed, max_iter=8).x

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_metric_of_a_run_stays_while_the_run_looks_elsewhere(kernel):
    oracle = Oracle(make_problem(kernel, 3), 0)
    problem = oracle.problem
    x, y = make_point(problem, 1), make_point(problem, 2)
    metric, F = oracle.metric.at(x, 0), np.ones_like(x)
    before = metric.apply(F)
    problem.gradient(y), oracle.metric.at(y, 0).apply(F), problem.objective(y)
    np.testing.assert_array_equal(metric.apply(F), before)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_problem_keeps_nothing_of_what_it_evaluated(kernel):
    problem = make_problem(kernel, 3)
    x = make_point(problem)
    problem.objective(x), problem.stage(10).objective(x)  # data that are found once, such as the edges' pattern
    problem.metric.at(x, 0).apply(x), problem.divergence(x)
    before = {name: id(value) for name, value in vars(problem).items()}
    minimize(problem, random_state=0, max_iter=3)
    problem.gradient(x)
    assert {name: id(value) for name, value in vars(problem).items()} == before
    assert problem.in_run() is not problem and problem.in_run().edges is problem.edges
