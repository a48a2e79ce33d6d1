"""Eight compositional problems of the literature: ``GALLERY`` maps names to makers.
`docs/gallery.md` describes them.

Each maker takes the seed of its data. The data are scikit-learn's or made here; each
Phi has more than 1024 components, so that the default samples.
"""

from functools import cache, partial

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits, make_classification, make_friedman1
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from sk_stormc import minimize
from sk_stormc.problems import (
    FiniteSumComposition,
    PortfolioProblem,
    ProjectedBellmanProblem,
)


def start(problem):
    """Phi(x_0)."""
    return problem.objective(problem.initial_point(np.random.default_rng(0)))


@cache
def reference(problem):
    """Phi at the best point of L-BFGS from x_0 and from two points near it."""
    x_0 = problem.initial_point(np.random.default_rng(0))
    away = (
        np.random.default_rng(1).normal(size=(2, x_0.size))
        * 0.1
        * (1 + np.abs(x_0))
        / np.sqrt(x_0.size)
    )
    points = x_0, x_0 + away[0], x_0 + away[1]
    return min(
        minimize(problem, "lbfgs", x0=x, tol=1e-9, max_iter=5000).fun for x in points
    )


def shortfall(problem, fun):
    """What of L-BFGS' decrease of Phi is missing, as a fraction of that decrease."""
    return (fun - reference(problem)) / (start(problem) - reference(problem))


def average_precision(A, positive, ridge=1e-3):
    """Minus the smoothed average precision of the scores <a, x>, -mean_i u_i1 / u_i2
    over positives, + ridge |x|^2 / 2.

    u_i1 is the mean over all samples j of h_ij where j is positive and 0 where not,
    u_i2 the mean of all h_ij, with the squared hinge h_ij = max(1 - <a_i - a_j, x>,
    0)^2 (Qi, Luo, Xu, Ji & Yang 2021, SOAP).
    """
    P, y = A[positive], positive.astype(float)
    m = len(P)

    def hinges(x, j):
        return np.maximum(1 - (P @ x)[:, None] + A[j] @ x, 0)

    def inner(x, j):
        h = hinges(x, j) ** 2 / len(j)
        return np.stack([h @ y[j], h.sum(1)], axis=1).ravel()

    def inner_jacobian(x, j):
        h = 2 * hinges(x, j) / len(j)
        with_label = h * y[j]
        J = np.empty((m, 2, A.shape[1]))
        J[:, 0] = with_label @ A[j] - with_label.sum(1)[:, None] * P
        J[:, 1] = h @ A[j] - h.sum(1)[:, None] * P
        return J.reshape(2 * m, -1)

    def outer_gradient(x, u, i):
        u, f_u = u.reshape(m, 2), np.zeros((m, 2))
        np.add.at(
            f_u, i, np.stack([-1 / u[i, 1], u[i, 0] / u[i, 1] ** 2], axis=1) / len(i)
        )
        return ridge * x, f_u.ravel()

    def outer(x, u):
        return -np.mean(u[::2] / u[1::2]) + ridge * (x @ x) / 2

    return FiniteSumComposition(
        inner,
        inner_jacobian,
        outer_gradient,
        outer,
        len(A),
        m,
        A.shape[1],
        inner_floor=1e-12,
    )


def digits(digit=8):
    """Handwritten digits, whitened to 16 components, and which of them are this one."""
    A, y = load_digits(return_X_y=True)
    return PCA(16, whiten=True, random_state=0).fit_transform(A), y == digit


def rank_digits(digit=8):
    """Average precision of one digit against the rest: n_inner 1797, n_outer 174 and a
    Jacobian of (348, 16).

    Qi, Luo, Xu, Ji & Yang, "Stochastic Optimization of Areas Under Precision-Recall
    Curves with Provable Convergence", NeurIPS 2021.
    """
    return average_precision(*digits(digit))


def labels(seed, n=3000, d=20):
    """Features with an intercept, scaled, and labels of which a twentieth is wrong."""
    X, y = make_classification(
        n, d, n_informative=8, flip_y=0.1, class_sep=1.0, random_state=seed
    )
    return np.c_[StandardScaler().fit_transform(X), np.ones(n)], 2.0 * y - 1


