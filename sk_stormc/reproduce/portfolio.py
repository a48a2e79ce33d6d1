"""The paper's finite-sum portfolio experiment: five published methods, the automatic
one and L-BFGS.

The experiment uses two sets of 2000 Gaussian returns of 200 assets. All methods start
from x_0 = ones, with the published step sizes.
"""

from pathlib import Path

import numpy as np

from sk_stormc.cli.arguments import add_data_arguments
from sk_stormc.cli.return_files import read_returns
from sk_stormc.datasets.gaussian_returns import make_gaussian_returns
from sk_stormc.portfolio.compositional import PortfolioProblem
from sk_stormc.reproduce.experiment import (
    Case,
    Labels,
    five_methods,
    run_command,
    show_results,
    summarize,
)
from sk_stormc.reproduce.tuning import variants
from sk_stormc.solvers import minimize

# Parameters of the published scripts. Batches of 2000 contain all of the published
# data. There is no tolerance unless the paper has one.
PUBLISHED = five_methods(
    {"learning_rate": 2e-5, "batch_size": 2000, "beta": 0.9, "tol": 0},
    {
        "learning_rate": 2e-5,
        "checkpoint_batch_size": 2000,
        "batch_size": (5, 5, 1),
        "epoch_length": 20,
        "tol": 0,
    },
)
# the others have stopping criteria; tol is relative to the gradient at x_0, which is
# distant for daily returns
METHODS = PUBLISHED | dict.fromkeys(("storm-c", "lbfgs"), {"tol": 1e-6})
VARIANTS = variants(PUBLISHED, "2000", "checkpoints of 2000, 20 steps of 5, 5 and 1")
LABELS = Labels(
    "Finite-sum portfolio",
    "(Phi - Phi\\*) / |Phi\\*|",
    ".2e",
    ["gap  $(\\Phi(x) - \\Phi^*) / |\\Phi^*|$", "exact gradient  $|\\nabla\\Phi|$"],
)


def published_sets(n_periods=2000, n_assets=200):
    """Generate the two return sets of the experiment."""
    return {
        f"condition number {kappa}": make_gaussian_returns(
            n_periods, n_assets, mean=4.0, condition_number=kappa, random_state=0
        )
        for kappa in (4, 20)
    }


def minimum(problem):
    """Phi* of a mean-variance problem: of -<m, x> + lambda x'Sx in closed form, or
    L-BFGS' value if it is smaller."""
    # in units of the assets' root mean square return, so that one threshold is valid
    # for all
    unit = np.sqrt(np.mean(problem.returns**2, axis=0))
    unit[unit == 0] = 1.0
    m = problem.mean / unit
    n, d = problem.returns.shape
    R = (problem.returns / unit - m) / np.sqrt(n)  # S = R'R
    half, *_ = np.linalg.lstsq(R.T, m)
    if np.linalg.norm(m - R.T @ half) > 1e-8 * np.linalg.norm(m):
        raise ValueError(
            f"the mean-variance objective of these returns ({n} periods, {d} assets) "
            "is unbounded below: some combination of the assets has a mean return and "
            "no risk. Use more periods than assets, and drop assets that are constant"
        )
    x = np.linalg.lstsq(R, half)[0] / (2 * problem.risk_aversion) / unit
    return min(problem.objective(x), minimize(problem, "lbfgs", x, tol=1e-10).fun)


def cases(methods, sets):
    """The mean-variance utility of each set of returns, from x_0 = ones."""
    for name, returns in sets.items():
        problem = PortfolioProblem(returns)
        optimum = minimum(problem)
        yield Case(
            name, methods, problem, np.ones(problem.n_variables), optimum, abs(optimum)
        )


def add_arguments(parser):
    """Add the experiment's own option."""
    add_data_arguments(
        parser, "your own returns (periods x assets) instead of the paper's"
    )


def report(args):
    """Run the experiment, print its table and save its figure."""
    lines = [
        "Published constants; storm-c and lbfgs choose their own steps, and stop at "
        "tol=1e-6."
    ]
    if args.data is None:
        sets = published_sets()
        about = "generated Gaussian returns of shape (2000, 200)"
    else:
        read = read_returns(args.data, args.drop_missing, args.unit, args)
        sets, about = (
            {Path(args.data).stem: read.values},
            "\n".join(read.reading.lines()),
        )
        lines.append(
            "The published step sizes were tuned for the paper's Gaussian data (size "
            "4), not for these."
        )
    results = run_command(cases(args.methods, sets), args.ifo, args.seeds)
    texts = [*lines, "", summarize(results), *_verdicts(results, args.data is None)]
    show_results(results, args.out, f"{about}\nx_0 = ones.", *texts)


def _verdicts(results, is_generated):
    """Lines on the paper's claims about this experiment, if its data and methods are
    the paper's, and on how to cite it."""
    # claims are about all experiments, of which this is one
    from sk_stormc.reproduce.claims import published_verdicts

    methods = set.intersection(*(set(each.runs) for each in results.values()))
    lines = ["", "Cite: Yuan and Hu (2020), arXiv:2006.01688; CITATION.cff has both."]
    if not is_generated or not methods >= set(PUBLISHED):
        return lines
    why = "Claims of the paper, by the rule of `reproduce all`, which also tunes:"
    return ["", why, *published_verdicts("portfolio", results), *lines]
