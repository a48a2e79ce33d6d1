"""The paper's finite-sum portfolio experiment: five published methods, the automatic one and L-BFGS.

Two sets of 2000 Gaussian returns of 200 assets, all methods from x_0 = ones, the published step sizes.
"""

from pathlib import Path

import numpy as np

from sk_stormc.datasets.gaussian_returns import make_gaussian_returns
from sk_stormc.portfolio.risk.mean_risk import PortfolioProblem
from sk_stormc.reproduce.progress import progress_line
from sk_stormc.reproduce.returns_file import add_data_arguments, load_returns
from sk_stormc.reproduce.runner import Case, check_methods, draw_runs, run_methods, summarize
from sk_stormc.solvers import minimize

__all__ = ["MAX_IFO", "METHODS", "minimum", "published_sets", "run_portfolio"]

MAX_IFO = 3_000_000  # 10,000 iterations of STORM-C at the published batch sizes

# Of the published scripts; batches of 2000 are all of the published data. No tolerance where the paper has none.
_AVERAGING = {"learning_rate": 2e-5, "batch_size": 2000, "beta": 0.9, "tol": 0}
_EPOCHS = {
    "learning_rate": 2e-5,
    "checkpoint_batch_size": 2000,
    "batch_size": (5, 5, 1),
    "epoch_length": 20,
    "tol": 0,
}
METHODS = {
    "scgd": _AVERAGING,
    "asc-pg": _AVERAGING,
    "vrsc-pg": _EPOCHS,
    "sarah-c": _EPOCHS,
    "storm-c-paper": {"tol": 0},
    # these stop by themselves; tol is relative to the gradient at x_0, which is far away on daily returns
    "storm-c": {"tol": 1e-6},
    "lbfgs": {"tol": 1e-6},
}
STEPS = "Published constants; storm-c and lbfgs choose their own steps, and stop at tol=1e-6."
ELSEWHERE = "The published step sizes were tuned for the paper's Gaussian data (returns of size 4), not for these."


def published_sets():
    """The two return sets of the experiment, generated."""
    return {
        f"condition number {kappa}": make_gaussian_returns(
            2000, 200, mean=4.0, condition_number=kappa, random_state=0
        )
        for kappa in (4, 20)
    }


def minimum(problem):
    """Phi* of a mean-variance problem: of -<m, x> + lambda x'Sx in closed form, or L-BFGS' value if smaller."""
    # in units of the assets' root mean square return, so that one threshold serves all
    unit = np.sqrt(np.mean(problem.returns**2, axis=0))
    unit[unit == 0] = 1.0
    m = problem.mean / unit
    R = problem.returns / unit - m
    _, s, V = np.linalg.svd(np.linalg.qr(R / np.sqrt(len(R)), mode="r"), full_matrices=False)
    risky = s > max(R.shape) * np.finfo(float).eps
    along = V[risky] @ m  # S = V' s^2 V
    if np.linalg.norm(m - along @ V[risky]) > 1e-8 * np.linalg.norm(m):
        n, d = R.shape
        raise ValueError(
            f"the mean-variance objective of these returns ({n} periods, {d} assets) is unbounded below: some "
            "combination of the assets has a mean return and no risk. Use more periods than assets, and drop "
            "assets that are constant"
        )
    x = along / (2 * problem.risk_aversion * s[risky] ** 2) @ V[risky] / unit
    return min(problem.objective(x), minimize(problem, "lbfgs", x, tol=1e-10).fun)


def run_portfolio(data_sets=None, methods=tuple(METHODS), *, max_ifo=MAX_IFO, n_seeds=3, progress=None):
    """Run the portfolio experiment: minimise mean-variance utility from x_0 = ones, at the published constants."""
    methods = check_methods(methods, METHODS)
    cases = []
    for name, returns in (published_sets() if data_sets is None else data_sets).items():
        if progress is not None:
            progress(f"{name}, Phi*", 0.0)
        problem = PortfolioProblem(returns)
        optimum = minimum(problem)
        cases.append(Case(name, problem, np.ones(problem.n_variables), optimum, abs(optimum)))
    return run_methods(cases, methods, max_ifo=max_ifo, n_seeds=n_seeds, progress=progress)


def add_arguments(parser):
    """Add the experiment's own option."""
    add_data_arguments(parser, "your own returns (periods x assets) instead of the paper's")


def report(args):
    """Run the experiment, print its table and write its picture."""
    if args.data is None:
        data, about = published_sets(), "generated Gaussian returns of shape (2000, 200)"
    else:
        found = load_returns(args.data, args.drop_missing, args.unit)
        data = {Path(args.data).stem: found.values}
        about = f"{args.data}: {found.line()}"
    with progress_line() as show:
        runs = run_portfolio(data, args.methods, max_ifo=args.ifo, n_seeds=args.seeds, progress=show)
    print(f"{about}; x_0 = ones.", STEPS, *([] if args.data is None else [ELSEWHERE]), "", sep="\n")
    print(summarize(runs))
    draw_runs(runs, args.out)
    print(f"\nPicture written to {args.out}")
