"""What identifies a fit: every byte of its data counts, and functions are compared by their names."""

import functools
import importlib
import math
import operator
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial import distance
from sklearn.base import clone
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio, SNEEmbedding, STORMCompositional
from sk_stormc.callbacks import Checkpoint
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.fitting.runs import fingerprint
from sk_stormc.schedules import power
from sk_stormc.utils.words import UNKNOWN, in_words

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RETURNS = make_gaussian_returns(3000, 6, mean=0.1, random_state=0)
LOG = make_bellman_problem(20, 5, 0.9, "garnet", random_state=0).transitions(1500, random_state=0)


# data


def test_any_changed_number_changes_the_fingerprint():
    rng = np.random.default_rng(0)
    for data in (RETURNS, rng.standard_normal(70_001).astype(np.float32), rng.integers(5, size=(500, 7)), RETURNS > 0):
        for k in [0, data.size - 1, *rng.integers(data.size, size=20)]:
            other = data.copy()
            number = other.reshape(-1)[k : k + 1].view(np.uint8)
            number[rng.integers(number.size)] ^= 1 if data.dtype == bool else 1 << rng.integers(8)
            assert fingerprint(other) != fingerprint(data)


def test_the_fingerprint_does_not_depend_on_where_the_rows_lie(tmp_path):
    data = np.random.default_rng(0).standard_normal((150_000, 30))  # more than two blocks of rows
    expected = fingerprint(data)
    data.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", float, "r", shape=data.shape)
    frame = pd.DataFrame(data)
    for same in (data[::-1][::-1], mapped, np.asfortranarray(data), frame, np.repeat(data, 2, axis=1)[:, ::2]):
        assert fingerprint(same) == expected
    for row in (69_904, 69_905, -1):  # at the end of a block and after it
        changed = data.copy()
        changed[row, -1] += 1
        assert fingerprint(changed) != expected
    assert fingerprint(data[:5].tolist()) == fingerprint(data[:5]) == fingerprint(data[:5].astype(object))
    assert len({expected, fingerprint(data.T), fingerprint(data.reshape(-1)), fingerprint(data[:, 0])}) == 4


@pytest.mark.parametrize(
    "data", [np.zeros((0, 3)), np.zeros(0), [], np.array(3.0), 2.5, None, ["a", "b"], [True, False]]
)
def test_every_kind_of_data_has_a_fingerprint(data):
    assert fingerprint(data) == fingerprint(data)
    assert not np.size(data) or fingerprint(data) != fingerprint(np.append(data, data))


def test_sparse_data_and_objects():
    data = sparse.random_array((300, 200), density=0.05, format="csr", random_state=0)
    other = data.copy()
    other.data[7] = np.nextafter(other.data[7], 1)
    moved = data.copy()
    moved.indices[0], moved.indices[1] = moved.indices[1], moved.indices[0]
    assert fingerprint(data) == fingerprint(data.tocsc()) == fingerprint(data.copy())
    assert len({fingerprint(data), fingerprint(other), fingerprint(moved)}) == 3
    words = np.array([["a", 1], ["b", None]], dtype=object)
    assert fingerprint(words) != fingerprint(words[::-1])


@pytest.mark.slow
def test_a_file_of_rows_is_read_without_keeping_it_in_memory(tmp_path):
    rows = np.memmap(tmp_path / "rows", float, "w+", shape=(1_000_000, 10))
    rows[:] = 1.0
    del rows
    code = """
import sys, numpy as np
from sk_stormc.fitting.runs import fingerprint
def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
fingerprint(np.zeros((100_000, 20)))
rows, before = np.memmap(sys.argv[1], float, "r", shape=(1_000_000, 10)), resident()
fingerprint(rows)
print(resident() - before)
"""
    if sys.platform != "linux":
        pytest.skip("the peak of the memory is read from /proc")
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "rows"], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 50_000  # KB, of 80,000 in the file


# parameters


def halving(x):
    return 0.5**x