def robust_logistic(A, y, temperature, ridge=1e-3):
    """temperature log mean exp(loss_j / temperature) + ridge |x|^2 / 2 of logistic
    losses, f of one component.

    u = mean exp((loss_j - log 2) / temperature), which is 1 at x_0 = 0.
    """
    shift = np.log(2)

    def weights(x, j):
        return np.exp((np.logaddexp(0, -y[j] * (A[j] @ x)) - shift) / temperature)

    def inner_jacobian(x, j):
        slopes = -y[j] * expit(-y[j] * (A[j] @ x))
        return (weights(x, j) * slopes / temperature)[None] @ A[j] / len(j)

    return FiniteSumComposition(
        lambda x, j: weights(x, j).mean(keepdims=True),
        inner_jacobian,
        lambda x, u, i: (ridge * x, temperature / u),
        lambda x, u: temperature * np.log(u[0]) + shift + ridge * (x @ x) / 2,
        len(A),
        1,
        A.shape[1],
        inner_floor=1e-12,
    )


def robust_classification(temperature, seed=0):
    """Logistic regression, robust in a Kullback-Leibler ball; at temperature 0.1 a few
    samples weigh almost all.

    Qi, Guo, Xu, Jin & Yang, "An Online Method for a Class of Distributionally Robust
    Optimization with Non-Convex Objectives", NeurIPS 2021.
    """
    return robust_logistic(*labels(seed), temperature)


def of_mean_loss(losses, slopes, outer_gradient, outer, A, preconditioner=None):
    """A composition whose inner value is the mean loss over the rows of A."""
    n, d = A.shape
    return FiniteSumComposition(
        lambda x, j: losses(x, j).mean(keepdims=True),
        lambda x, j: slopes(x, j).mean(0, keepdims=True),
        outer_gradient,
        outer,
        n,
        n,
        d,
        preconditioner=preconditioner,
    )


def deviation(A, b, weight=1.0, width=0.1):
    """Mean of the squared losses plus a weight times their mean deviation above the
    mean, smoothed within a width."""

    def losses(x, j):
        return (A[j] @ x - b[j]) ** 2

    def slopes(x, j):
        return 2 * (A[j] @ x - b[j])[:, None] * A[j]

    def outer_gradient(x, u, i):
        t = losses(x, i) - u
        above = weight * (1 + t / np.hypot(t, width)) / 2
        return (1 + above) @ slopes(x, i) / len(i), -above.mean(keepdims=True)

    def outer(x, u):
        values = losses(x, slice(None))
        t = values - u
        return np.mean(values + weight * (t + np.hypot(t, width)) / 2)

    return of_mean_loss(losses, slopes, outer_gradient, outer, A)


def semideviation(seed=0):
    """Risk-averse regression: mean-upper-semideviation (of order 1, smoothed) of
    squared losses, heavy-tailed noise.

    Ruszczynski & Shapiro, "Optimization of convex risk functions", Math. Oper. Res. 31,
    2006; as a composition in Wang, Fang & Liu, "Stochastic compositional gradient
    descent", Math. Program. 161, 2017.
    """
    X, b = make_friedman1(2000, 10, noise=0.0, random_state=seed)
    b = b + np.random.default_rng(seed).standard_t(4, size=len(b))
    A = StandardScaler().fit_transform(np.c_[X, X**2])
    return deviation(np.c_[A, np.ones(len(b))], (b - b.mean()) / b.std())


def entropic(seed=0):
    """Entropic risk of 15 assets with common factors and Student returns in percent
    (4000 days, 5 degrees of freedom).

    Follmer & Schied, "Stochastic Finance", 2002; as a composition in Yuan & Hu, section
    4.
    """
    rng = np.random.default_rng(seed)
    factors, loadings = rng.standard_t(5, size=(4000, 3)), rng.normal(size=(3, 15))
    R = (
        0.1 * rng.random(15)
        + 0.5 * factors @ loadings
        + rng.standard_t(5, size=(4000, 15))
    )
    return PortfolioProblem(R, risk_measure="entropic", preconditioner="variance")


