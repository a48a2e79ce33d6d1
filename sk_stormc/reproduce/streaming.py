"""The paper's portfolio experiment on streams: five published methods and the automatic one, with each row used once.

The paper uses daily returns of six regions in percent. By default they are replaced by two generated markets of 25
assets, with the curvatures of the returns of Global ex US (34) and of Japan (80). --french uses the six sets
themselves, from which rows are drawn at random without end. All methods start from x_0 = ones. Phi is the expectation,
not the mean over the rows so far.
"""

from functools import partial

import numpy as np

from sk_stormc.datasets.french import fetch_french_portfolios
from sk_stormc.portfolio.compositional import PortfolioProblem
from sk_stormc.reproduce.portfolio import minimum
from sk_stormc.reproduce.runner import Case, check_methods, draw_runs, progress_line, run_methods, summarize
from sk_stormc.streams.problem import StreamingProblem

__all__ = ["MAX_IFO", "METHODS", "REGIONS", "french_sets", "make_market", "markets", "run_streaming", "stream_case"]

MAX_IFO = 3_000_000  # 10,000 iterations of STORM-C at the published batch sizes
REGIONS = ("Global_ex_US", "Global", "Asia_Pacific_ex_Japan", "Europe", "North_America", "Japan")
CHUNK = 4096  # rows that arrive at a time

# The batches of a stream have the same size for g, its Jacobian and f: f has five rows, one in the published scripts.
_AVERAGING = {"learning_rate": 1e-3, "batch_size": 2000, "beta": 0.9, "tol": 0}
_EPOCHS = {"learning_rate": 1e-3, "checkpoint_batch_size": 2000, "batch_size": 5, "epoch_length": 20, "tol": 0}
METHODS = {
    "scgd": _AVERAGING,
    "asc-pg": _AVERAGING,
    "vrsc-pg": _EPOCHS,
    "sarah-c": _EPOCHS,
    "storm-c-paper": {"tol": 0},
    "storm-c": {},
}
AUTOMATIC = ("storm-c",)  # with the scales of the assets, as in the estimator


def make_market(curvature, n_assets=25, random_state=0):
    """Mean and covariance of daily returns in percent: a common factor plus small specific returns."""
    rng = np.random.default_rng(random_state)
    beta, own = rng.uniform(0.8, 1.2, n_assets), rng.uniform(0.2, 0.5, n_assets)
    S = np.outer(beta, beta) + np.diag(own**2)
    return rng.normal(0.03, 0.01, n_assets), S * (curvature / 2 / np.linalg.eigvalsh(S)[-1])


def markets():
    """Generate the two markets."""
    return {f"curvature {curvature}": make_market(curvature) for curvature in (34, 80)}


def french_sets(data_home=None):
    """The paper's six sets of daily returns, in percent, downloaded if they are not in ``data_home``."""
    data_sets = {}
    for region in REGIONS:
        returns = 100 * np.asarray(fetch_french_portfolios(region, "OP", data_home=data_home).returns)
        data_sets[region] = returns[np.isfinite(returns).all(axis=1)]
    return data_sets


def stream_case(name, source, metric=None):
    """A case of the runner: a stream, and the problem of its expectation."""
    gaussian = isinstance(source, tuple)
    if gaussian:
        mean, root = source[0], np.linalg.cholesky(source[1])
        steps = np.sqrt(len(mean)) * root.T
        problem = PortfolioProblem(np.vstack([mean + steps, mean - steps]))  # rows with this mean and covariance
    else:
        problem = PortfolioProblem(source)

    def rows(seed):
        rng = np.random.default_rng([seed, 1])  # a generator that the method does not use
        while True:
            if gaussian:
                yield mean + rng.standard_normal((CHUNK, len(mean))) @ root.T
            else:
                yield source[rng.integers(len(source), size=CHUNK)]

    optimum = minimum(problem)
    return Case(
        name,
        problem,
        np.ones(problem.n_variables),
        optimum,
        abs(optimum),
        stream=lambda seed: StreamingProblem(rows(seed), partial(PortfolioProblem, metric=metric)),
    )


def run_streaming(sources=None, methods=tuple(METHODS), *, max_ifo=MAX_IFO, n_seeds=3, progress=None):
    """Run the streaming portfolio experiment with the published constants."""
    methods = check_methods(methods, METHODS)
    jobs = []
    for name, source in (markets() if sources is None else sources).items():
        jobs += [
            (stream_case(name, source), {m: params for m, params in methods.items() if m not in AUTOMATIC}),
            (stream_case(name, source, "variance"), {m: params for m, params in methods.items() if m in AUTOMATIC}),
        ]
    return run_methods(jobs, max_ifo=max_ifo, n_seeds=n_seeds, progress=progress)


def add_arguments(parser):
    """Add the experiment's own option."""
    parser.add_argument("--french", action="store_true", help="the paper's six sets of daily returns, downloaded once")


def report(args):
    """Run the experiment, print its table and save its figure."""
    sources = french_sets() if args.french else None
    with progress_line() as show:
        runs = run_streaming(sources, args.methods, max_ifo=args.ifo, n_seeds=args.seeds, progress=show)
    about = "daily returns of six regions" if args.french else "two generated markets of 25 assets"
    print(f"{about}, in percent; x_0 = ones. Published constants; storm-c chooses its own step.\n")
    print(summarize(runs, passes=False))
    draw_runs(runs, args.out)
    print(f"\nPicture written to {args.out}")
