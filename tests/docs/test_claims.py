"""Sentences of the guide that promise something, each with a function that shows it, and
still on its page. Blocks of code on the pages are run by ``package/test_docs.py``."""

import pickle
import re
import warnings
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from sk_stormc import (
    ActionValueEstimator,
    BellmanValueEstimator,
    CompositionalPortfolio,
    SNEEmbedding,
    compare_policies,
    compare_solvers,
    estimated_ratios,
    minimize,
    off_policy_value,
    walk_forward,
)
from sk_stormc.__main__ import main
from sk_stormc.datasets import (
    make_gaussian_returns,
    returns_from_moments,
)
from sk_stormc.problems import PortfolioProblem

DOCS = Path(__file__).resolve().parents[2] / "docs"
X = make_gaussian_returns(300, 5, mean=0.1, condition_number=5, random_state=0)
NAMES = ["a", "b", "c", "d", "e"]
FRAME = pd.DataFrame(X, pd.bdate_range("2020-01-01", periods=len(X)), NAMES)
HELD = {"constraint": "long_only"}
LEAST = {"risk_aversion": np.inf}
RNG = np.random.default_rng(0)
S, ENDS = RNG.normal(size=(120, 2)), np.arange(120) % 6 == 5
EPISODES = np.repeat(np.arange(20), 6)
ACTIONS = RNG.integers(2, size=120)
LOG = {"next_X": np.roll(S, -1, axis=0), "terminal": ENDS}
POINTS = np.random.default_rng(1).normal(size=(60, 4))


def fitted(returns=X, sample_weight=None, **parameters):
    return CompositionalPortfolio(**parameters).fit(
        returns, sample_weight=sample_weight
    )


def values(rewards=None, gamma=0.9, **logged):
    rewards = S[:, 0] if rewards is None else rewards
    return BellmanValueEstimator(gamma=gamma).fit(S, rewards, **(logged or LOG))


def actions(y=None, **parameters):
    y = S[:, 0] if y is None else y
    return ActionValueEstimator(gamma=0.9, **parameters).fit(
        S, y, action=ACTIONS, **LOG
    )


def raises(call, words="", error=ValueError):
    with pytest.raises(error, match=words):
        call()
    return True


def warns(call, words, category=UserWarning):
    with pytest.warns(category, match=words):
        call()
    return True


