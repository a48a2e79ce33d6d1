"""What identifies a fit: the bytes of its data, and its parameters, functions among
them by name."""

import functools
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import FunctionTransformer

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio, STORMCompositional
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.utils.descriptions import describe, fingerprint

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RETURNS = make_gaussian_returns(3000, 6, mean=0.1, random_state=0)
LOG = make_bellman_problem(20, 5, 0.9, "garnet", random_state=0).transitions(
    1500, random_state=0
)


# data


def test_any_changed_number_changes_the_fingerprint():
    rng = np.random.default_rng(0)
    for data in (
        RETURNS,
        rng.standard_normal(70_001).astype(np.float32),
        rng.integers(5, size=(500, 7)),
        RETURNS > 0,
    ):
        for k in [0, data.size - 1, *rng.integers(data.size, size=20)]:
            other = data.copy()
            number = other.reshape(-1)[k : k + 1].view(np.uint8)
            number[rng.integers(number.size)] ^= (
                1 if data.dtype == bool else 1 << rng.integers(8)
            )
            assert fingerprint(other) != fingerprint(data)


def test_the_fingerprint_does_not_depend_on_where_the_rows_lie(tmp_path):
    # more than two blocks of rows
    data = np.random.default_rng(0).standard_normal((150_000, 30))
    expected = fingerprint(data)
    data.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", float, "r", shape=data.shape)
    frame = pd.DataFrame(data)
    for same in (
        data[::-1][::-1],
        mapped,
        np.asfortranarray(data),
        frame,
        np.repeat(data, 2, axis=1)[:, ::2],
    ):
        assert fingerprint(same) == expected
    for row in (69_904, 69_905, -1):  # at the end of a block and after it
        changed = data.copy()
        changed[row, -1] += 1
        assert fingerprint(changed) != expected
    assert (
        fingerprint(data[:5].tolist())
        == fingerprint(data[:5])
        == fingerprint(data[:5].astype(object))
    )
    assert (
        len(
            {
                expected,
                fingerprint(data.T),
                fingerprint(data.reshape(-1)),
                fingerprint(data[:, 0]),
            }
        )
        == 4
    )


# parameters


def halving(x):
    return 0.5**x


def doubling(x):
    return 2.0**x


@dataclass
class Schedule:
    """A schedule defined by the user."""

    start: float

    def __call__(self, t):
        return self.start / (t + 1)


OTHERS = [
    (halving, doubling),
    (functools.partial(halving, x=2.0), functools.partial(halving, x=3.0)),
    (FunctionTransformer(halving), FunctionTransformer(doubling)),
    (Schedule(0.5).__call__, Schedule(0.6).__call__),
    (np.array([1.0, 2.0]).mean, np.array([1.0, 3.0]).mean),
    (np.exp, np.log),
    (np.random.RandomState(3), np.random.RandomState(4)),
    (np.arange(3.0), np.arange(3.0) + 1e-9),
    ("1", 1),
    (pd.Series([1.0, 2.0], index=["a", "b"]), pd.Series([1.0, 2.0], index=["b", "a"])),
]


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_parameters_have_other_descriptions(one, other):
    assert describe(one) != describe(other)


# fits


def check_refused(model, message, *data, **fit_params):
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.resume(*data, **fit_params)
    assert vars(model) == before


def test_data_changed_in_place():
    returns, weights = RETURNS.copy(), np.ones(len(RETURNS))
    model = CompositionalPortfolio("storm-c", max_iter=20, tol=0, random_state=0).fit(
        returns, sample_weight=weights
    )
    model.set_params(max_iter=40)
    weights[1234] = 1.0000001
    check_refused(
        model,
        "^sample_weight must be the data of the fit",
        returns,
        sample_weight=weights,
    )
    weights[1234] = 1.0
    returns[1::2] *= 1.0 + 1e-15
    check_refused(
        model, "^X must be the data of the fit", returns, sample_weight=weights
    )
    assert model.resume(RETURNS, sample_weight=weights).n_iter_ == 40


@pytest.mark.parametrize("name", ["y", "next_X", "terminal"])
def test_every_part_of_logged_transitions(name):
    data = {"X": LOG.X, "y": LOG.y, "next_X": LOG.next_X, "terminal": LOG.terminal}
    data = {key: np.array(value) for key, value in data.items()}
    model = BellmanValueEstimator(
        0.9, "storm-c", objective="projected", max_iter=20, tol=0, random_state=0
    )
    model.fit(**data)
    model.set_params(max_iter=30)
    last = data[name].reshape(len(LOG.y), -1)[-1]
    last[...] = ~last if name == "terminal" else last + 1e-12
    check_refused(model, f"^{name} must be the data of the fit", **data)


def test_column_names_if_both_have_them():
    frame = pd.DataFrame(RETURNS, columns=list("abcdef"))
    model = (
        CompositionalPortfolio("storm-c", max_iter=20, tol=0, random_state=0)
        .fit(frame)
        .set_params(max_iter=30)
    )
    check_refused(
        model,
        "^names of X must be the data of the fit",
        frame.rename(columns={"a": "b", "b": "a"}),
    )
    assert model.resume(RETURNS).n_iter_ == 30


def test_parameters_changed_in_place():
    most = np.full(6, 0.5)
    model = CompositionalPortfolio(
        "storm-c", constraint=(0, most), max_iter=5, tol=0, random_state=0
    ).fit(RETURNS)
    most[0] = 0.1
    check_refused(model.set_params(max_iter=9), "^constraint must stay", RETURNS)


@pytest.mark.parametrize("rate", [lambda t: 0.1, functools.partial(lambda t: 0.1)])
def test_parameters_that_cannot_be_compared(rate):
    solver = STORMCompositional(learning_rate=rate, batch_size=16, anchor=None)
    model = (
        CompositionalPortfolio(solver, max_iter=5, tol=0, random_state=0)
        .fit(RETURNS)
        .set_params(max_iter=9)
    )
    message = (
        "^solver__learning_rate must be something that can be compared for resume, "
        "such as a function that is"
    )
    check_refused(model, message, RETURNS)