def doubling(x):
    return 2.0**x


def make(factor):
    return lambda x: factor * x


@dataclass
class Schedule:
    """A schedule of a user's own."""

    start: float

    def __call__(self, t):
        return self.start / (t + 1)


class Slots:
    """What cannot be looked into."""

    __slots__ = ("a",)

    def __call__(self, t):
        return 1.0


SAME = [
    lambda: halving,
    lambda: functools.partial(halving, x=2.0),
    lambda: FunctionTransformer(halving, kw_args={"a": [1, 2]}),
    lambda: Schedule(0.5),
    lambda: power(0.5, -0.5),
    lambda: (np.exp, math.exp, operator.itemgetter(1), pairwise_distances, "text", None, {1, 2}, {"a": (1.5, True)}),
    lambda: [RETURNS[:3].mean, functools.lru_cache(halving), Schedule(2.0).__call__],
    lambda: (np.random.RandomState(3), np.random.default_rng(3)),
    lambda: pd.Series([1.0, 2.0], index=["a", "b"]),
]
OTHERS = [
    (halving, doubling),
    (functools.partial(halving, x=2.0), functools.partial(halving, x=3.0)),
    (FunctionTransformer(halving), FunctionTransformer(doubling)),
    (StandardScaler(), StandardScaler(with_mean=False)),
    (Schedule(0.5), Schedule(0.6)),
    (Schedule(0.5).__call__, Schedule(0.6).__call__),
    (np.array([1.0, 2.0]).mean, np.array([1.0, 3.0]).mean),
    (functools.lru_cache(halving), functools.lru_cache(doubling)),
    (np.exp, np.log),
    (math.exp, math.log),
    (np.random.RandomState(3), np.random.RandomState(4)),
    (np.arange(3.0), np.arange(3.0) + 1e-9),
    (np.float32(1.5), np.float32(2.5)),
    ("1", 1),
    ({"a": 1}, {"a": 2}),
    (pd.Series([1.0, 2.0], index=["a", "b"]), pd.Series([1.0, 2.0], index=["b", "a"])),
]


@pytest.mark.parametrize("value", SAME)
def test_equal_parameters_have_the_same_words(value):
    assert in_words(value()) == in_words(value())
    assert UNKNOWN not in in_words(value())


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_parameters_have_other_words(one, other):
    assert in_words(one) != in_words(other)


@pytest.mark.slow
def test_words_are_the_same_in_another_process():
    code = "import tests.fitting.test_identity as t; print([t.in_words(value()) for value in t.SAME])"
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    here = importlib.import_module("tests.fitting.test_identity")  # of the same name as there
    assert done.stdout == f"{[here.in_words(value()) for value in here.SAME]}\n"


def test_what_refers_to_itself_has_words():
    parts = [1]
    parts.append(parts)
    assert in_words(parts) == "(1, itself)"


# fits


def refused(model, message, *data, **fit_params):
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.resume(*data, **fit_params)
    assert vars(model) == before


def test_data_that_were_changed_in_place_are_refused():
    returns, weights = RETURNS.copy(), np.ones(len(RETURNS))
    model = CompositionalPortfolio("storm-c", max_iter=20, tol=0, random_state=0).fit(returns, sample_weight=weights)
    model.set_params(max_iter=40)
    weights[1234] = 1.0000001
    refused(model, "^sample_weight must be the data of the fit", returns, sample_weight=weights)
    weights[1234] = 1.0
    returns[1::2] *= 1.0 + 1e-15
    refused(model, "^X must be the data of the fit", returns, sample_weight=weights)
    assert model.resume(RETURNS, sample_weight=weights).n_iter_ == 40