def silent(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()
    return True


def stored(array, folder):
    np.save(folder / "rows.npy", array)
    return np.load(folder / "rows.npy", mmap_mode="r")


def streamed(**parameters):
    return CompositionalPortfolio(**HELD, **parameters).partial_fit(X)


def in_stream(name, value):
    return raises(lambda: streamed(**{name: value}), name, (AttributeError, ValueError))


def near(one, other, rtol=1e-6):
    return np.allclose(one, other, rtol=rtol, atol=rtol)


def in_dask(*arrays):
    da = pytest.importorskip("dask.array")
    return [da.from_array(array, chunks=(50, *array.shape[1:])) for array in arrays]


def lazy_log():
    return dict(zip(LOG, in_dask(*LOG.values()), strict=True))


def minibatches_of_dask():
    pytest.importorskip("jax", exc_type=ImportError)
    from sk_stormc.problems import DifferentiableLogMeanExp

    problem = DifferentiableLogMeanExp(
        lambda x, row: row @ x, in_dask(np.ones((1100, 5)))[0], x0=np.zeros(5)
    )
    return raises(lambda: minimize(problem, "sarah-c", random_state=0))


def refuses_dates_along_columns(folder):
    FRAME.T.to_csv(folder / "returns.csv")
    return main(["portfolio", "--data", str(folder / "returns.csv")]) == 2


def doubled(portfolio, factor):
    """Whether another unit of the returns and of the risk aversion is the same fit."""
    other = fitted(factor * X, **HELD, risk_aversion=portfolio.risk_aversion / factor)
    return near(portfolio.weights_, other.weights_)


def walks_on_all_rows():
    result = walk_forward(CompositionalPortfolio(**HELD), X / 100, first_window=250)
    by_hand = [fitted(X[:n] / 100, **HELD).weights_ for n in (250, 271, 292)]
    return near(result.weights_after, by_hand)


# page, sentence, what shows it
CLAIMS = [
    # Portfolios: weights from returns
    ("portfolio", "`fit` raises a ValueError if the index of a frame contains dates or numbers in descending order",
     lambda _: raises(lambda: fitted(FRAME[::-1], **HELD), "index")),
    ("portfolio", "It also raises a ValueError for an index in no order if the order matters: with `half_life`, for \"cdar\"",
     lambda _: raises(lambda: fitted(FRAME.sample(frac=1, random_state=0), half_life=50, **HELD), "index")),
    ("portfolio", "1 for fractions is the same as 0.01 for percent", lambda _: doubled(fitted(**HELD), 100)),
    ("portfolio", "It needs a budget other than 0, bounds that exclude the empty portfolio",
     lambda _: raises(lambda: fitted(**LEAST, constraint=(-1, 1), budget=0.0), "empty portfolio")),
    ("portfolio", "They are proportional to the size of the weights, and therefore need bounds, a budget or `l2`",
     lambda _: raises(lambda: fitted(risk_measure="cvar"), "budget") and fitted(risk_measure="cvar", l2=0.1).dual_gap_ < 1e-3),
    ("portfolio", "Iterative solvers, and more than 4,096 assets, raise an error with them",
     lambda _: raises(lambda: fitted(solver="storm-c", risk_measure="cvar", **HELD), "newton")),
    ("portfolio", "The method is deterministic",
     lambda _: (fitted(**HELD, random_state=0).weights_ == fitted(**HELD, random_state=1).weights_).all()),
    ("portfolio", "A solver that you name is never replaced by another one",
     lambda _: type(fitted(solver="storm-c", **HELD).solver_).__name__ == "AutomaticSTORM"),
    ("portfolio", "`set_params(solver__learning_rate=...)` replaces \"auto\" by an instance of \"storm-c\"",
     lambda _: type(CompositionalPortfolio().set_params(solver__learning_rate=0.1).solver).__name__ == "AutomaticSTORM"),
    ("portfolio", "This warning is raised once", lambda _: fitted().weights_.shape == (5,) and silent(lambda: fitted())),
    ("portfolio", "For a frame, `predict` returns a Series with the index of the frame",
     lambda _: fitted(FRAME, **HELD).predict(FRAME[:7]).index.equals(FRAME.index[:7])),
    # Limits and costs
    ("limits", "It is not supported for ratios", lambda _: raises(lambda: fitted(objective="ratio", l2=0.1, **HELD), "l2")),
    ("limits", "`l2` is supported by all solvers except \"lbfgs\"", lambda _: raises(lambda: fitted(solver="lbfgs", l2=0.1), "l2")),
    ("limits", "so that `risk_aversion=numpy.inf` raises an error with this budget alone",
     lambda _: raises(lambda: fitted(**LEAST, budget=0.0), "empty portfolio")),
    ("limits", "A column without a label is an error", lambda _: raises(lambda: fitted(FRAME, constraint=(0, {"a": 1})), "'b'")),
    ("limits", "It is also an error if no label matches a column",
     lambda _: raises(lambda: fitted(FRAME, constraint=(0, {"z": 1})), "z")),
    ("limits", "A list with a pair for each asset, as in SciPy, raises an error",
     lambda _: raises(lambda: fitted(constraint=[(0, 1)] * 5), "a pair for each asset")),
    ("limits", "The constraints hold to a billionth of their size",
     lambda _: fitted(FRAME, linear_constraints="a + b <= 0.1", **HELD).weights_[:2].sum() <= 0.1 * (1 + 1e-9)),
    ("limits", "the fit raises an error that names the constraints that contradict each other",
     lambda _: raises(lambda: fitted(FRAME, linear_constraints=["a <= 0.1", "a >= 0.2"], **HELD), "0.2")),
    ("limits", "are supported by \"auto\", \"newton\" and \"moments\", for arrays, files and dask collections",
     lambda folder: near(fitted(stored(X, folder), benchmark=np.full(5, 0.2), max_gross=1.2, budget=1).weights_,
                         fitted(benchmark=np.full(5, 0.2), max_gross=1.2, budget=1).weights_, 1e-4)),
    ("limits", "If a trade is not worth its cost, the weight stays exactly the same",
     lambda _: (fitted(**HELD, previous_weights=np.full(5, 0.2), transaction_cost=1e3).weights_ == 0.2).all()),
    ("limits", "The benchmark is the label of a column, whose weight stays 0",
     lambda _: fitted(FRAME, benchmark="c", **HELD).weights_[2] == 0),
    ("limits", "`predict` still returns the portfolio's own returns",
     lambda _: near(fitted(benchmark=0, **HELD).predict(X), X @ fitted(benchmark=0, **HELD).weights_)),
    ("limits", "`partial_fit`, returns in files and named solvers other than \"scip\" raise an error",
     lambda folder: raises(lambda: fitted(stored(X, folder), max_assets=2, **HELD), "in memory") and in_stream("max_assets", 2)
     and raises(lambda: fitted(solver="newton", max_assets=2, **HELD), "max_assets")),
    # Forecasts
    ("forecasts", "`predict` and `score` use the returns that they are given",
     lambda _: near(fitted(expected_returns=np.full(5, 9.0), **HELD).predict(X).mean(), X.mean(axis=0)
                    @ fitted(expected_returns=np.full(5, 9.0), **HELD).weights_)),
    ("forecasts", "Returns in files and dask collections are supported",
     lambda folder: near(fitted(stored(X, folder), expected_returns=np.arange(5) / 9, **HELD).weights_,
                         fitted(expected_returns=np.arange(5) / 9, **HELD).weights_, 1e-4)),
    ("forecasts", "streams of other solvers raise an error",
     lambda _: raises(lambda: streamed(solver="storm-c", expected_returns=np.zeros(5)), "expected_returns")),
    ("forecasts", "makes a short table of returns with exactly a given mean and covariance",
     lambda _: near(np.cov(returns_from_moments(np.ones(2), np.eye(2) + 1).T, bias=True), np.eye(2) + 1)),
    # Ratios and frontiers
    ("ratios", "A return that no portfolio has raises an error that contains the largest possible one",
     lambda _: raises(lambda: fitted(**LEAST, min_return=9.0, **HELD), f"{X.mean(axis=0).max():.4g}")),
    ("ratios", "`risk_aversion` is then not used",
     lambda _: (fitted(objective="ratio", risk_aversion=9.0, **HELD).weights_ == fitted(objective="ratio", **HELD).weights_).all()),
    ("ratios", "With the entropic risk the fit raises an error, since this risk includes the mean return",
     lambda _: raises(lambda: fitted(objective="ratio", risk_measure="entropic", **HELD), "entropic")),
    ("ratios", "Such returns raise an error for every measure",
     lambda _: raises(lambda: fitted(np.c_[X, np.full(300, 0.01)], objective="ratio", **HELD), "riskless")),
    ("ratios", "the fit raises an error that contains the minimum risk",
     lambda _: raises(lambda: fitted(max_risk=1e-3, **HELD), "least risk")),
    ("ratios", "With the entropic risk the fit raises an error, as for ratios",
     lambda _: raises(lambda: fitted(max_risk=1.0, risk_measure="entropic", **HELD), "entropic")),
    # Many rows
    ("many_rows", "so the result is the same for any `random_state`",
     lambda folder: (fitted(stored(X, folder), risk_measure="evar", random_state=0, **HELD).weights_
                     == fitted(stored(X, folder), risk_measure="evar", random_state=1, **HELD).weights_).all()),
    ("many_rows", "except `max_assets` and `min_held`",
     lambda folder: raises(lambda: fitted(stored(X, folder), min_held=0.1, **HELD), "in memory")),
    # Backtesting
    ("walk_forward", "Returns that have the size of percents, and returns below -1, raise an error",
     lambda _: raises(lambda: walk_forward(fitted(**HELD), X, window=100), "unit|percent")),
    ("walk_forward", "One forecast for all dates raises a warning",
     lambda _: warns(lambda: walk_forward(CompositionalPortfolio(expected_returns=np.zeros(5), **HELD), X / 100, window=250),
                     "expected_returns")),
    ("walk_forward", "Without `window` it is fitted on all rows before $s$", lambda _: walks_on_all_rows()),
    ("walk_forward", "A missing return of an asset that is held raises an error",
     lambda _: raises(lambda: walk_forward(CompositionalPortfolio(**HELD), np.where(np.arange(300)[:, None] == 260, np.nan, X / 100),
                                           window=250), "missing")),
    # Streams
    *[("streams", "for `max_risk`, `min_return`, `max_assets`, `min_held`, ratios and benchmarks, `partial_fit` raises an error",
       lambda _, name=name, value=value: in_stream(name, value))
      for name, value in (("max_risk", 1.0), ("max_assets", 2), ("min_held", 0.1), ("objective", "ratio"), ("benchmark", 0))],
    ("streams", "`max_iter` and `tol` are not used",
     lambda _: (streamed(max_iter=1, tol=0.9).weights_ == streamed().weights_).all()),
    ("streams", "The estimator can be pickled",
     lambda _: (pickle.loads(pickle.dumps(streamed())).partial_fit(X).weights_ == streamed().partial_fit(X).weights_).all()),
    # Values
    ("values", "If a log has episodes and `terminal` is missing, all of them count as cut off, and `fit` warns",
     lambda _: warns(lambda: values(episode=EPISODES), "terminal|cut off")),
    ("values", "These rows are dropped",
     lambda _: values(episode=EPISODES, terminal=np.zeros(120, bool)).coef_.shape == (2,)),
    ("values", "and at most 2,000 features (512 in `partial_fit`)",
     lambda _: raises(lambda: BellmanValueEstimator().fit(np.ones((30, 2001)), np.ones(30), next_X=np.zeros((30, 2001)),
                      terminal=np.arange(30) % 3 == 2, episode=np.arange(30) // 3).predict(np.eye(1, 2001), return_std=True), "2000")),
    ("values", "`sample_weight` never changes the choice",
     lambda _: values(**LOG, sample_weight=RNG.random(120)).objective_ == values().objective_),
    # Off-policy evaluation
    ("off_policy", "warns if the effective number of episodes of that policy is below 20",
     lambda _: warns(lambda: off_policy_value(S[:60, 0], np.ones(60), EPISODES[:60]), "effective|episodes")),
    ("off_policy", "Ratios that these probabilities cannot have are an error",
     lambda _: raises(lambda: off_policy_value(S[:, 0], np.full(120, 0.05), EPISODES, method="wdr", target=np.tile([0.9, 0.1], (120, 1)),
                                               X=S, action=ACTIONS, **LOG), "ratio|target")),
    ("off_policy", "Ratios are never clipped automatically",
     lambda _: estimated_ratios(S, ACTIONS, np.full(120, 1.0), LogisticRegression()).min() > 1),
    ("off_policy", "It is None if there is no such policy",
     lambda _: compare_policies({"s": S[:, 0], "action": ACTIONS, "reward": S[:, 1], "p": np.full(120, 0.5)},
                                {"half": np.full((120, 2), 0.5)}, state="s", probability="p").best_ is None),
    # Control
    ("control", "The solution is always exact", lambda _: actions().solver_ == "lstd"),
    ("control", "Without `action`, all rows have one action, whose values are those of states",
     lambda _: near(ActionValueEstimator(gamma=0.9).fit(S, S[:, 0], **LOG).predict(S)[:, 0],
                    BellmanValueEstimator(gamma=0.9, objective="projected").fit(S, S[:, 0], **LOG).predict(S))),
    ("control", "The best policy is then arbitrary, and `fit` warns",
     lambda _: warns(lambda: ActionValueEstimator().fit(S, np.ones(120), action=ACTIONS, next_X=LOG["next_X"]), "worth the same")),
    ("control", "`max_iter`, 50 by default, is the largest number of policies",
     lambda _: actions(max_iter=1).n_iter_ == 1),
    # Maps
    ("embedding", "Most metrics need dense data; for sparse data they raise an error",
     lambda _: raises(lambda: SNEEmbedding(metric="chebyshev").fit(csr_array(POINTS)), "sparse")),
    ("embedding", "`transform` is not available for such a map",
     lambda _: raises(lambda: SNEEmbedding(metric="affinities", max_iter=20).fit(np.ones((9, 9)) - np.eye(9)).transform(POINTS[:2]),
                      "", (ValueError, AttributeError, NotFittedError))),
    ("embedding", "the perplexity is lowered to a third of their number, with a warning",
     lambda _: warns(lambda: SNEEmbedding(perplexity=50, max_iter=20).fit(POINTS), "perplexity")),
    ("embedding", "A new sample that equals a training sample gets the position of the latter",
     lambda _: (lambda fit: near(fit.transform(POINTS[:3]), fit.embedding_[:3]))(SNEEmbedding(perplexity=5, max_iter=30).fit(POINTS))),
    ("coming_from", "Other parameters raise Python's TypeError", lambda _: raises(lambda: SNEEmbedding(n_iter=9), "n_iter", TypeError)),
    ("data", "`fit` raises an error for missing values",
     lambda _: raises(lambda: SNEEmbedding().fit(np.where(np.eye(60, 4) > 0, np.nan, POINTS)), "NaN")),
    ("data", "and return arrays of numpy, whatever they were given", lambda _: type(fitted(FRAME, **HELD).weights_) is np.ndarray),
    ("embedding", "the dimension of the map, 2 by default", lambda _: SNEEmbedding().n_components == 2),
    ("embedding", "the effective number of neighbours of each point, 30 by default", lambda _: SNEEmbedding().perplexity == 30),
    ("embedding", "the perplexity of new samples, 15 by default",
     lambda _: (lambda fit: (fit.transform(POINTS + 0.1) == fit.set_params(transform_perplexity=15).transform(POINTS + 0.1)).all())(
         SNEEmbedding(perplexity=19, max_iter=20).fit(POINTS))),
    # Clusters
    ("clusters", "\"bellman\" groups the transitions of each state, which needs all rows in memory",
     lambda _: raises(lambda: BellmanValueEstimator(objective="bellman").fit(*in_dask(S, S[:, 0]), **lazy_log()), "bellman")),
    ("clusters", "`risk_measure=\"cdar\"` needs X in memory or in a file",
     lambda _: raises(lambda: fitted(*in_dask(X), risk_measure="cdar", **HELD), "cdar")),
    ("clusters", "Methods with minibatches raise an error, unless `batch_size=None`", lambda _: minibatches_of_dask()),
    ("clusters", "Other labels, or the same in another order, raise a ValueError",
     lambda _: raises(lambda: fitted(FRAME, **HELD, sample_weight=pd.Series(1.0, FRAME.index[::-1])), "index|label")),
    ("clusters", "Masked values raise an error, as in memory",
     lambda _: raises(lambda: fitted(in_dask(X)[0].map_blocks(np.ma.masked_less, -1.0), **HELD), "mask")),
    ("clusters", "`partial_fit` raises a ValueError for dask collections",
     lambda _: raises(lambda: CompositionalPortfolio(**HELD).partial_fit(*in_dask(X)), "partition")),
    ("coming_from", "In sk_stormc it is a parameter, 0.95 by default", lambda _: BellmanValueEstimator().gamma == 0.95),
    ("portfolio", "Texts with a year that cannot be read raise a ValueError where the order matters",
     lambda _: raises(lambda: fitted(FRAME[:40].set_axis([f"{1 + k % 20} {('mai', 'juillet')[k // 20]} 2018" for k in range(40)]), half_life=50, **HELD), "order is not known")),
    ("portfolio", "Rows of averages or sums, and dates along the columns, raise an error", lambda folder: refuses_dates_along_columns(folder)),
    ("walk_forward", "arrays of another length raise an error",
     lambda _: raises(lambda: fitted(constraint=(0, np.ones(4)), budget=1), "4")),
    # Solvers and runs
    ("solving", "1e-2, 1e-3 and 1e-4 by default", lambda _: signature(compare_solvers).parameters["gaps"].default == (1e-2, 1e-3, 1e-4)),
    ("solving", "`minimize` warns if you did not set the budget",
     lambda _: silent(lambda: minimize(PortfolioProblem(X), "scgd", max_iter=3, random_state=0))),
    ("solving", "minimize` raises a ValueError with both values for a state of another method",
     lambda _: raises(lambda: minimize(PortfolioProblem(X), "scgd", state=minimize(PortfolioProblem(X), "sarah-c", max_iter=3,
                                                                                    random_state=0).state))),
]  # fmt: skip


@pytest.mark.parametrize(
    "page, sentence, show",
    CLAIMS,
    ids=[f"{page}-{k}" for k, (page, _, _) in enumerate(CLAIMS)],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_claim_stands_on_its_page_and_holds(page, sentence, show, tmp_path):
    text = (DOCS / "guide" / f"{page}.md").read_text(encoding="utf-8")
    assert sentence in re.sub(r"\s+", " ", text)
    assert show(tmp_path)


PROMISES = re.compile(
    r"raises? (an error|a \w*Error)|(is|are)( then)? not used|by default"
)


def test_each_promise_of_an_error_and_of_a_default_is_among_the_claims():
    for file in sorted((DOCS / "guide").glob("*.md")):
        text = re.sub(
            r"```.*?```|<!--.*?-->",
            "",
            file.read_text(encoding="utf-8"),
            flags=re.DOTALL,
        )
        for sentence in re.split(r"(?<=[.:])\s+(?=[A-Z`*\"-])|\|", text):
            sentence = re.sub(r"\s+", " ", sentence).strip(" .")
            if PROMISES.search(sentence):
                assert any(
                    page == file.stem and (claim in sentence or sentence in claim)
                    for page, claim, _ in CLAIMS
                ), f"{file.name}: {sentence}"
