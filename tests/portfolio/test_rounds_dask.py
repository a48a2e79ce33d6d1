"""Portfolios of dask collections: the same bits for any scheduler, names of columns,
and errors that name the place."""

import numpy as np
import pytest
from definitions import make_returns
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import CompositionalPortfolio

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
dask, pd = pytest.importorskip("dask"), pytest.importorskip("pandas")

N = 1200
R = make_returns(N, 4, seed=3)
FRAME = pd.DataFrame(
    R, columns=list("abcd"), index=pd.bdate_range("2015-01-01", periods=N)
)
AVERSION = {
    "variance": 10.0,
    "semivariance": 20.0,
    "entropic": 20.0,
    "cvar": 0.1,
    "evar": 0.05,
    "downside": 0.1,
}


def fit(X, measure="cvar", sample_weight=None, **params):
    params = {"risk_aversion": AVERSION[measure]} | params
    portfolio = CompositionalPortfolio(
        risk_measure=measure, constraint="long_only", **params
    )
    return portfolio.fit(X, sample_weight=sample_weight)


def same_within_the_gap(rounds, direct):
    above = rounds.loss_curve_[-1] - direct.loss_curve_[-1]
    rounding = 1e-9 * abs(direct.loss_curve_[-1])
    assert -direct.dual_gap_ - rounding <= above <= rounds.dual_gap_ + rounding
    assert rounds.stop_reason_ == "converged"


@pytest.mark.parametrize("measure", ["variance", "evar", "cvar"])
def test_schedulers_and_arrays_with_the_same_blocks_have_the_same_bits(measure):
    X = da.from_array(R, chunks=(400, 2))  # several chunks of columns
    rounds = fit(X, measure)
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(fit(X, measure).weights_, rounds.weights_)
    same_within_the_gap(rounds, fit(R, measure))
    assert rounds.score(X) == pytest.approx(rounds.score(R), rel=1e-9)


