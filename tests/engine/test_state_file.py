"""Files of runs: what is written comes back, and whatever else a file may be ends in one kind of ValueError."""

import contextlib
import copy
import io
import json
import os
import re
import subprocess
import time
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sk_stormc import AutomaticSTORM, CompositionalPortfolio
from sk_stormc.callbacks import Checkpoint
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import MethodState
from sk_stormc.engine import state_file as files
from sk_stormc.engine.state_tree import fill
from sk_stormc.fitting.identity import Progress
from sk_stormc.utils.kept import Kept, Missing

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RETURNS = make_gaussian_returns(300, 5, mean=0.1, random_state=0)
MODELS = {
    "anchored": CompositionalPortfolio(AutomaticSTORM(batch_size=16), max_iter=60, tol=0, random_state=0),
    "literal": CompositionalPortfolio("storm-c-paper", max_iter=150, tol=0, random_state=np.random.RandomState(3)),
    "tail": CompositionalPortfolio(risk_measure="cvar", constraint="long_only", max_iter=120, tol=0, random_state=0),
    "scgd": CompositionalPortfolio("scgd", max_iter=150, tol=0, random_state=0),
}


@dataclass
class Part(Kept):
    """A part of a state, as an author may write it."""

    number: float
    rate: float | Callable | None = None
    pairs: list[tuple[int, str]] = field(default_factory=list)
    point: np.ndarray = None


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """Bytes of files of several fits."""
    found = {}
    for name, model in MODELS.items():
        path = tmp_path_factory.mktemp(name) / "run.npz"
        clone(model).set_callbacks(Checkpoint(path)).fit(RETURNS)
        found[name] = path.read_bytes()
    return found


