"""SNEProblem and SNEEmbedding: against the paper's formulas, exact sums, scikit-learn's TSNE; and their safety."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import few_of, slow_but
from scipy import sparse
from scipy.spatial import procrustes
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_blobs, make_swiss_roll
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import TSNE, trustworthiness
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import sk_stormc.embedding.kernel_sums as far_field
from sk_stormc import SCGD, SNEEmbedding, STORMCompositional, minimize
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.datasets import make_augmented_digits
from sk_stormc.embedding import problem as problem_module
from sk_stormc.problems import SNEProblem, check_problem

DIGITS, LABELS = load_digits(return_X_y=True)
KERNELS = ("gaussian", "student-t")
SOLVERS = ("storm-c", "storm-c-paper", "scgd", "sarah-c", "lbfgs")


def points(n=50, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def small_problem(n=50, d=2, seed=0, perplexity=5, **kwargs):
    P = perplexity_affinities(points(n, seed=seed), perplexity)
    return SNEProblem(P, d, dtype=np.float64, **kwargs), P.toarray()


def somewhere(problem, seed=1, scale=0.7):
    return np.random.default_rng(seed).normal(size=problem.n_variables) * scale


def label_accuracy(Z, y=LABELS):
    near = NearestNeighbors(n_neighbors=10).fit(Z).kneighbors(return_distance=False)
    return np.mean([np.bincount(y[row]).argmax() == label for row, label in zip(near, y, strict=True)])


# --- the paper, term by term ------------------------------------------------------------------------


class Paper:
    """The paper's compositional SNE, dense: y = (x_1, ..., x_n, u_1, ..., u_n), with its own g_i and f_j."""

    def __init__(self, P):
        self.P, self.n = P, len(P)  # P[i, j] = p_{j|i}

    def g(self, i, x):
        e = np.exp(-np.square(x - x[i]).sum(axis=1))
        return x, self.n * e - 1  # the 1 belongs to the i = k term: its sum over i is Z_k + 1 - 1

    def f(self, j, x, u):
        return self.n * sum(
            self.P[i, j] * (np.square(x[i] - x[j]).sum() + np.log(u[i])) for i in range(self.n) if i != j
        )

    def phi(self, x):
        u = np.mean([self.g(i, x)[1] for i in range(self.n)], axis=0)
        return np.mean([self.f(j, x, u) for j in range(self.n)])

    def grad_f(self, j, x, u):
        n, P = self.n, self.P
        in_x = 2 * n * P[:, j, None] * (x - x[j])
        in_x[j] = -2 * n * (P[:, j, None] * (x - x[j])).sum(axis=0)
        return in_x, n * P[:, j] / u

    def corrected_jacobian(self, i, x):
        """d g_{i, n+k} / d x_l: [k, l] is a vector; in column k of G_{i,k} and, with the other sign, in column i."""
        n = self.n
        e = np.exp(-np.square(x - x[i]).sum(axis=1))
        J = np.zeros((n, n, x.shape[1]))
        for k in range(n):
            if k != i:
                J[k, k] = -2 * n * e[k] * (x[k] - x[i])
                J[k, i] = 2 * n * e[k] * (x[k] - x[i])
        return J

    def gradient(self, x):
        n = self.n
        u = np.mean([self.g(i, x)[1] for i in range(n)], axis=0)
        J = np.mean([self.corrected_jacobian(i, x) for i in range(n)], axis=0)
        in_x, in_u = (np.mean(part, axis=0) for part in zip(*(self.grad_f(j, x, u) for j in range(n)), strict=True))
        return in_x + np.einsum("kld,k->ld", J, in_u)