def test_a_frame_has_names_and_lazy_predictions():
    X = dd.from_pandas(FRAME, npartitions=3)
    params = {
        "half_life": 500,
        "groups": {"a": "few", "b": "few"},
        "linear_constraints": "few <= 0.4",
    }
    rounds = fit(X, "semivariance", **params)
    same_within_the_gap(rounds, fit(FRAME, "semivariance", **params))
    assert (
        rounds.feature_names_in_.tolist()
        == list(rounds.named_weights().index)
        == list("abcd")
    )
    # a score has the weights of its own periods
    assert rounds.score(X) == pytest.approx(rounds.score(FRAME), rel=1e-9)
    earned = rounds.predict(X)
    assert dask.is_dask_collection(earned)
    np.testing.assert_allclose(earned.compute(), R @ rounds.weights_, rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        rounds.predict(X[list("abdc")])


def test_unknown_lengths_empty_partitions_and_few_rows():
    X = dd.from_pandas(FRAME.reset_index(drop=True), npartitions=6)
    kept = X[(X["a"] > -0.02) & (X.index > 300)]  # the first partition is empty
    direct = fit(kept.compute(), "evar")
    for some in (kept, kept.to_dask_array()):
        same_within_the_gap(fit(some, "evar"), direct)
    with pytest.raises(ValueError, match="at least 2 periods, got 1"):
        fit(da.from_array(R[:1], chunks=(1, 4)))


def test_weights_and_benchmarks_beside_the_returns():
    X = da.from_array(R, chunks=(400, 4))
    weight = np.random.default_rng(0).uniform(size=N)
    rounds = fit(X, "cvar", weight)
    same_within_the_gap(rounds, fit(R, "cvar", weight))
    lazy = fit(X, "cvar", da.from_array(weight, chunks=400))
    np.testing.assert_allclose(lazy.weights_, rounds.weights_, atol=1e-9)
    direct = fit(R, benchmark=R[:, 0])
    for benchmark in (R[:, 0], X[:, 0], [1.0, 0, 0, 0]):
        same_within_the_gap(fit(X, benchmark=benchmark), direct)
    with pytest.raises(
        ValueError,
        match="sample_weight must be finite and >= 0, got -1.0 for period 700",
    ):
        fit(
            X,
            sample_weight=da.from_array(
                np.where(np.arange(N) == 700, -1, weight), chunks=400
            ),
        )


def test_a_missing_return_is_named():
    X = R.copy()
    X[1000, 2] = np.nan
    X = da.from_array(X, (400, 4))
    for column, table in ((2, X), ("'c'", dd.from_dask_array(X, columns=list("abcd")))):
        words = f"X must be finite, got nan in column {column}.*in partition 2"
        with pytest.raises(ValueError, match=words):
            fit(table)


def test_what_dask_cannot_take():
    X = da.from_array(R, chunks=(400, 4))
    with pytest.raises(
        ValueError, match="got a dask collection of 4 assets: use solver='auto'"
    ):
        fit(X, "variance", solver="storm-c")
    with pytest.raises(ValueError, match="two dimensions"):
        fit(X[:, 0])
    assert fit(X, "variance", solver="moments").solver_ == "moments"


def unknown(table, n=3):
    """A collection without known divisions."""
    step = -(-len(table) // n)
    parts = [dask.delayed(table[k * step : (k + 1) * step]) for k in range(n)]
    return dd.from_delayed(parts, meta=table[:0], verify_meta=False)


def dropping(block):
    """The positive half of a block."""
    return block[block[:, 0] > 0]


@pytest.mark.parametrize("change, message", [
    (dropping, r"partition \d of X must have the shape \(\d+, 4\) .*compute_chunk_sizes"),
    (lambda block: np.ma.masked_less(block, -0.01), "must have all its values, got"),
])  # fmt: skip
def test_blocks_that_are_not_as_they_are_declared(change, message):
    """A fit of the rows that were left had a small gap, and no warning."""
    X = da.map_blocks(change, da.from_array(R, chunks=(400, 4)), dtype=float)
    portfolio = fit(R, "semivariance")
    for call in (
        portfolio.score,
        lambda X: portfolio.predict(X).compute(),
        portfolio.fit,
    ):
        with pytest.raises(ValueError, match=message):
            call(X)


OTHER_YEARS = FRAME.index + pd.Timedelta(days=4000)


@pytest.mark.parametrize(
    "labels", [FRAME.index[::-1], OTHER_YEARS], ids=["newest", "other"]
)
def test_series_beside_a_frame_of_dask_have_its_labels(labels):
    """They were taken by position, with a small gap."""
    X = (
        unknown(FRAME)
        if labels is OTHER_YEARS
        else dd.from_pandas(FRAME, npartitions=3)
    )
    series = pd.Series(abs(R[:, 0]), labels, name="index")
    for other in (series, unknown(series)):
        portfolio = CompositionalPortfolio(risk_aversion=np.inf, constraint="long_only")
        with pytest.raises(
            ValueError, match="sample_weight must have .* has the label"
        ):
            portfolio.fit(X, sample_weight=other)
        portfolio.set_params(benchmark=other)
        with pytest.raises(ValueError, match="benchmark must have .* has the label"):
            portfolio.fit(X)
    portfolio.set_params(benchmark=pd.Series(R[:, 0], FRAME.index)).fit(X)
    with pytest.raises(ValueError, match="sample_weight must have .* has the label"):
        portfolio.score(X, sample_weight=series)
    np.testing.assert_allclose(portfolio.weights_, [1, 0, 0, 0], atol=1e-4)


def test_weights_and_benchmarks_of_several_columns():
    X, two = da.from_array(R, chunks=(400, 4)), da.from_array(abs(R[:, :2]), (400, 2))
    with pytest.raises(ValueError, match=r"sample_weight .* got shape \(1200, 2\)"):
        fit(X, sample_weight=two)
    with pytest.raises(ValueError, match=r"benchmark .* got shape \(1200, 2\)"):
        fit(X, benchmark=two)


def test_bounds_that_contradict_each_other():
    """Returns that halve after some passes. The gap was negative, and the objective "may
    be above its minimum by up to -0.00094"."""
    computed = []

    def change(block):
        computed.append(block)
        return block if len(computed) < 12 else 0.5 * block

    X = da.map_blocks(
        change, da.from_array(R, (500, 4)), dtype=float, meta=np.empty((0, 0))
    )
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.warns(
            ConvergenceWarning, match="below a lower bound of its minimum, by"
        ),
    ):
        portfolio = fit(X, "semivariance")
    assert portfolio.dual_gap_ == np.inf and portfolio.stop_reason_ == "max_iter"