def taken_apart(content):
    """JSON and arrays of a file."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        found = json.loads(file["run.json"])
        return found, [file[f"array_{k}"] for k in range(len(found["arrays"]))]


def nodes(tree, path=()):
    """The places of all nodes of parsed JSON."""
    yield path
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, part in parts:
        yield from nodes(part, (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


# what is written comes back


def test_values_come_back_as_they_were(tmp_path):
    path = tmp_path / "run.npz"
    shared = np.arange(3.0)
    generator, legacy = np.random.default_rng(3), np.random.RandomState(3)
    columns = np.asfortranarray(np.arange(6.0, dtype=np.float32).reshape(2, 3))
    before = {
        ("a", 1): [shared, (shared, None, True, 7, -0.0, float("inf"), "text")],
        "scalars": (np.float32(0.1), np.float64(0.1), np.int64(3)),
        "generators": (generator, legacy),
        "arrays": [columns, columns[:, ::2], np.empty((0, 3)), np.array(2), sparse.csr_array(np.diag([1.0, 0.0, 2.0]))],
        None: Part(np.float32(2), abs, [(1, "a")]),
    }
    files.write(path, before)
    after = files.read(path, dict)
    assert list(after) == list(before)
    assert after["a", 1][0] is after["a", 1][1][0]
    assert str(after["a", 1][1:]) == str(before["a", 1][1:])
    assert [type(v) for v in after["scalars"]] == [np.float32, np.float64, np.int64]
    assert after["generators"][0].random() == generator.random()
    assert after["generators"][1].randint(100) == legacy.randint(100)
    for new, old in zip(after["arrays"][:-1], before["arrays"][:-1], strict=True):
        np.testing.assert_array_equal(new, old, strict=True)
        assert new.flags.writeable
    assert after["arrays"][0].flags.f_contiguous
    assert (after["arrays"][-1] != before["arrays"][-1]).nnz == 0
    assert isinstance(after[None].rate, Missing)
    assert fill(after[None], before[None]).rate is abs
    assert after[None].pairs == [(1, "a")]
    with pytest.raises(ValueError, match="the solver must have the callable 'abs'"):
        fill(Part(1.0, Missing("abs")), Part(1.0, 0.5))


def test_the_same_state_makes_the_same_bytes(contents):
    for content in contents.values():
        assert files.packed(files.unpacked(content)) == content


def test_a_file_that_cannot_be_written_leaves_the_last_good_one(tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    files.write(path, [1.0])

    def full(handle):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        files.write(path, [2.0])
    monkeypatch.undo()
    assert files.read(path, list) == [1.0]
    assert os.listdir(tmp_path) == ["run.npz"]


@dataclass
class Undeclared(MethodState):
    """A state that has more than its fields."""

    def __post_init__(self):
        self.memory = np.zeros(2)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (subprocess.CompletedProcess([], 0), "a file cannot have a CompletedProcess: its class must be a dataclass"),
        (Undeclared(np.zeros(2)), r"Undeclared must declare what it has as fields of a dataclass, got \['memory'\]"),
        (Part("one"), "Part.number must be float, got 'one'"),
        (Part(1.0, pairs=[(1, 2)]), r"Part.pairs must be list\[tuple\[int, str\]\], got a list"),
        (np.array(["text", None]), "a file must have arrays of numbers, got object"),
        ({(1, (2,)): 3}, "a file must have plain keys"),
        (np.random.Generator(np.random.MT19937(0)), "must have the generator PCG64 here"),
    ],
)
def test_what_cannot_be_in_a_file_is_refused_when_it_is_written(tmp_path, value, message):
    with pytest.raises(ValueError, match=message):
        files.write(tmp_path / "run.npz", value)
    assert not os.listdir(tmp_path)


def test_a_callable_is_a_name_and_is_never_called(tmp_path):
    files.write(tmp_path / "run.npz", (partial(print, "executed"),))
    (found,) = files.read(tmp_path / "run.npz", tuple)
    assert isinstance(found, Missing)


def test_two_classes_of_the_package_cannot_have_one_name():
    with pytest.raises(TypeError, match="both have a class MethodState for files"):
        type("MethodState", (Kept,), {"__module__": "sk_stormc.portfolio.other"})


# files that are something else, or were changed


def refused(content, tmp_path):
    """Read the bytes as a file, which must end in a ValueError that names the file, soon."""
    path = tmp_path / "run.npz"
    path.write_bytes(content)
    began, named = time.perf_counter(), f"^{re.escape(os.fspath(path))} must be a whole file that a Checkpoint wrote: "
    with pytest.raises(ValueError, match=named):
        files.read(path, Progress)
    assert time.perf_counter() - began < 20


def test_bytes_that_were_changed_are_noticed(contents, tmp_path):
    rng = np.random.default_rng(0)
    for content in contents.values():
        for _ in range(100):
            changed = bytearray(content)
            for k in rng.integers(len(changed), size=rng.integers(1, 4)):
                changed[k] ^= 1 << rng.integers(8)
            if changed != content:
                refused(bytes(changed), tmp_path)
        for k in rng.integers(len(content), size=20):
            refused(content[:k], tmp_path)
            refused(content[k:], tmp_path)
            refused(content + content[:k], tmp_path)


def test_numbers_that_were_changed_are_noticed(contents, tmp_path):
    found, arrays = taken_apart(contents["anchored"])
    file = io.BytesIO()
    np.savez(file, **{"run.json": found, "array_0": arrays[0] + 1e-12})
    refused(file.getvalue(), tmp_path)


def test_files_of_version_0_2_0_are_refused_with_a_sentence(tmp_path):
    path = tmp_path / "run.npz"
    text = json.dumps({"format": 1, "head": {}, "tree": None}).encode()
    np.savez(path, json=np.frombuffer(text, np.uint8), array_0=np.zeros(3))
    model = MODELS["anchored"].set_callbacks(Checkpoint(path))
    with pytest.raises(ValueError, match=r"run.npz must be .*: it has format 1, of version 0\.2\.0, .* fit anew"):
        model.resume(RETURNS)


def test_other_formats_name_the_version_that_wrote_them(contents, tmp_path):
    found, arrays = taken_apart(contents["scgd"])
    content = files.archived(json.dumps(found | {"format": 9, "version": "9.9"}), arrays)
    refused(content, tmp_path)
    with pytest.raises(ValueError, match="it has format 9, of version '9.9'; this version reads format 3"):
        files.unpacked(content)


def sealed(file):
    """An archive's bytes with the digest that makes it whole."""
    content = file.getvalue()[: -files.DIGEST]
    return content + files._digest(content)


