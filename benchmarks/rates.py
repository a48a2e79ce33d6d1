"""Rates of convergence: slopes over two decades of iterations, and decades a pass with full checkpoints.

Two well-conditioned strongly convex problems with known minima, batches of 8: mean-variance of 2000 Gaussian returns of
8 assets, and a curved one, g_j(x) = a_j * h(x) + e_j with h(x) = x + .1 sin x, coordinate by coordinate, and
f_i(u) = 1/2 <u - b_i, w_i * (u - b_i)>. `tests/solvers/test_methods.py` asserts bounds on the same rates.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._measure import a_pass
from benchmarks._tables import markdown
from sk_stormc import STORMCompositional, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import FiniteSumComposition, PortfolioProblem
from sk_stormc.schedules import power

DURATION = "20 seconds"
NEEDS_DATA = False
B, GROUPS, SEEDS = 8, 3, 6
# method, its schedules, the order that is stated for them, its parameters
SLOPES = (
    ("SCGD", "1/k, k^(-2/3)", "-2/3", "scgd", {"learning_rate": power(-1.0), "beta": power(-2 / 3)}),
    ("accelerated SCGD", "1/k, k^(-4/5)", "-4/5", "acc-scgd", {"learning_rate": power(-1.0), "beta": power(-4 / 5)}),
    ("ASC-PG", "1/k, k^(-4/5)", "-4/5", "asc-pg", {"learning_rate": power(-1.0), "beta": power(-4 / 5)}),
    ("Algorithm 1", "constant, 1/(t+1)", "-2/3", STORMCompositional(), {}),
)
LINEAR = (
    ("SARAH-C", "sarah-c", {"batch_size": B}),
    ("CIVR", "civr", {"batch_size": B}),
    ("VRSC-PG", "vrsc-pg", {"batch_size": B}),
    ("SCVR", "scvr", {"batch_size": B}),
    ("Algorithm 1, `anchor=200`, momentum 0", STORMCompositional(momentum=0.0), {"batch_size": B, "anchor": 200}),
    ("STORM-C, automatic", "storm-c", {}),
    ("L-BFGS", "lbfgs", {}),
)


def portfolio():
    """Mean-variance, x* and the metric its gaps are measured in."""
    problem = PortfolioProblem(make_gaussian_returns(2000, 8, mean=0.3, condition_number=1.5, random_state=0))
    S = np.cov(problem.returns.T, bias=True)
    return problem, np.linalg.solve(2 * S, problem.returns.mean(0)), S


def curved(n=600, m=500, d=4):
    """The curved problem and its x*: a_j and w_i have the mean 1, e_j the mean 0, and h(x*) = mean w_i b_i."""
    rng = np.random.default_rng(0)

    def centred(values):
        return values - values.mean(0)

    a, w = (1 + 0.3 * centred(rng.uniform(-1, 1, (k, d))) for k in (m, n))
    e, b = centred(rng.normal(size=(m, d))), rng.normal(size=(n, d))
    x_star = np.linspace(-1, 1, d)
    b += x_star + 0.1 * np.sin(x_star) - (w * b).mean(0)
    problem = FiniteSumComposition(
        inner=lambda x, j: a[j].mean(0) * (x + 0.1 * np.sin(x)) + e[j].mean(0),
        inner_jacobian=lambda x, j: np.diag(a[j].mean(0) * (1 + 0.1 * np.cos(x))),
        outer_gradient=lambda x, u, i: (w[i] * (u - b[i])).mean(0),
        outer=lambda x, u: 0.5 * float((w * (u - b) ** 2).mean(0).sum()),
        n_inner=m,
        n_outer=n,
        n_variables=d,
    )
    return problem, x_star


def slope_of(problem, best, S, name, params, seeds, T):
    """Of log gap against log k over the last two decades, the gap averaged over seeds and geometric stretches."""
    curves = []
    for seed in seeds:
        curve = []
        minimize(
            problem, name, np.zeros(len(best)), random_state=seed, batch_size=B, max_iter=T, tol=0,
            record_every=10 * 3 * B,
            on_record=lambda r, c=curve: c.append((r.iteration, (r.x - best) @ S @ (r.x - best))), **params
        )  # fmt: skip
        curves.append(curve)
    k = np.array(curves[0])[:, 0]
    gap = np.mean([[value for _, value in curve] for curve in curves], axis=0)
    stretches = np.digitize(k, np.geomspace(T / 100, T * 1.001, 13))
    kept = [stretches == s for s in range(1, 13) if (stretches == s).any()]
    return np.polyfit(*np.array([(np.log(k[s]).mean(), np.log(gap[s].mean())) for s in kept]).T, 1)[0]


def linear_rate(problem, best, name, params, seeds, passes):
    """Decades of |x - x*|^2 a pass, averaged over the seeds, and R^2 of the straight line."""
    n, curves = a_pass(problem), []
    for seed in seeds:
        curve = []
        minimize(
            problem, name, np.zeros(len(best)), random_state=seed, tol=1e-9, max_ifo=passes * n, record_every=n // 4,
            on_record=lambda r, c=curve: c.append((r.ifo / n, (r.x - best) @ (r.x - best))), **params
        )  # fmt: skip
        k, gap = np.array(curve).T
        kept = gap > 1e-13 * gap[0]  # below is rounding
        curves.append((k[kept], np.log10(gap[kept])))
    k = np.linspace(0, min(curve[0][-1] for curve in curves), 30)
    gap = np.mean([np.interp(k, *curve) for curve in curves], axis=0)
    slope, level = np.polyfit(k, gap, 1)
    return -slope, 1 - np.var(gap - slope * k - level) / np.var(gap)


def run(quick, data):
    """Measure slopes in groups of seeds, and linear rates on both problems."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # of methods that keep the noise of their batches
    T, groups, seeds, passes = (400, 2, 1, 40) if quick else (10_000, GROUPS, SEEDS, 80)
    problem, best, S = portfolio()
    slopes = {}
    for about, _, _, name, params in SLOPES:
        slopes[about] = [
            slope_of(problem, best, S, name, params, range(g * seeds, (g + 1) * seeds), T) for g in range(groups)
        ]
        print(f"{about}: done", flush=True)
    linear = {
        about: [linear_rate(*where, name, params, range(seeds), passes) for where in ((problem, best), curved())]
        for about, name, params in LINEAR
    }
    settings = {"B": B, "iterations": T, "groups": groups, "seeds": seeds, "passes": passes}
    return {"settings": settings, "results": {"slopes": slopes, "linear": linear}}


def tables(stored):
    """Slopes; decades a pass with R^2."""
    results = stored["results"]
    slopes = [
        [about, schedules, order, ", ".join(f"{slope:.2f}" for slope in results["slopes"][about])]
        for about, schedules, order, _, _ in SLOPES
    ]
    linear = [
        [about, *(f"{value:.2f}" for rate in results["linear"][about] for value in rate)] for about, _, _ in LINEAR
    ]
    return {
        "slopes": markdown(["method", "schedules", "stated order", "slopes"], slopes),
        "linear": markdown(["method", "mean-variance", "R^2", "curved", "R^2"], linear),
    }