def differences(function, x, h=1e-6):
    return np.array([(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(x.size)])


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_papers_formulas(d):
    problem, P = small_problem(n=20, d=d, perplexity=4)
    paper, x = Paper(P), somewhere(problem)
    X = x.reshape(20, d)
    np.testing.assert_allclose(problem.objective(x), paper.phi(X), rtol=1e-12)
    numeric = differences(lambda z: paper.phi(z.reshape(20, d)), x)
    scale = np.abs(numeric).max()
    assert np.abs(paper.gradient(X).ravel() - numeric).max() < 1e-6 * scale
    assert np.abs(problem.gradient(x) - numeric).max() < 1e-6 * scale


def test_the_printed_repulsion_is_wrong():
    # the paper's closing G_{i,l} has (1/Z_l - 1/Z_k) where (1/Z_l + 1/Z_k) belongs
    problem, _ = small_problem(n=20, perplexity=4)
    x = somewhere(problem)
    X = x.reshape(20, 2)
    D = np.square(X[:, None] - X[None]).sum(axis=2)
    E = np.exp(-D) - np.eye(20)
    Z = E.sum(axis=1)
    repulsion = differences(lambda z: problem.outer(z, problem.inner(z, problem.inner_batch(None))), x)
    repulsion -= differences(lambda z: problem.outer(z, Z), x)
    right, wrong = (
        -2 * np.einsum("lk,lkd->ld", (1 / Z[:, None] + s / Z[None]) * E, X[:, None] - X[None]).ravel() for s in (1, -1)
    )
    assert np.abs(right - repulsion).max() < 1e-6
    assert np.abs(wrong - repulsion).max() > 1e-2


# --- the problem ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("exaggeration", [1.0, 4.0])
@pytest.mark.parametrize("jacobian", ["operator", "dense"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_contract_and_gradient(kernel, jacobian, exaggeration):
    problem, _ = small_problem(60, kernel=kernel, jacobian=jacobian, exaggeration=exaggeration)
    x = somewhere(problem)
    check_problem(problem, x)
    numeric = differences(problem.objective, x)
    assert np.abs(problem.gradient(x) - numeric).max() < 1e-6 * np.abs(numeric).max()


@pytest.mark.parametrize("jacobian", ["operator", "dense"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_sampling_all_pairs_is_unbiased(kernel, jacobian):
    problem, _ = small_problem(30, kernel=kernel, jacobian=jacobian, near_field=False)
    x = somewhere(problem)
    everything = problem.inner_batch(None)
    u, v = problem.inner(x, everything), np.random.default_rng(2).normal(size=30 if kernel == "gaussian" else 1)
    exact = problem.vjp(problem.jacobian(x, everything), v)
    singles = [problem.inner_batch(np.array([i])) for i in range(30)]  # all draws, each once: the mean is exact
    np.testing.assert_allclose(np.mean([problem.inner(x, b) for b in singles], axis=0), u, rtol=1e-12)
    products = [problem.vjp(problem.jacobian(x, b), v) for b in singles]
    np.testing.assert_allclose(np.mean(products, axis=0), exact, atol=1e-10 * np.abs(exact).max())
    outer = [problem.outer_gradient(x, u, problem.outer_batch(np.array([j]))) for j in range(30)]
    for one, wanted in zip(zip(*outer, strict=True), problem.outer_gradient(x, u, None), strict=True):
        np.testing.assert_allclose(np.mean(one, axis=0), wanted, atol=1e-10 * np.abs(wanted).max())


def test_operator_and_dense_jacobian_agree():
    for kernel in KERNELS:
        dense, _ = small_problem(40, kernel=kernel, jacobian="dense")
        operator, _ = small_problem(40, kernel=kernel)
        x = somewhere(dense)
        np.testing.assert_allclose(dense.gradient(x), operator.gradient(x), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
def test_divergence(kernel):
    problem, P = small_problem(40, kernel=kernel, exaggeration=3.0)
    X = somewhere(problem).reshape(40, 2)
    D = pairwise_distances(X, metric="sqeuclidean")
    np.fill_diagonal(D, np.inf)
    if kernel == "gaussian":
        log_Q, P = -D - logsumexp(-D, axis=1, keepdims=True), P
        expected = (P[P > 0] * (np.log(P[P > 0]) - log_Q[P > 0])).sum() / 40
    else:
        Q, P = 1 / (1 + D) / (1 / (1 + D)).sum(), (P + P.T) / 80
        expected = (P[P > 0] * np.log(P[P > 0] / Q[P > 0])).sum()
    np.testing.assert_allclose(problem.divergence(X.ravel()), expected, rtol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
def test_reported_objective_of_many_points(kernel, monkeypatch):
    P = perplexity_affinities(DIGITS, 30)
    x = (PCA(3).fit_transform(DIGITS) * (0.2 if kernel == "gaussian" else 1)).ravel()
    problem = SNEProblem(P, 3, kernel=kernel, dtype=np.float64)
    exact, divergence = problem.objective(x), problem.divergence(x)
    monkeypatch.setattr(problem_module, "CENSUS", 500)
    sampled = problem.objective(x)
    per_log = 1797 if kernel == "gaussian" else 1
    assert 0 < abs(sampled - exact) / per_log < 0.03
    assert sampled == problem.objective(x) and problem.divergence(x) == divergence


def test_the_mesh_stands_for_all_pairs():
    P, x = perplexity_affinities(DIGITS, 30), 2 * PCA(2).fit_transform(DIGITS).ravel()
    problem = SNEProblem(P, 2, kernel="student-t", dtype=np.float64)
    d = pairwise_distances(x.reshape(-1, 2), metric="sqeuclidean")
    np.fill_diagonal(d, np.inf)
    Z = (1 / (1 + d)).sum()
    assert problem.inner(x, problem.inner_batch(None))[0] == pytest.approx(Z, rel=2e-4)
    joint = ((P + P.T) / 3594).toarray()
    log_q = np.log(1 / (1 + d[joint > 0])) - np.log(Z)
    expected = (joint[joint > 0] * (np.log(joint[joint > 0]) - log_q)).sum()
    assert problem.divergence(x) == pytest.approx(expected, abs=3e-4)
    in_float32 = SNEProblem(P, 2, kernel="student-t")
    assert in_float32.divergence(x) == pytest.approx(expected, abs=3e-4)
    assert in_float32.objective(x) == pytest.approx(problem.objective(x), abs=5e-3)
    batch, near = problem.inner_batch(np.arange(1797)), problem.source.price("inner", 1797) - 1797
    assert problem.inner(x, batch)[0] == pytest.approx(Z, rel=1e-12) and near == problem.n_near  # all columns, drawn


def test_full_batches_beyond_the_kept_matrix(monkeypatch):
    problem, _ = small_problem(60)
    x = somewhere(problem)
    expected = problem.gradient(x)
    monkeypatch.setattr(far_field, "KEPT", 0)
    np.testing.assert_allclose(problem.gradient(x), expected, rtol=1e-12)


def test_charges():
    problem = SNEProblem(perplexity_affinities(points(1300), 5), 2)
    near = -(-int((problem.P + problem.P.T).nnz) // 1300)
    assert problem.n_near == near
    sizes = {"batch_size": (40, 40, None), "init_batch_size": (70, 70, None)}
    result = minimize(problem, STORMCompositional(), momentum=0.1, max_iter=9, **sizes)
    assert result.ifo[-1] == 2 * (70 + near) + 1300 + 9 * (2 * (40 + near) + 1300)
    # the tracked u is evaluated at both points, the Jacobian and f at one
    assert result.n_evaluations == {
        "inner": 70 + near + 2 * 9 * (40 + near),
        "jacobian": 70 + near + 9 * (40 + near),
        "outer": 10 * 1300,
    }
    fresh = minimize(problem, STORMCompositional(), momentum=1.0, max_iter=9, **sizes)
    assert fresh.ifo[-1] == result.ifo[-1] and fresh.n_evaluations["inner"] == 70 + near + 9 * (40 + near)
    meshed = SNEProblem(problem.P, 2, kernel="student-t")
    assert minimize(meshed, max_iter=9).ifo[-1] == 10 * 3 * 1300  # full batches
    literal = SNEProblem(problem.P, 2, near_field=False)
    assert minimize(literal, "storm-c-paper", max_iter=5).ifo[-1] == 300 + 5 * 300  # Lemma 3.1


def test_one_batch_size_leaves_f_exact():
    problem = SNEProblem(perplexity_affinities(points(1300), 5), 2)
    one, triple = (minimize(problem, batch_size=b, max_iter=5, random_state=0) for b in (60, (60, 60, None)))
    np.testing.assert_array_equal(one.x, triple.x)
    assert minimize(problem, batch_size=(60, 60, 60), max_iter=5, random_state=0).ifo[-1] < one.ifo[-1]


def test_guard_is_counted():
    problem = SNEProblem(perplexity_affinities(points(1300), 5), 2)
    solver = STORMCompositional(momentum=0.1, batch_size=(20, 20, None), max_iter=60)
    tracked = minimize(problem, solver, random_state=0)
    assert tracked.n_guarded > 0
    assert minimize(problem, STORMCompositional(), momentum=1.0, max_iter=60, random_state=0).n_guarded == 0


def test_state_is_resumed_to_the_bit():
    for kernel in KERNELS:
        problem = SNEProblem(perplexity_affinities(points(1300), 5), 2, kernel=kernel)
        whole = minimize(problem, max_iter=20, random_state=0)
        part = minimize(problem, max_iter=8, random_state=0)
        rest = minimize(problem, max_iter=20, state=pickle.loads(pickle.dumps(part.state)))
        np.testing.assert_array_equal(whole.x, rest.x)
        assert whole.x.dtype == np.float32 and whole.n_guarded == rest.n_guarded


def test_stages_share_the_graph_and_nothing_else():
    problem, _ = small_problem(60)
    x, z = somewhere(problem), somewhere(problem, seed=5)
    early = problem.stage(10, exaggeration=4.0, held=1.0)
    assert early.aggregates is problem.aggregates
    expected = problem.gradient(x), SNEProblem(problem.P, 2, exaggeration=4.0, dtype=np.float64).gradient(z)
    for _ in range(2):
        np.testing.assert_array_equal(problem.gradient(x), expected[0])
        np.testing.assert_array_equal(early.gradient(z), expected[1])
    assert early.edges is problem.edges
    assert early.advice.max_iter == 10 and not callable(early.advice.learning_rate)


def test_tracked_jacobian():
    problem, _ = small_problem(60, jacobian="dense")
    free, _ = small_problem(60)
    solver = STORMCompositional(batch_size=(20, 20, None), momentum=0.2, max_iter=300)
    tracked, free = minimize(problem, solver, random_state=0), minimize(free, "lbfgs", random_state=0)
    assert tracked.state.state.now.J.shape == (60, 120)
    assert tracked.fun < free.fun + 0.05 * (free.loss_curve[0] - free.fun)


def test_tracked_jacobian_is_refused_where_memory_is_short(monkeypatch):
    P = perplexity_affinities(points(), 5)
    monkeypatch.setattr("sk_stormc.embedding.dense.SHARE", 1e-9)
    with pytest.raises(ValueError, match=r"jacobian='dense' of 50 points .* GB, more than .*; use jacobian='operator'"):
        SNEProblem(P, 2, jacobian="dense")
    SNEProblem(P, 2)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda P: P.toarray(), "square sparse"),
        (lambda P: P[:10], "square sparse"),
        (lambda P: 2 * P, r"row \d+ sums to 2"),
        (lambda P: P + sparse.eye_array(50), "sum to 1"),
        (lambda P: 0.5 * P + 0.5 * sparse.eye_array(50), "diagonal"),
        (lambda P: -P, "not negative"),
        (lambda P: P * np.nan, "finite"),
    ],
)
def test_bad_affinities(change, match):
    with pytest.raises(ValueError, match=match):
        SNEProblem(change(perplexity_affinities(points(), 5)), 2)


@pytest.mark.parametrize(
    "params",
    [
        {"n_components": 0},
        {"kernel": "cauchy"},
        {"exaggeration": 0.5},
        {"n_iter": 0},
        {"jacobian": "sparse"},
    ],
)
def test_bad_parameters_of_the_problem(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        SNEProblem(perplexity_affinities(points(), 5), **params)


# --- quality ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("d", "least"), [(2, 0.957), (5, 0.997), (10, 0.9985)])
def test_gaussian_digits(d, least):
    model = SNEEmbedding(d, kernel="gaussian", random_state=0).fit(DIGITS)
    assert trustworthiness(DIGITS, model.embedding_, n_neighbors=5) >= least
    assert model.stop_reason_ == "max_iter" and model.n_iter_ == 120 and model.kernel_ == "gaussian"
    assert model.ifo_[0] == 0 and len(model.ifo_) == len(model.loss_curve_) == len(model.record_iterations_) > 5
    assert model.kl_divergence_ < model.loss_curve_[0]
    assert model.loss_curve_[-1] == pytest.approx(model.kl_divergence_, rel=1e-5)
    assert model.record_iterations_[0] == 0 and model.record_iterations_[-1] == 120


@pytest.mark.slow
@pytest.mark.parametrize(("d", "above"), [(2, 0.01), (5, 0.01)])
def test_gaussian_beside_lbfgs(d, above):
    exact = SNEEmbedding(d, kernel="gaussian", solver="lbfgs", random_state=0).fit(DIGITS)
    assert exact.stop_reason_ == "converged"
    model = SNEEmbedding(d, kernel="gaussian", random_state=0).fit(DIGITS)
    assert -0.005 < model.kl_divergence_ - exact.kl_divergence_ < above


@pytest.mark.slow
def test_student_digits_beside_tsne():
    model = SNEEmbedding(kernel="student-t", random_state=0).fit(DIGITS)
    assert trustworthiness(DIGITS, model.embedding_, n_neighbors=5) >= 0.994
    assert label_accuracy(model.embedding_) >= 0.98
    problem = SNEProblem(perplexity_affinities(DIGITS, 30), 2, kernel="student-t", dtype=np.float64)
    ours, theirs = (
        problem.divergence(Z.ravel().astype(float))
        for Z in (model.embedding_, TSNE(random_state=0).fit_transform(DIGITS))
    )
    assert ours < theirs


@pytest.mark.slow
def test_student_in_five_dimensions():
    X, _ = make_augmented_digits(5000, random_state=0)
    Z = SNEEmbedding(5, kernel="student-t", random_state=0).fit_transform(X)
    assert trustworthiness(X, Z, n_neighbors=5) >= 0.9975


@pytest.mark.parametrize("kernel", few_of(KERNELS, 1))
def test_few_points(kernel):
    X = load_iris().data
    model = SNEEmbedding(kernel=kernel, random_state=0).fit(X)
    exact = SNEEmbedding(kernel=kernel, solver="lbfgs", random_state=0).fit(X)
    assert model.kl_divergence_ < exact.kl_divergence_ + 0.03
    assert trustworthiness(X, model.embedding_) > 0.98


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["scgd", "acc-scgd", "asc-pg", "sarah-c", "civr", "vrsc-pg", "scvr"])
def test_competitors_arrive_too(solver):
    X, _ = make_augmented_digits(1200, random_state=0)
    model = SNEEmbedding(solver=solver, random_state=0).fit(X)
    assert trustworthiness(X, model.embedding_, n_neighbors=5) > 0.95


def test_the_kernel_follows_the_dimension():
    X = DIGITS[:100]
    for d, kernel in ((1, "student-t"), (3, "student-t"), (4, "gaussian")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert SNEEmbedding(d, perplexity=5, max_iter=5, random_state=0).fit(X).kernel_ == kernel


@pytest.mark.parametrize("kernel", slow_but(KERNELS, "student-t"))
def test_the_loss_curve_is_the_divergence(kernel):
    X, _ = make_augmented_digits(1200, random_state=0)
    model = SNEEmbedding(kernel=kernel, init="pca", random_state=0).fit(X)
    size, k = (3, 91) if kernel == "gaussian" else (1e-4, 61)
    problem = SNEProblem(perplexity_affinities(X, 30, n_neighbors=k), 2, kernel=kernel)
    start = PCA(2, random_state=0).fit_transform(X)
    start *= size / start[:, 0].std()
    assert model.loss_curve_[0] == pytest.approx(problem.divergence(start.ravel().astype(np.float32)), rel=2e-3)
    assert model.loss_curve_[-1] == pytest.approx(problem.divergence(model.embedding_.ravel()), rel=8e-3)
    assert (np.diff(model.loss_curve_[-4:]) < 0).all()  # the last is of the same kind as the others
    assert (np.diff(model.record_iterations_) > 0).sum() >= 5 and model.record_iterations_[-1] == model.n_iter_


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", slow_but([400, 1200], 400))
def test_the_divergence_is_that_of_three_times_the_perplexity(n, kernel):
    # which is what TSNE reports, so that the two can be compared
    X, _ = make_augmented_digits(n, random_state=0)
    model = SNEEmbedding(kernel=kernel, max_iter=20, random_state=0).fit(X)
    exact = SNEProblem(perplexity_affinities(X, 30), 2, kernel=kernel, jacobian="dense", dtype=np.float64)
    x = model.embedding_.ravel()
    assert model.kl_divergence_ == pytest.approx(exact.divergence(x), rel=1e-3)
    assert exact.divergence(x, perplexity_affinities(X, 30)) == pytest.approx(exact.divergence(x), rel=1e-9)


@pytest.mark.parametrize("kernel", ["gaussian", "student-t"])
def test_the_divergence_is_computed_when_it_is_read(kernel):
    model = SNEEmbedding(kernel=kernel, perplexity=10, max_iter=40, random_state=0)
    assert not hasattr(model, "kl_divergence_")
    with pytest.raises(AttributeError, match="not fitted"):
        print(model.kl_divergence_)
    model.fit(DIGITS[:150])
    unread = pickle.dumps(model)
    exact = SNEProblem(perplexity_affinities(DIGITS[:150], 10), kernel=kernel, dtype=np.float64)
    expected = exact.divergence(model.embedding_.ravel().astype(float))
    model.set_params(kernel="auto", dof=2.0, n_components=1)  # of another map
    assert model.kl_divergence_ == pytest.approx(expected, rel=1e-5)
    for kept in (unread, pickle.dumps(model)):
        assert pickle.loads(kept).kl_divergence_ == model.kl_divergence_
    model.set_params(kernel=kernel, dof=1.0, n_components=2)
    assert model.fit(DIGITS[150:300]).kl_divergence_ != pytest.approx(expected, rel=1e-3)
    before, model = model.kl_divergence_, model.optimize(40)
    assert model.kl_divergence_ != before


def test_a_map_that_still_moves_warns():
    X, _ = make_augmented_digits(1500, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"still moving after 6 iterations: 3 more .*%. Increase max_iter"):
        SNEEmbedding(max_iter=6, random_state=0).fit(X)
    with pytest.warns(ConvergenceWarning, match=r"still moving after 20 iterations: 3 more .*%. Increase max_iter"):
        SNEEmbedding(max_iter=20, random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SNEEmbedding(random_state=0).fit(X)


@pytest.mark.slow
def test_maps_repeat():
    X, _ = make_augmented_digits(4000, random_state=1)
    order = np.random.default_rng(0).permutation(4000)
    start = PCA(2, random_state=0).fit_transform(X)
    start *= 1e-4 / start[:, 0].std() * (1 + 1e-5 * np.random.default_rng(1).normal(size=start.shape))
    model = SNEEmbedding(random_state=0)
    Z = clone(model).fit_transform(X)
    for other in (
        clone(model).set_params(random_state=1).fit_transform(X.astype(np.float32)),
        clone(model).fit_transform(X[order])[np.argsort(order)],
        clone(model).set_params(init=start).fit_transform(X),
    ):
        assert procrustes(Z, other)[2] < 0.1  # .01 is usual, .06 with early exaggeration 6; .25 to .35 in 0.1.0


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["far", "uneven", "roll"])
def test_shapes_beside_tsne(shape):
    if shape == "roll":
        X = make_swiss_roll(1500, random_state=5)[0]
    elif shape == "far":
        X = make_blobs(1500, 20, centers=10, center_box=(-300, 300), random_state=5)[0]
    else:
        X = make_blobs([700, 400, 200, 100, 70, 30], 10, center_box=(-20, 20), random_state=5)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Z = SNEEmbedding(random_state=0).fit_transform(X)
    problem = SNEProblem(perplexity_affinities(X, 30), 2, kernel="student-t", dtype=np.float64)
    theirs = TSNE(random_state=0).fit_transform(X.astype(np.float32))
    ours, theirs = (problem.divergence(Y.ravel().astype(float)) for Y in (Z, theirs))
    assert ours < 1.02 * theirs
    away = np.linalg.norm(Z - np.median(Z, axis=0), axis=1)
    assert away.max() < 5 * np.median(away)


@pytest.mark.slow
@pytest.mark.parametrize("perplexity", [2, 10, 150, 500])
def test_any_perplexity(perplexity):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "the map was still moving", ConvergenceWarning)
        model = SNEEmbedding(perplexity=perplexity, random_state=0).fit(DIGITS)
    away = np.linalg.norm(model.embedding_ - np.median(model.embedding_, axis=0), axis=1)
    assert trustworthiness(DIGITS, model.embedding_) > 0.96 and away.max() < 6 * np.median(away)


def test_the_papers_literal_step_hardly_moves():
    model = SNEEmbedding(solver="storm-c-paper", init=np.tile(np.arange(200)[:, None] / 200, 2), random_state=0)
    Z = model.fit_transform(DIGITS[:200])
    np.testing.assert_allclose(Z[:, 0], Z[:, 1], atol=1e-3)  # a line it was, a line it stays


# --- scikit-learn -------------------------------------------------------------------------------------


@parametrize_with_checks([SNEEmbedding(perplexity=2, max_iter=10)])
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [SNEEmbedding(perplexity=2, kernel="gaussian", solver=solver, max_iter=10) for solver in SOLVERS]
    + [SNEEmbedding(perplexity=2, solver=STORMCompositional(momentum=0.5), max_iter=10)]
)
def test_check_estimator_with_every_solver(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kernel", few_of(KERNELS, 1))
def test_float32(kernel):
    X = DIGITS[:1100]
    model = SNEEmbedding(kernel=kernel, max_iter=8, random_state=0)
    assert model.fit_transform(X).dtype == np.float64
    assert model.fit_transform(X.astype(np.float32)).dtype == np.float32
    assert model.transform(X[:3].astype(np.float32)).dtype == np.float32


def test_data_frames():
    X = load_iris().data
    names = ["sneembedding0", "sneembedding1"]
    model = SNEEmbedding(perplexity=10, max_iter=30, random_state=0)
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(150) + 7)
    out = clone(model).set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == names and out.index[0] == 7
    fitted = clone(model).set_output(transform="polars").fit(pl.DataFrame(X, schema=list("abcd")))
    assert fitted.transform(pl.DataFrame(X[:3], schema=list("abcd"))).columns == names
    assert list(fitted.get_feature_names_out()) == names and list(fitted.feature_names_in_) == list("abcd")


def test_in_a_pipeline_and_searched():
    X, y = DIGITS[:300], LABELS[:300]
    pipe = make_pipeline(SNEEmbedding(5, perplexity=10, max_iter=30, random_state=0), LogisticRegression())
    grid = {
        "sneembedding__solver__batch_size": [50, None],
        "sneembedding__perplexity": [5, 10],
    }
    search = GridSearchCV(pipe, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.85
    assert search.best_estimator_[0].solver_.batch_size == search.best_params_["sneembedding__solver__batch_size"]


def test_same_seed_same_bits():
    X, _ = make_augmented_digits(1100, random_state=0)
    for kernel in KERNELS:
        one, two, other = (
            SNEEmbedding(kernel=kernel, max_iter=6, random_state=seed, n_jobs=jobs).fit_transform(X)
            for seed, jobs in ((0, 1), (0, 2), (1, 1))
        )
        np.testing.assert_array_equal(one, two)
        # a mesh and principal components leave nothing to chance
        assert np.array_equal(one, other) == (kernel == "student-t")


@pytest.mark.parametrize("layout", few_of([sparse.csr_array, sparse.csc_array, sparse.csr_matrix], 0))
def test_sparse_data(layout):
    X = DIGITS[:200]
    model = SNEEmbedding(perplexity=10, max_iter=20, random_state=0)
    dense, Z = model.fit(X).transform(DIGITS[200:205]), clone(model).fit_transform(X)
    again = model.fit(layout(X))
    # the principal components come from another routine: the same up to rounding, which grows on the way
    assert model.kl_divergence_ == pytest.approx(clone(model).fit(X).kl_divergence_, abs=0.02)
    np.testing.assert_array_equal(again.transform(layout(X)), again.embedding_)
    assert again.transform(layout(DIGITS[200:205])).shape == dense.shape and Z.shape == again.embedding_.shape


@pytest.mark.slow
def test_precomputed():
    X = DIGITS[:300]
    start = PCA(2, random_state=0).fit_transform(X)
    model = SNEEmbedding(perplexity=10, init=3 * start / start[:, 0].std(), max_iter=120, random_state=0)
    expected, new = model.fit(X).kl_divergence_, DIGITS[300:310]
    graph = KNeighborsTransformer(n_neighbors=31).fit(X)
    known = clone(model).set_params(metric="precomputed")
    for distances, to_new in (
        (pairwise_distances(X), pairwise_distances(new, X)),
        (graph.transform(X), graph.transform(new)),
    ):
        # distances that differ in their last digit come to differ in the second on the way
        assert known.fit(distances).kl_divergence_ == pytest.approx(expected, abs=0.02)
        np.testing.assert_array_equal(known.transform(distances), known.embedding_)
        assert known.transform(to_new).shape == (10, 2)
    pipe = make_pipeline(KNeighborsTransformer(n_neighbors=31), clone(known))
    assert pipe.fit(X)[-1].kl_divergence_ == pytest.approx(expected, abs=0.02)


def test_other_metrics():
    X = DIGITS[:100]
    weights = np.linspace(1, 2, 64)
    model = SNEEmbedding(
        perplexity=10, metric="seuclidean", metric_params={"V": weights}, init=X[:, 26:28], max_iter=5, random_state=0
    )
    Z = model.fit_transform(X)
    np.testing.assert_array_equal(model.transform(X), Z)
    scaled = clone(model).set_params(metric="euclidean", metric_params=None)
    np.testing.assert_allclose(scaled.fit_transform(X / np.sqrt(weights)), Z, atol=1e-3)


def test_early_exaggeration():
    X = DIGITS[:200]
    plain = SNEEmbedding(kernel="gaussian", perplexity=10, max_iter=100, random_state=0).fit(X)
    early = clone(plain).set_params(early_exaggeration=4).fit(X)
    assert plain.n_iter_ == early.n_iter_ == 100
    assert plain.ifo_[-1] + 3 * 200 == early.ifo_[-1]  # a second start
    assert plain.loss_curve_[0] == early.loss_curve_[0]  # without the exaggeration
    assert not np.array_equal(plain.embedding_, early.embedding_)
    # the first fifth of the iterations, in which there are no records
    assert early.record_iterations_[:2].tolist() == [0, 20] and 0 < plain.record_iterations_[1] < 20
    budget = SNEEmbedding(
        perplexity=10, kernel="student-t", solver=STORMCompositional(max_ifo=20_000), random_state=0
    ).fit(X)
    assert budget.ifo_[-1] <= 20_000 + 600


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"perplexity": 0.5}, "perplexity"),
        ({"n_components": 0}, "n_components"),
        ({"kernel": "cauchy"}, "kernel"),
        ({"init": "laplacian"}, "init must be one of 'auto', 'pca', 'spectral', 'random'"),
        ({"init": np.zeros((3, 2))}, r"init must be an array of shape \(60, 2\)"),
        ({"init": np.full((60, 2), np.nan)}, "init"),
        ({"early_exaggeration": 0.5}, "early_exaggeration"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1}, "tol"),
        ({"solver": "adam"}, "solver"),
        ({"solver": SCGD(beta=2)}, "beta"),
        ({"metric": "precomputed"}, "must be square"),
    ],
)
def test_bad_input(params, match):
    model = SNEEmbedding(perplexity=5, max_iter=20, random_state=0)
    kept = model.fit(points(40)).embedding_
    with pytest.raises(ValueError, match=match):
        model.set_params(**params).fit(points(60))
    assert model.embedding_ is kept