@pytest.mark.parametrize("name", ["X", "y", "next_X", "terminal", "sample_weight"])
def test_every_part_of_logged_transitions_counts(name):
    data = {"X": LOG.X, "y": LOG.y, "next_X": LOG.next_X, "terminal": LOG.terminal}
    data["sample_weight"] = np.ones(len(LOG.y))
    data = {key: np.array(value) for key, value in data.items()}
    model = BellmanValueEstimator(0.9, "storm-c", objective="projected", max_iter=20, tol=0, random_state=0)
    model.fit(**data)
    model.set_params(max_iter=30)
    last = data[name].reshape(len(LOG.y), -1)[-1]
    last[...] = ~last if name == "terminal" else last + 1e-12 if name != "sample_weight" else 2.0
    refused(model, f"^{name} must be the data of the fit", **data)


def test_a_fit_goes_on_with_the_same_data_in_another_order_of_memory():
    for first, then in ((RETURNS, np.asfortranarray(RETURNS)), (np.asfortranarray(RETURNS), RETURNS)):
        model = CompositionalPortfolio("storm-c", max_iter=20, tol=0, random_state=0).fit(first).set_params(max_iter=30)
        changed = then.copy(order="K")
        changed[-1, -1] += 1e-12
        refused(model, "^X must be the data of the fit", changed)
        assert model.resume(then).n_iter_ == 30


def test_names_of_columns_count_where_both_have_them():
    frame = pd.DataFrame(RETURNS, columns=list("abcdef"))
    model = CompositionalPortfolio("storm-c", max_iter=20, tol=0, random_state=0).fit(frame).set_params(max_iter=30)
    refused(model, "^names of X must be the data of the fit", frame.rename(columns={"a": "b", "b": "a"}))
    assert model.resume(RETURNS).n_iter_ == 30


def test_arrays_among_the_parameters_that_were_changed_in_place_are_refused():
    most = np.full(6, 0.5)
    model = CompositionalPortfolio("storm-c", constraint=(0, most), max_iter=5, tol=0, random_state=0).fit(RETURNS)
    most[0] = 0.1
    refused(model.set_params(max_iter=9), "^constraint must stay", RETURNS)


def test_another_function_is_refused_in_memory_and_from_a_file(tmp_path):
    pytest.importorskip("sklearn.callback")
    path = tmp_path / "run.npz"
    solver = STORMCompositional(learning_rate=halving, batch_size=16, anchor=None)
    model = CompositionalPortfolio(solver, max_iter=500, tol=0, random_state=0).set_callbacks(Checkpoint(path))
    fitted = clone(model).fit(RETURNS).set_params(max_iter=900, solver__learning_rate=doubling)
    message = r"^solver__learning_rate must stay \S+halving for resume, got \S+doubling"
    refused(fitted, message, RETURNS)
    with pytest.raises(ValueError, match=message):
        clone(fitted).resume(RETURNS)


@pytest.mark.parametrize("rate", [Slots(), lambda t: 0.1, make(0.1), functools.partial(make(0.1))])
def test_what_cannot_be_told_from_another_is_refused_with_a_sentence(rate):
    solver = STORMCompositional(learning_rate=rate, batch_size=16, anchor=None)
    model = CompositionalPortfolio(solver, max_iter=5, tol=0, random_state=0).fit(RETURNS).set_params(max_iter=9)
    message = "^solver__learning_rate must be something that can be compared for resume, such as a function that is"
    refused(model, message, RETURNS)


def test_a_metric_and_features_of_other_functions_are_refused():
    digits = np.random.default_rng(0).standard_normal((60, 4))
    embedding = SNEEmbedding(perplexity=5, metric=distance.cityblock, random_state=0).fit(digits)
    embedding.set_params(metric=distance.chebyshev)
    refused(embedding, "^metric must stay", digits)
    features = FunctionTransformer(halving)
    value = BellmanValueEstimator(0.9, "storm-c", features=features, objective="projected", max_iter=5, random_state=0)
    value.fit(LOG.X, LOG.y, next_X=LOG.next_X).set_params(features=FunctionTransformer(doubling), max_iter=9)
    refused(value, "^features must stay", LOG.X, LOG.y, next_X=LOG.next_X)