def archive_of(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        archive.comment = b"0" * files.DIGEST
        for name, data in members:
            archive.writestr(name, data)
    return sealed(file)


HEAD = {"format": 3, "version": "0", "arrays": [], "tree": None}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "its digest is not"),
        (b"nothing of ours", "its digest is not"),
        (b"nothing" + files._digest(b"nothing"), "it is no zip archive"),
        (archive_of([]), "Expecting value"),
        (archive_of([("run.json", "null")]), "it must have the number of its format"),
        (archive_of([("run.json", '{"format": true}')]), "it must have the number of its format"),
        (archive_of([("run.json", '{"format": 3}')]), r"run.json must have \['arrays'"),
        (archive_of([("run.json", '{"format": 3, "format": 3}')]), "run.json has a key twice"),
        (archive_of([("run.json", b"\xff")]), "codec can't decode"),
        (archive_of([("run.json", "[" * 10**6)]), "run.json is nested too deeply"),
        (archive_of([("run.json", '{"format": ' + "1" * 10**5)]), "integer string conversion"),
        (archive_of([("run.json", json.dumps(HEAD))] * 2), "two members of one name"),
        (archive_of([("run.json", json.dumps(HEAD)), ("more", b"")]), "its arrays must be those"),
        (archive_of([("run.json", bytes(10**7))], zipfile.ZIP_DEFLATED), "claim to be larger than the file"),
        (archive_of([("run.json", os.urandom(99))], zipfile.ZIP_DEFLATED), "must not be compressed"),
        (archive_of([("run.json", json.dumps(HEAD))]), "it must have a Progress, got None"),
    ],
)
def test_archives_with_odd_content(content, message, tmp_path):
    refused(content, tmp_path)
    if "Progress" not in message:
        with pytest.raises(ValueError, match=message):
            files.unpacked(content)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (["<f8", [10**12, 10**6], "C"], "must have shape"),
        (["<f8", [2**62, 2**62, 0], "C"], "must have shape"),
        (["<f8", [2], "C"], "must have shape"),
        (["<f8", [-3], "C"], "integers >= 0"),
        (["<f8", [3.0], "C"], "integers >= 0"),
        (["<f8", 3, "C"], "integers >= 0"),
        (["<f4", [3], "C"], "must have shape"),
        (["|O", [3], "C"], "must have one of the dtypes"),
        (["<U2", [3], "C"], "must have one of the dtypes"),
        ([["f", "<f8"], [3], "C"], "must have one of the dtypes"),
        (["<f8", [3], "K"], "must have order"),
        (["<f8", [3]], "must be described by"),
        (None, "must be described by"),
    ],
)
def test_arrays_are_as_their_entries_say(entry, message):
    text = json.dumps(HEAD | {"arrays": [entry]})
    with pytest.raises(ValueError, match=message):
        files.unpacked(files.archived(text, [np.zeros(3)]))


def nested(depth):
    node = 1
    for _ in range(depth):
        node = {"tuple": [node]}
    return node


STATE = np.random.default_rng(0).bit_generator.state
NUMBERS = {name: {"dict": [[k, v] for k, v in STATE["state"].items()]} for name in ("state",)}


def generator(**changes):
    parts = STATE | NUMBERS | changes
    return {"generator": {"dict": [[name, part] for name, part in parts.items()]}}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([], "a node must be a plain value"),
        ({}, "a node must be a plain value"),
        ({"list": [], "tuple": []}, "a node must be a plain value"),
        ({"pickle": "gASVIAAAAA=="}, "a node must be one of"),
        ({"known": 0}, "must point to one of the 0"),
        ({"list": [{"tuple": []}, {"known": -1}]}, "must point to one of the 1"),
        ({"list": [{"known": 0}]}, "must point to one of the 0"),
        ({"array": 5}, "must point to one of the 1"),
        ({"array": True}, "must point to one of the 1"),
        ({"scalar": 0}, r"a scalar must have shape \(\)"),
        ({"list": "text"}, "must have a list"),
        ({"dict": [[1]]}, "list of pairs"),
        ({"dict": [[{"list": []}, 1]]}, "plain keys"),
        ({"dict": [[{"tuple": [{"tuple": []}]}, 1]]}, "plain keys"),
        ({"dict": [[1, 1], [1, 2]]}, "each once"),
        ({"callable": 3}, "a callable must have a name"),
        ({"generator": {"dict": []}}, "must have the generator PCG64"),
        (generator(bit_generator="MT19937"), "must have the generator PCG64"),
        (generator(uinteger=-1), "must have the generator PCG64"),
        (generator(has_uint32="x"), "must have the generator PCG64"),
        ({"random_state": 3}, "must have the generator MT19937"),
        ({"sparse": [{"array": 0}] * 3 + [2, 2]}, "vectors of data and integers"),
        ({"object": ["os.system", {}]}, "classes that are kept in files"),
        ({"object": ["subprocess.Popen", {"args": "true"}]}, "classes that are kept in files"),
        ({"object": ["antigravity.Anything", {}]}, "classes that are kept in files"),
        ({"object": ["Estimate", {"x": 1}]}, "a Estimate must have"),
        ({"object": ["Estimate"]}, "a class and fields"),
        ({"object": [["Estimate"], {}]}, "a class and fields"),
        ({"object": ["Power", {"scale": "1", "exponent": 1.0}]}, "Power.scale must be float, got '1'"),
        (nested(60), "nested more than 50 deep"),
        (10**60, "more than 128 bits"),
    ],
)
def test_trees_with_odd_nodes(tree, message):
    text = json.dumps(HEAD | {"arrays": [["<f8", [3], "C"]], "tree": tree})
    with pytest.raises(ValueError, match=message):
        files.unpacked(files.archived(text, [np.zeros(3)]))


