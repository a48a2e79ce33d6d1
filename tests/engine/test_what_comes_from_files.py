"""What is read from files or taken from other runs: only what fits."""

import re
import zipfile
from io import BytesIO

import numpy as np
import pytest

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import state_file
from sk_stormc.engine.state_tree import Reader
from sk_stormc.problems import PortfolioProblem

VECTORS = [np.array([1.0, 2.0]), np.array([0, 1]), np.array([0, 1, 2])]


def read_sparse(*parts):
    """A sparse array of 2 times 2 made of these, which are arrays or plain values."""
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    places = iter(range(len(arrays)))
    nodes = [{"array": next(places)} if isinstance(part, np.ndarray) else part for part in parts]
    return Reader(arrays).value({"sparse": [*nodes, 2, 2]})


def test_a_sparse_array_is_made_of_vectors():
    np.testing.assert_array_equal(read_sparse(*VECTORS).toarray(), np.diag([1.0, 2.0]))


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("change", [lambda v: v[None], lambda v: None, lambda v: 1.5])
def test_a_sparse_array_of_anything_else_is_refused(k, change):
    parts = list(VECTORS)
    parts[k] = change(parts[k])
    with pytest.raises(ValueError, match="must have vectors of data and integers"):
        read_sparse(*parts)


def test_arrays_have_the_one_header_that_is_written(tmp_path):
    state_file.write(tmp_path / "a", {"x": np.arange(3.0)})
    with zipfile.ZipFile(BytesIO((tmp_path / "a").read_bytes())) as archive:
        member = archive.read("array_0.npy")
    entry = ["<f8", [3], "C"]
    np.testing.assert_array_equal(state_file._array(member, entry), np.arange(3.0))
    for at in range(8):  # the format's name and its version
        changed = bytearray(member)
        changed[at] ^= 1
        with pytest.raises(ValueError, match="must have shape"):
            state_file._array(bytes(changed), entry)


def test_a_state_fits_where_its_objective_is_found_again_but_for_rounding():
    """Of the largest value that was recorded: at the empty portfolio it is 0."""
    problem = PortfolioProblem(make_gaussian_returns(60, 3, mean=0.3, random_state=0))
    first = minimize(problem, "sarah-c", max_iter=5, random_state=0)
    size = max(abs(fun) for _, _, fun in first.state.records)
    assert min(abs(fun) for _, _, fun in first.state.records) == 0
    first.state.best_fun += 1e-9 * size
    assert minimize(problem, "sarah-c", max_iter=6, state=first.state).n_iter == 6
    first.state.best_fun += 1e-7 * size
    with pytest.raises(ValueError, match=re.escape("must come from a run on the same data")):
        minimize(problem, "sarah-c", max_iter=6, state=first.state)
