"""Checkpoint files: values are restored, anything else raises an error, and reading
executes nothing."""

import json
import os
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sk_stormc import AutomaticSTORM, CompositionalPortfolio
from sk_stormc.callbacks import Checkpoint
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import MethodState, checkpoint_file
from sk_stormc.fitting.runs import Progress

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RETURNS = make_gaussian_returns(300, 5, mean=0.1, random_state=0)
MODEL = CompositionalPortfolio(
    AutomaticSTORM(batch_size=16), max_iter=60, tol=0, random_state=0
)


@dataclass
class Part:
    """A part of a state, as an author may write it."""

    number: float
    rate: object = None
    pairs: list = field(default_factory=list)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """The bytes of a file."""
    pytest.importorskip("sklearn.callback")
    path = tmp_path_factory.mktemp("checkpoint") / "run.npz"
    clone(MODEL).set_callbacks(Checkpoint(path)).fit(RETURNS)
    return path.read_bytes()


def sealed(path, node, **header):
    """Write a file with a tree that was made by hand, and with the digest that belongs
    to it."""
    content = checkpoint_file.io.BytesIO()
    text = json.dumps(
        {"format": checkpoint_file.FILE_FORMAT, "version": "0.5.0", "value": node}
        | header
    ).encode()
    np.savez(content, header=np.frombuffer(text, np.uint8))
    path.write_bytes(content.getvalue() + checkpoint_file._digest(content.getvalue()))


def test_values_are_restored(tmp_path):
    path = tmp_path / "run.npz"
    shared = np.arange(3.0)
    generator, legacy = np.random.default_rng(3), np.random.RandomState(3)
    columns = np.asfortranarray(np.arange(6.0, dtype=np.float32).reshape(2, 3))
    before = {
        ("a", 1): [shared, (shared, None, True, 7, -0.0, float("inf"), 2**127, "text")],
        "scalars": (np.float32(0.1), np.float64(0.1), np.int64(3)),
        "generators": (generator, legacy),
        "arrays": [
            columns,
            columns[:, ::2],
            np.empty((0, 3)),
            np.array(2),
            sparse.csr_array(np.diag([1.0, 0.0, 2.0])),
        ],
        None: Part(np.float32(2), abs, [(1, "a")]),
    }
    checkpoint_file.write(path, before)
    after = checkpoint_file.read(path, dict, [abs])
    assert list(after) == list(before)
    assert after["a", 1][0] is after["a", 1][1][0]
    assert str(after["a", 1][1:]) == str(before["a", 1][1:])
    assert [type(v) for v in after["scalars"]] == [np.float32, np.float64, np.int64]
    assert after["generators"][0].random() == generator.random()
    assert after["generators"][1].randint(100) == legacy.randint(100)
    for new, old in zip(after["arrays"][:-1], before["arrays"][:-1], strict=True):
        np.testing.assert_array_equal(new, old, strict=True)
    assert after["arrays"][0].flags.f_contiguous
    assert (after["arrays"][-1] != before["arrays"][-1]).nnz == 0
    assert after[None] == before[None] and after[None].rate is abs


@dataclass
class Undeclared(MethodState):
    """A state with an attribute that is no field."""

    def __post_init__(self):
        self.memory = np.zeros(2)


def local_state():
    @dataclass
    class Local(MethodState):
        """A state whose class is not at the top of a module."""

    return Local


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            Undeclared(np.zeros(2)),
            r"Undeclared must declare what it has .* \['memory'\]",
        ),
        (
            local_state()(np.zeros(2)),
            "a Local: its class must be defined at the top of a module",
        ),
        (np.array(["text", None]), "must have arrays of numbers, got object"),
        (Part(1.0, lambda t: 0.1), "functions that are defined at the top of a module"),
        (object(), "a file cannot have a value of class object"),
    ],
)
def test_values_that_cannot_be_written(tmp_path, value, message):
    with pytest.raises(ValueError, match=message):
        checkpoint_file.write(tmp_path / "run.npz", value)
    assert not os.listdir(tmp_path)


def test_a_checkpoint_refuses_a_function_without_a_name_before_the_fit(tmp_path):
    pytest.importorskip("sklearn.callback")
    solver = AutomaticSTORM(learning_rate=lambda t: 0.1)
    model = CompositionalPortfolio(solver, max_iter=20, random_state=0).set_callbacks(
        Checkpoint(tmp_path / "run.npz")
    )
    with pytest.raises(
        ValueError,
        match="learning_rate must be .* function that is defined at the top of a "
        "module",
    ):
        model.fit(RETURNS)
    assert not hasattr(model, "weights_")


def check_refused(path, message):
    """Resume a fit from the file, which must end in a ValueError that names it."""
    model = clone(MODEL).set_callbacks(Checkpoint(path))
    with pytest.raises(ValueError, match=rf"run\.npz .*{message}"):
        model.resume(RETURNS)
    assert not hasattr(model, "weights_")


def test_changed_and_missing_bytes(content, tmp_path):
    path, rng = tmp_path / "run.npz", np.random.default_rng(0)
    for k in [0, 100, len(content) - 1, *rng.integers(len(content), size=5)]:
        changed = bytearray(content)
        changed[k] ^= 1 << rng.integers(8)
        for other in (
            bytes(changed),
            content[:k],
            content[k + 1 :],
            content + content[: k + 1],
        ):
            path.write_bytes(other)
            with pytest.raises(
                ValueError,
                match="must be a complete file of a Checkpoint, but its digest",
            ):
                checkpoint_file.read(path, Progress)
    check_refused(path, "must be a complete file of a Checkpoint")


def test_files_of_other_formats_name_the_version_that_wrote_them(tmp_path):
    sealed(tmp_path / "run.npz", None, format=4, version="0.4.0")
    check_refused(
        tmp_path / "run.npz",
        r"version 0.4.0 wrote it\. Fit again, or resume the fit with that version",
    )
    # as version 0.2 did, without a digest
    np.savez(tmp_path / "run.npz", json=np.zeros(3))
    check_refused(
        tmp_path / "run.npz", r"or was written by a version before 0\.4\. Fit again"
    )


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (["object", ["os:system", {}]], "its objects must be of dataclasses"),
        (
            ["object", ["subprocess:CompletedProcess", {}]],
            "its objects must be of dataclasses",
        ),
        (
            ["object", ["antigravity:Anything", {}]],
            "its objects must be of dataclasses",
        ),
        (
            ["object", ["sk_stormc.engine.results:MethodState", {"x": 1}]],
            "its objects must be of dataclasses",
        ),
        (["pickle", "gASVIAAAAA=="], "a node of an unknown kind, 'pickle'"),
        (["array", "array_0"], "array_0"),
        ({}, "must be a file that a Checkpoint of this version wrote"),
        (["function", "os.system"], "must have a Progress, got a str"),
        (None, "must have a Progress, got a NoneType"),
    ],
)
def test_files_made_by_hand_execute_nothing(tmp_path, node, message):
    sealed(tmp_path / "run.npz", node)
    check_refused(tmp_path / "run.npz", message)
