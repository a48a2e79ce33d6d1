"""SNEProblem: the paper's formulas, gradients, sampled batches, costs, and that it
keeps nothing of earlier points."""

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from sklearn.metrics import pairwise_distances

from sk_stormc import STORMCompositional, minimize
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.embedding import kernel_sums
from sk_stormc.problems import SNEProblem

KERNELS = ("gaussian", "student-t")


@functools.cache
def affinities(n, seed=0, perplexity=5):
    return perplexity_affinities(
        np.random.default_rng(seed).normal(size=(n, 5)), perplexity
    )


def make_problem(n=50, d=2, kernel="gaussian", dtype=np.float64, **kwargs):
    return SNEProblem(affinities(n).copy(), d, kernel=kernel, dtype=dtype, **kwargs)


def make_point(problem, seed=1, scale=0.7):
    return (
        np.random.default_rng(seed).normal(size=problem.n_variables) * scale
    ).astype(problem.dtype)


def differences(function, x, h=1e-6):
    return np.array(
        [(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(x.size)]
    )


def phi_of_the_paper(P, x):
    """The paper's compositional SNE, with its own g_i and f_j; P[i, j] = p_{j|i}."""
    n = len(P)
    # the 1 belongs to the i = k term: its sum over i is Z_k + 1 - 1
    u = np.mean(
        [n * np.exp(-np.square(x - x[i]).sum(axis=1)) - 1 for i in range(n)], axis=0
    )

    def f(j):
        return n * sum(
            P[i, j] * (np.square(x[i] - x[j]).sum() + np.log(u[i]))
            for i in range(n)
            if i != j
        )

    return np.mean([f(j) for j in range(n)])


@pytest.mark.parametrize("d", [1, 3])
def test_the_objective_and_gradient_are_those_of_the_paper(d):
    problem = make_problem(20, d)
    P, x = problem.P.toarray(), make_point(problem)
    np.testing.assert_allclose(
        problem.objective(x), phi_of_the_paper(P, x.reshape(20, d)), rtol=1e-12
    )
    numeric = differences(lambda z: phi_of_the_paper(P, z.reshape(20, d)), x)
    assert np.abs(problem.gradient(x) - numeric).max() < 1e-6 * np.abs(numeric).max()


def test_the_printed_repulsion_is_wrong():
    # the paper's closing G_{i,l} has (1/Z_l - 1/Z_k) where (1/Z_l + 1/Z_k) belongs
    problem = make_problem(20)
    x = make_point(problem)
    X = x.reshape(20, 2)
    E = np.exp(-pairwise_distances(X, metric="sqeuclidean")) - np.eye(20)
    Z = E.sum(axis=1)
    repulsion = differences(
        lambda z: problem.outer(z, problem.inner(z, problem.inner_batch(None))), x
    )
    repulsion -= differences(lambda z: problem.outer(z, Z), x)
    right, wrong = (
        -2
        * np.einsum(
            "lk,lkd->ld", (1 / Z[:, None] + s / Z[None]) * E, X[:, None] - X[None]
        ).ravel()
        for s in (1, -1)
    )
    assert np.abs(right - repulsion).max() < 1e-6
    assert np.abs(wrong - repulsion).max() > 1e-2


@pytest.mark.parametrize("dof", [0.4, 1.0, 2.5, 40.0])
@pytest.mark.parametrize("d", [2, 3])
def test_student_t_is_its_closed_form(dof, d):
    problem = make_problem(60, d, "student-t", dof=dof, exaggeration=1.5)
    x = make_point(problem)
    D = pairwise_distances(x.reshape(60, d), metric="sqeuclidean")
    k = (1 + D / dof) ** -dof - np.eye(60)
    P = problem.P.toarray()
    P = (P + P.T) / 2
    some = P > 0
    expected = 1.5 * np.sum(P * dof * np.log1p(D / dof)) + np.log(k.sum())
    assert problem.objective(x) == pytest.approx(expected, rel=1e-12)
    assert problem.divergence(x) == pytest.approx(
        np.sum(P[some] * np.log(P[some] * k.sum() / k[some])), rel=1e-10
    )
    assert problem.divergence_of(problem.reported(x)) == pytest.approx(
        problem.divergence(x), rel=1e-10
    )
    numeric = differences(problem.objective, x)
    assert np.abs(problem.gradient(x) - numeric).max() < 1e-6 * np.abs(numeric).max()


def test_the_gaussian_divergence_is_its_closed_form():
    problem = make_problem(40, exaggeration=3.0)
    x, P = make_point(problem), problem.P.toarray()
    D = pairwise_distances(x.reshape(40, 2), metric="sqeuclidean")
    np.fill_diagonal(D, np.inf)
    log_Q = -D - logsumexp(-D, axis=1, keepdims=True)
    expected = (P[P > 0] * (np.log(P[P > 0]) - log_Q[P > 0])).sum() / 40
    np.testing.assert_allclose(problem.divergence(x), expected, rtol=1e-10)
    numeric = differences(problem.objective, x)
    for jacobian in ("operator", "dense"):
        gradient = make_problem(40, exaggeration=3.0, jacobian=jacobian).gradient(x)
        assert np.abs(gradient - numeric).max() < 1e-6 * np.abs(numeric).max()


@pytest.mark.parametrize("kernel", KERNELS)
def test_affinities_that_underflow_count_nothing(kernel):
    P = affinities(50).toarray()
    # whose half is 0 as a joint probability
    P[0, P[0] + P[:, 0] == 0] = 50 * np.finfo(float).smallest_subnormal
    P[0, 0] = 0
    problem = SNEProblem(sparse.csr_array(P), 2, kernel=kernel, dtype=np.float64)
    assert np.isfinite(problem.divergence(make_point(problem)))


@pytest.mark.parametrize(
    ("kernel", "jacobian", "near_field", "dof"),
    [
        ("gaussian", "operator", False, 1.0),
        ("gaussian", "dense", True, 1.0),
        ("student-t", "operator", True, 0.6),
        ("student-t", "dense", False, 1.0),
        ("student-t", "dense", True, 1.0),
    ],
)
def test_sampled_batches_are_unbiased(kernel, jacobian, near_field, dof):
    problem = make_problem(
        30, kernel=kernel, jacobian=jacobian, near_field=near_field, dof=dof
    )
    x, everything = make_point(problem), problem.inner_batch(None)
    u = problem.inner(x, everything)
    v = np.random.default_rng(2).normal(size=u.size)
    exact = problem.vjp(problem.jacobian(x, everything), v)
    # all draws, each once: the mean is exact
    singles = [problem.inner_batch(np.array([i])) for i in range(30)]
    products = [problem.vjp(problem.jacobian(x, b), v) for b in singles]
    within = 1e-10 * np.abs(exact).max()
    np.testing.assert_allclose(np.mean(products, axis=0), exact, atol=within)
    # an estimate for one point has a floor
    if kernel == "student-t" or not near_field:
        mean = np.mean([problem.inner(x, b) for b in singles], axis=0)
        np.testing.assert_allclose(mean, u, rtol=1e-12)
    batches = [problem.outer_batch(np.array([j])) for j in range(30)]
    outer = [problem.outer_gradient(x, u, batch) for batch in batches]
    wanted = problem.outer_gradient(x, u, None)
    for one, exact in zip(zip(*outer, strict=True), wanted, strict=True):
        within = 1e-10 * np.abs(exact).max()
        np.testing.assert_allclose(np.mean(one, axis=0), exact, atol=within)


@pytest.mark.parametrize(("kernel", "scale"), [("gaussian", 0.5), ("student-t", 2)])
def test_records_of_many_points_are_estimates(kernel, scale):
    n = 2100
    problem, each = make_problem(n, 3, kernel), n if kernel == "gaussian" else 1
    x = make_point(problem, scale=scale)
    D = pairwise_distances(x.reshape(n, 3), metric="sqeuclidean")
    k = (np.exp(-D) if kernel == "gaussian" else 1 / (1 + D)) - np.eye(n)
    sums = k.sum(axis=1)
    exact = np.log(sums).mean() if kernel == "gaussian" else np.log(sums.sum())
    attraction = problem.outer(x, np.ones(1))
    sampled = (problem.objective(x) - attraction) / each
    assert 0 < abs(sampled - exact) < 0.03
    expected = problem.divergence_of(attraction + exact * each)
    assert problem.divergence(x) == pytest.approx(expected, rel=1e-9)


def test_full_batches_beyond_the_memory_that_is_kept(monkeypatch):
    problem = make_problem(60)
    x = make_point(problem)
    expected = problem.gradient(x)
    monkeypatch.setattr(kernel_sums, "MATRIX_BYTES", 0)
    np.testing.assert_allclose(problem.gradient(x), expected, rtol=1e-12)


def test_costs():
    problem, n = make_problem(300, dtype=np.float32), 300
    near = problem.source.price("inner", 70) - 70
    assert near == -(-int((problem.P + problem.P.T).nnz) // n)
    sizes = {"batch_size": (40, 40, None), "init_batch_size": (70, 70, None)}
    result = minimize(problem, STORMCompositional(), momentum=0.1, max_iter=9, **sizes)
    assert result.ifo[-1] == 2 * (70 + near) + n + 9 * (2 * (40 + near) + n)
    # the tracked u is evaluated at both points, the Jacobian and f at one
    once = 70 + near + 9 * (40 + near)
    evaluations = {"inner": once + 9 * (40 + near), "jacobian": once, "outer": 10 * n}
    assert result.n_evaluations == evaluations
    fresh = minimize(problem, STORMCompositional(), momentum=1.0, max_iter=9, **sizes)
    assert fresh.ifo[-1] == result.ifo[-1] and fresh.n_evaluations["inner"] == once
    assert result.n_guarded > 0 == fresh.n_guarded
    meshed = SNEProblem(problem.P, 2, kernel="student-t")
    assert minimize(meshed, max_iter=9).ifo[-1] == 10 * 3 * n  # full batches
    literal = SNEProblem(problem.P, 2, near_field=False)
    # Lemma 3.1
    assert minimize(literal, "storm-c-paper", max_iter=5).ifo[-1] == 300 + 5 * 300
    one, triple = (
        minimize(problem, batch_size=b, max_iter=5, random_state=0)
        for b in (60, (60, 60, None))
    )
    np.testing.assert_array_equal(one.x, triple.x)


def test_a_metric_of_ones_own_replaces_the_preconditioner():
    problem = make_problem(30, kernel="student-t")
    x0 = problem.initial_point(np.random.default_rng(0))
    solver, steps = STORMCompositional(learning_rate=1e-3, max_iter=1, tol=0), []
    for problem.preconditioner in (None, np.full(60, 0.5), np.diag(np.full(60, 0.5))):
        steps.append(minimize(problem, solver, x0=x0, random_state=0).x - x0)
    assert steps[0].any()
    for step in steps[1:]:
        np.testing.assert_allclose(step, 0.5 * steps[0], rtol=1e-4)


def test_a_tracked_jacobian(monkeypatch):
    solver = STORMCompositional(batch_size=(10, 10, None), momentum=0.2, max_iter=150)
    tracked = minimize(make_problem(30, jacobian="dense"), solver, random_state=0)
    exact = minimize(make_problem(30), "lbfgs")
    assert tracked.fun < exact.fun + 0.1 * (exact.loss_curve[0] - exact.fun)
    monkeypatch.setattr("os.sysconf", lambda name: 100)  # a machine with little memory
    words = "jacobian='dense' of 50 points .* GB, more than .*; use jacobian='operator'"
    with pytest.raises(ValueError, match=words):
        make_problem(jacobian="dense")


# the last has a mesh
CASES = [("gaussian", 3, 60), ("student-t", 2, 60), ("student-t", 2, 1100)]
EVALUATIONS = {
    "objective": lambda problem, x: problem.objective(x),
    "gradient": lambda problem, x: problem.gradient(x),
    "divergence": lambda problem, x: problem.divergence(x),
    "metric": lambda problem, x: problem.preconditioner.at(x, 3).apply(np.ones_like(x)),
    "size": lambda problem, x: problem.preconditioner.at(x, 3).size(x),
    "reported": lambda problem, x: problem.reported(x),
    "expected": lambda problem, x: problem.outer(
        x, problem.inner(x, problem.inner_batch(None))
    ),
}


@pytest.mark.parametrize(("kernel", "d", "n"), CASES)
def test_a_point_may_be_changed_in_place(kernel, d, n):
    """Each evaluation comes next after each, itself too, in one of these orders."""
    evaluations, problem = list(EVALUATIONS.values()), make_problem(n, d, kernel)
    orders = [np.arange(8) * shift % 7 for shift in range(1, 7)]
    for k, order in enumerate([*orders, np.repeat(np.arange(7), 2)]):
        some, x = problem.in_run() if k % 2 else problem, make_point(problem)
        for place in order:
            expected = evaluations[place](make_problem(n, d, kernel), x.copy())
            np.testing.assert_array_equal(evaluations[place](some, x), expected)
            x[1:] *= 0.95


@pytest.mark.parametrize(
    ("kernel", "d", "jacobian"),
    [
        ("gaussian", 3, "operator"),
        ("student-t", 2, "operator"),
        ("gaussian", 2, "dense"),
    ],
)
def test_batches_and_jacobians_of_a_point_that_is_changed_in_place(kernel, d, jacobian):
    problem, other = (make_problem(60, d, kernel, jacobian=jacobian) for _ in range(2))
    problem = problem.in_run()
    for draws in (None, np.arange(0, 60, 2)):
        x, batch, another = (
            make_point(problem),
            *(some.inner_batch(draws) for some in (problem, other)),
        )
        start, v = x.copy(), 1 / problem.inner(x, batch)
        J, metric = problem.jacobian(x, batch), problem.preconditioner.at(x, 0)
        step = metric.apply(start)
        x *= 3
        problem.preconditioner.at(x, 0).apply(x)
        np.testing.assert_array_equal(metric.apply(start), step)
        expected = other.inner(x.copy(), another)
        np.testing.assert_array_equal(problem.inner(x, batch), expected)
        # J is that of the point where it was taken
        expected = other.vjp(other.jacobian(start, another), v)
        np.testing.assert_array_equal(problem.vjp(J, v), expected)
        F = problem.compositional_gradient(x, 1 / v, J, None)
        expected = problem.outer_gradient(x, 1 / v, None)[0] + problem.vjp(J, v)
        np.testing.assert_allclose(F, expected, rtol=1e-9)


@pytest.mark.parametrize(("kernel", "d", "n"), CASES[1:])
def test_runs_do_not_disturb_each_other(kernel, d, n):
    problem = make_problem(n, d, kernel, np.float32)

    def run(seed, **arguments):
        return minimize(problem, random_state=seed, max_iter=6, **arguments).x

    def inner_run(record):
        if record.iteration == 3:
            inner.append(run(1))
            problem.objective(10 * make_point(problem))

    alone, inner = [run(seed) for seed in range(3)], []
    outer = run(0, record_every=1, on_record=inner_run)
    np.testing.assert_array_equal([outer, *inner], alone[:2])
    with ThreadPoolExecutor(3) as pool:
        np.testing.assert_array_equal(list(pool.map(run, range(3))), alone)


@pytest.mark.parametrize(
    ("change", "params", "words"),
    [
        (lambda P: P.toarray(), {}, "square sparse"),
        (lambda P: P[:10], {}, "square sparse"),
        (lambda P: 2 * P, {}, r"row \d+ sums to 2"),
        (lambda P: P, {"kernel": "student-t", "joint": True}, "sum to 1, got 50"),
        (lambda P: 0.5 * P + 0.5 * sparse.eye_array(50), {}, "diagonal"),
        (lambda P: -P, {}, "not negative"),
        (lambda P: P * np.nan, {}, "finite"),
        (lambda P: P, {"dof": 2}, "dof must be 1 for kernel='gaussian'"),
        (lambda P: P, {"joint": True}, "joint must be False for kernel='gaussian'"),
    ],
)
def test_invalid_arguments(change, params, words):
    with pytest.raises(ValueError, match=words):
        SNEProblem(change(affinities(50).copy()), **params)