def test_bad_data():
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        SNEEmbedding().fit(points(1))
    with pytest.raises(ValueError, match="NaN"):
        SNEEmbedding().fit(np.full((60, 3), np.nan))


def cases(rng):
    X = rng.normal(size=(60, 5))
    yield np.repeat(X[:20], 3, axis=0)
    yield np.ones((40, 4))
    yield np.vstack([X, np.full((1, 5), 1e6)])
    yield X[:10]
    yield np.hstack([X, np.full((60, 1), 4.0)])
    S = sparse.random_array((60, 20), density=0.2, format="csr", random_state=rng)
    yield S
    yield S.tocsc()


@pytest.mark.slow
@pytest.mark.parametrize("seed", slow_but(range(8), 0))
def test_safety(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # where all points are one, or nearly, the start is about the best there is
        warnings.filterwarnings("ignore", ".* returns its last point|the map was still", ConvergenceWarning)
        warnings.filterwarnings("ignore", "perplexity=5 is too large", UserWarning)  # for ten points
        warnings.filterwarnings("ignore", "the 16 neighbours .* are all at a distance of 0", UserWarning)  # of ones
        for X in cases(np.random.default_rng(seed)):
            for kernel in KERNELS:
                model = SNEEmbedding(perplexity=5, kernel=kernel, max_iter=60, random_state=seed)
                assert np.isfinite(model.fit_transform(X)).all() and np.isfinite(model.kl_divergence_)
                assert np.isfinite(model.transform(X[:5])).all()


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_safety_of_sampled_batches(kernel):
    X = points(1300)
    for data in (np.repeat(X[:650], 2, axis=0), np.ones_like(X), np.vstack([X, np.full((1, 5), 1e6)])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", ".* returns its last point|the map was still", ConvergenceWarning)
            warnings.filterwarnings("ignore", "the 91 neighbours .* are all at a distance of 0", UserWarning)  # of ones
            for solver in ("storm-c", "scgd", "sarah-c"):
                model = SNEEmbedding(kernel=kernel, solver=solver, max_iter=60, random_state=0).fit(data)
                assert np.isfinite(model.embedding_).all() and np.isfinite(model.kl_divergence_)


# --- the data set -------------------------------------------------------------------------------------


def test_augmented_digits():
    X, y = make_augmented_digits(5000, random_state=0)
    np.testing.assert_array_equal(X[:1797], DIGITS)
    assert X.shape == (5000, 64) and y.shape == (5000,) and X.min() >= 0 and X.max() <= 17
    again, _ = make_augmented_digits(5000, random_state=0)
    np.testing.assert_array_equal(X, again)
    assert KNeighborsClassifier(3).fit(DIGITS, LABELS).score(X[1797:], y[1797:]) > 0.75
    assert make_augmented_digits(10)[0].shape == (10, 64)
    with pytest.raises(ValueError, match="n_samples"):
        make_augmented_digits(0)