def test_a_position_of_a_generator_beyond_its_numbers_is_refused():
    content = files.packed(np.random.RandomState(0))
    found, arrays = taken_apart(content)
    text = json.dumps(found).replace('["pos", 624]', '["pos", 625]')
    with pytest.raises(ValueError, match="must have the generator MT19937"):
        files.unpacked(files.archived(text, arrays))


def test_tuples_of_what_came_before_take_no_more_time_than_room(tmp_path):
    parts = [{"tuple": [1, 1]}]
    for k in range(200):
        parts.append({"tuple": [{"known": k}, {"known": k}]})
    text = json.dumps(HEAD | {"tree": {"tuple": parts}})
    value = files.unpacked(files.archived(text, []))
    assert isinstance(fill(value, ()), tuple)
    refused(files.archived(text, []), tmp_path)
    rule = {"scale": {"tuple": parts}, "exponent": 1.0}
    refused(files.archived(json.dumps(HEAD | {"tree": {"object": ["Power", rule]}}), []), tmp_path)


def mutated(rng, found):
    """A copy of a file's JSON with one thing changed."""
    found = copy.deepcopy(found)
    places = [path for path in nodes(found) if path]
    path = places[rng.integers(len(places))]
    other = at(found, places[rng.integers(len(places))])
    parent, key = at(found, path[:-1]), path[-1]
    odd = [None, True, -1, 10**9, 1e300, float("nan"), "", "text", [], {}, [[]], {"list": []}, {"known": 3}]
    odd += [{"array": 0}, {"scalar": 0}, {"tuple": []}, {"dict": []}, {"callable": "f"}, nested(80)]
    kind = rng.integers(4)
    if kind == 0:
        parent[key] = odd[rng.integers(len(odd))]
    elif kind == 1:
        del parent[key]
    elif kind == 2 and isinstance(parent, dict):
        parent["other"] = parent.pop(key)
    elif kind == 3 and isinstance(parent, list):
        parent.insert(key, odd[rng.integers(len(odd))])
    else:
        parent[key] = copy.deepcopy(other)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_whole_files_with_changed_trees_are_read_or_refused(contents, name, tmp_path):
    """The digest is made anew, so that the schema has to find what is wrong."""
    found, arrays = taken_apart(contents[name])
    rng, n_refused = np.random.default_rng(1), 0
    for _ in range(50):
        content = files.archived(json.dumps(mutated(rng, found)), arrays)
        try:
            files.unpacked(content)
        except ValueError:
            n_refused += 1
            refused(content, tmp_path)
    assert n_refused > 25


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_whole_files_with_changed_trees_resume_or_are_refused(contents, name, tmp_path):
    found, arrays = taken_apart(contents[name])
    path, rng = tmp_path / "run.npz", np.random.default_rng(2)
    model = MODELS[name]
    for _ in range(40):
        changed = mutated(rng, found)
        path.write_bytes(files.archived(json.dumps(changed), arrays))
        with contextlib.suppress(ValueError):
            clone(model).set_callbacks(Checkpoint(path)).resume(RETURNS)
