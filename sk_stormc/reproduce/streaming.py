"""The paper's portfolio experiment on streams: five published methods and the automatic
one, with each row used once.

The paper uses daily returns of six regions in percent. By default they are replaced by
two generated markets of 25 assets, with the curvatures of the returns of Global ex US
(34) and of Japan (80). --french uses the six sets themselves, from which rows are drawn
at random without end. All methods start from x_0 = ones. Phi is the expectation, not
the mean over the rows so far.
"""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np

from sk_stormc.datasets.french import fetch_french_portfolios
from sk_stormc.datasets.moments import returns_from_moments
from sk_stormc.portfolio.compositional import PortfolioProblem
from sk_stormc.reproduce import portfolio
from sk_stormc.reproduce.experiment import (
    five_methods,
    run_command,
    show_results,
    summarize,
)
from sk_stormc.reproduce.tuning import variants
from sk_stormc.streams.problem import StreamingProblem

REGIONS = (
    "Global_ex_US",
    "Global",
    "Asia_Pacific_ex_Japan",
    "Europe",
    "North_America",
    "Japan",
)

# The batches of a stream have the same size for g, its Jacobian and f: f has five rows,
# one in the published scripts.
PUBLISHED = five_methods(
    {"learning_rate": 1e-3, "batch_size": 2000, "beta": 0.9, "tol": 0},
    {
        "learning_rate": 1e-3,
        "checkpoint_batch_size": 2000,
        "batch_size": 5,
        "epoch_length": 20,
        "tol": 0,
    },
)
METHODS = PUBLISHED | {"storm-c": {}}
# a stream has no full checkpoint
VARIANTS = variants(
    PUBLISHED,
    "2000",
    "checkpoints of 2000, 20 steps of 5",
    "checkpoints of 20,000",
    checkpoint_batch_size=20_000,
)
LABELS = portfolio.LABELS._replace(title="Streaming portfolio")


def make_market(curvature, n_assets=25, random_state=0):
    """Mean and covariance of daily returns in percent: a common factor plus small
    specific returns."""
    rng = np.random.default_rng(random_state)
    beta, own = rng.uniform(0.8, 1.2, n_assets), rng.uniform(0.2, 0.5, n_assets)
    S = np.outer(beta, beta) + np.diag(own**2)
    return rng.normal(0.03, 0.01, n_assets), S * (
        curvature / 2 / np.linalg.eigvalsh(S)[-1]
    )


def markets():
    """Generate the two markets."""
    return {f"curvature {curvature}": make_market(curvature) for curvature in (34, 80)}


def french_sets():
    """The paper's six sets of daily returns, in percent, downloaded once."""
    data_sets = {}
    for region in REGIONS:
        returns = 100 * np.asarray(fetch_french_portfolios(region, "OP").returns)
        data_sets[region] = returns[np.isfinite(returns).all(axis=1)]
    return data_sets


def cases(methods, sources):
    """The mean-variance utility of the distribution of each stream, from x_0 = ones."""
    distributions = {name: _distribution(source) for name, source in sources.items()}
    for case in portfolio.cases(
        methods, {name: returns for name, (returns, _) in distributions.items()}
    ):
        # the scales of the assets, as in the estimator
        for automatic, preconditioner in ((False, None), (True, "variance")):
            some = {
                method: params
                for method, params in methods.items()
                if (method == "storm-c") == automatic
            }
            if some:
                stream = partial(_stream, distributions[case.name][1], preconditioner)
                yield replace(
                    case, methods=some, problem=stream, expectation=case.problem
                )


def _distribution(source):
    """Returns whose mean and covariance are those of the distribution, and a function
    that draws the rows of a chunk from it."""
    chunk = 4096
    if not isinstance(source, tuple):
        return source, lambda rng: source[rng.integers(len(source), size=chunk)]
    mean, root = source[0], np.linalg.cholesky(source[1])

    def draw_rows(rng):
        return mean + rng.standard_normal((chunk, len(mean))) @ root.T

    return returns_from_moments(*source), draw_rows


def _stream(draw_rows, preconditioner, seed):
    """A new stream of drawn rows."""
    rng = np.random.default_rng([seed, 1])  # a generator that the method does not use
    return StreamingProblem(
        (draw_rows(rng) for _ in itertools.count()),
        partial(PortfolioProblem, preconditioner=preconditioner),
    )


def add_arguments(parser):
    """Add the experiment's own option."""
    parser.add_argument(
        "--french",
        action="store_true",
        help="the paper's six sets of daily returns, downloaded once",
    )


def report(args):
    """Run the experiment, print its table and save its figure."""
    sources = french_sets() if args.french else markets()
    results = run_command(cases(args.methods, sources), args.ifo, args.seeds)
    about = (
        "daily returns of six regions"
        if args.french
        else "two generated markets of 25 assets"
    )
    line = (
        f"{about}, in percent; x_0 = ones. Published constants; storm-c chooses its "
        "own step.\n"
    )
    show_results(results, args.out, line, summarize(results, passes=False))