def maml(seed=0, n_tasks=10, d=5, n=1500, rate=0.3):
    """One step of MAML: x such that w_k = x - rate grad L_k(x) is good for every task
    k, one tanh neuron a task.

    u stacks the w_k (50 numbers), g's components are a sample of every task, f's
    another, of query losses.

    Finn, Abbeel & Levine, "Model-Agnostic Meta-Learning", ICML 2017; as a composition
    in Chen, Sun & Yin, "Solving Stochastic Compositional Optimization is Nearly as Easy
    as Solving Stochastic Optimization", 2021.
    """
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=d) + 0.4 * rng.normal(size=(n_tasks, d))
    support, query = rng.normal(size=(2, n, n_tasks, d))
    noise = 0.2 * rng.normal(size=(2, n, n_tasks))
    support_y = np.tanh(np.einsum("jkd,kd->jk", support, truth)) + noise[0]
    query_y = np.tanh(np.einsum("jkd,kd->jk", query, truth)) + noise[1]

    def inner(x, j):
        t = np.tanh(support[j] @ x)
        slope = (t - support_y[j]) * (1 - t**2) / len(j)
        return (x - rate * np.einsum("jk,jkd->kd", slope, support[j])).ravel()

    def inner_jacobian(x, j):
        t = np.tanh(support[j] @ x)
        bend = (1 - t**2) * ((1 - t**2) - 2 * t * (t - support_y[j])) / len(j)
        by_task = support[j].transpose(1, 2, 0)
        H = (by_task * bend.T[:, None]) @ by_task.transpose(0, 2, 1)
        return (np.eye(d) - rate * H).reshape(-1, d)

    def outer_gradient(x, u, i):
        t = np.tanh(np.einsum("jkd,kd->jk", query[i], u.reshape(n_tasks, d)))
        slope = (t - query_y[i]) * (1 - t**2) / (len(i) * n_tasks)
        return np.einsum("jk,jkd->kd", slope, query[i]).ravel()

    def outer(x, u):
        t = np.tanh(np.einsum("jkd,kd->jk", query, u.reshape(n_tasks, d)))
        return np.mean((t - query_y) ** 2) / 2

    return FiniteSumComposition(inner, inner_jacobian, outer_gradient, outer, n, n, d)


class SampledBellman(ProjectedBellmanProblem):
    """The projected Bellman error with its Jacobian sampled and tracked, as the
    methods' papers have it."""

    jacobian_kind = "sampled"


def policy_evaluation(seed=0, n=3000, d=8, gamma=0.9):
    """Projected Bellman error of a noisy walk on a ring, d radial features, the
    Jacobian sampled, no preconditioner.

    Sutton et al., "Fast gradient-descent methods for temporal-difference learning with
    linear function approximation", ICML 2009; as a composition in Wang, Liu & Fang,
    "Accelerating stochastic composition optimization", JMLR 18, 2017.
    """
    rng = np.random.default_rng(seed)
    place = 2 * np.pi * rng.random(n)
    successor = place + 0.3 + 0.5 * rng.normal(size=n)
    centres = 2 * np.pi * np.arange(d) / d

    def features(angle):
        return np.exp(2 * (np.cos(angle[:, None] - centres) - 1))

    rewards = np.sin(place) + 0.5 * np.cos(3 * place) + 0.5 * rng.normal(size=n)
    return SampledBellman(
        features(place), features(successor), rewards, gamma, preconditioner=None
    )


def scaled_columns(seed=0, n=2000, d=10, spread=3.0):
    """Normal features whose columns have sizes from 1 to 10^-spread, and targets that
    all columns matter to."""
    rng = np.random.default_rng(seed)
    A, scale = rng.normal(size=(n, d)), 10 ** -np.linspace(0, spread, d)
    b = np.tanh(A @ rng.normal(size=d) / np.sqrt(d)) + 0.3 * rng.normal(size=n)
    return A * scale, b


def bounded_deviation(A, b, preconditioner=None):
    """Mean of the losses (tanh(<a, x>) - b)^2 plus the mean square of what of them is
    above the mean."""

    def losses(x, j):
        return (np.tanh(A[j] @ x) - b[j]) ** 2

    def slopes(x, j):
        t = np.tanh(A[j] @ x)
        return (2 * (t - b[j]) * (1 - t**2))[:, None] * A[j]

    def outer_gradient(x, u, i):
        above = 2 * np.maximum(losses(x, i) - u, 0)
        return (1 + above) @ slopes(x, i) / len(i), -above.mean(keepdims=True)

    def outer(x, u):
        values = losses(x, slice(None))
        return np.mean(values + np.maximum(values - u, 0) ** 2)

    return of_mean_loss(losses, slopes, outer_gradient, outer, A, preconditioner)


def badly_scaled(seed=0):
    """Risk-averse regression through tanh with columns of sizes from 1 to 1e-3, a
    condition number of about 1e6.

    The objective is close to that of `semideviation`, of residuals that tanh bounds, so
    g is not linear or quadratic in x. Nocedal & Wright, "Numerical Optimization", 2006,
    section 2.2, on scaling.
    """
    return bounded_deviation(*scaled_columns(seed))


GALLERY = {
    "average precision": rank_digits,
    "robust logistic, temperature 1": partial(robust_classification, 1.0),
    "robust logistic, temperature 0.1": partial(robust_classification, 0.1),
    "mean-semideviation": semideviation,
    "entropic risk": entropic,
    "maml": maml,
    "policy evaluation": policy_evaluation,
    "badly scaled": badly_scaled,
}
