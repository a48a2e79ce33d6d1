"""The identity of a fit: a fingerprint of all bytes of its data, and a text that describes its parameters.

Both are computed when a fit begins, because data, arrays among the parameters, and globals of functions may change
later. Different data or parameters must never be taken for equal.
"""

import hashlib
import math
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from scipy import sparse

from sk_stormc.engine.results import RunState
from sk_stormc.streams.mapped import BLOCK_BYTES, MappedRows
from sk_stormc.utils.kept import Kept
from sk_stormc.utils.words import check_unchanged, in_words

__all__ = ["FREE", "KeepsFits", "Progress", "callbacks_of", "fingerprint", "parameters_of"]

FREE = ("max_iter", "max_ifo", "tol", "verbose", "n_jobs", "random_state", "warm_start")  # may change in a resumed fit
BLOCK = 2**14  # numbers of 8 bytes of a block, which stays in the cache
BY_COLUMNS = ", by columns,"


class KeepsFits:
    """Base class of callbacks that save the progress of a fit. `resume` uses the last one that was set."""

    def load(self, estimator):
        """The `Progress` of the estimator's fit, or None if there is none."""
        raise NotImplementedError


def callbacks_of(estimator):
    """The callbacks that the user has set. scikit-learn creates the list with the first of them."""
    return vars(estimator).get("_skl_callbacks") or []


@dataclass
class Progress(Kept):
    """The progress of a fit, and its identity."""

    estimator: str
    parameters: dict[str, str]  # descriptions by `in_words`
    data: dict[str, str | None]  # fingerprints
    random_state: int | np.random.RandomState | None = None  # at the beginning of the fit; an int stays an int
    runs: list[RunState] = field(default_factory=list)
    plan: list = field(default_factory=list)  # the planned runs, for estimators that make several
    file: str | None = None  # the file from which it was read

    def check(self, other):
        """Raise a ValueError if another fit has another estimator, parameters or data. The error names them."""
        if self.estimator != other.estimator:
            raise ValueError(f"the fit to resume must be one of {other.estimator}, got one of {self.estimator}")
        for name in sorted(self.parameters.keys() | other.parameters.keys()):
            before, now = (progress.parameters.get(name, "nothing") for progress in (self, other))
            check_unchanged(name, before, now, "resume", "other parameters need a new fit")
        for name in other.data | self.data:
            before, now = self.data.get(name), other.data.get(name)
            if name.startswith("names of") and None in (before, now):
                continue  # an array has no names
            if before != now:
                raise ValueError(f"{name} must be the data of the fit to resume, {before}, got {now}")


def parameters_of(estimator, solver):
    """Descriptions of the parameters that a resumed fit must have in common with this one."""
    free = (*estimator._free_to_resume, "solver")
    own = {name: value for name, value in vars(estimator).items() if name[0] != "_" and name[-1] != "_"}
    own = {name: value for name, value in own.items() if name not in free}
    theirs = {f"solver__{name}": value for name, value in solver.get_params(deep=False).items() if name not in FREE}
    name = getattr(solver, "name", type(solver).__name__)
    return {"solver": name} | {name: in_words(value) for name, value in (own | theirs).items()}


# data


def fingerprint(data, like=None):
    """Dtype, shape and a checksum of all bytes. Rows of a file are read in blocks.

    The numbers of each block of 128 KB are mixed and summed with fixed odd weights of 64 bits, and BLAKE2 hashes the
    sums. One changed number always changes its block's sum. Many changed numbers leave it unchanged with a probability
    of about 2^-32. In a measurement this processed 7 GB per second, a CRC of 32 bits 4, and BLAKE2 alone 1.
    """
    if data is None:
        return None
    if sparse.issparse(data):
        rows = data.tocsr()
        return _described(data.shape, "", (rows.data, rows.indices, rows.indptr))
    data = np.asanyarray(data)  # keeps a memmap
    if not data.shape:  # one weight for all rows, say
        return repr(data.item())
    lie_so = data.ndim == 2 and data.flags.f_contiguous and not data.flags.c_contiguous
    if data.ndim == 2 and (lie_so if like is None else BY_COLUMNS in like):
        return _described(data.shape, BY_COLUMNS, _blocks(data.T))
    return _described(data.shape, "", _blocks(MappedRows.of(data)))


def _described(shape, way, parts):
    checksum, dtype = hashlib.blake2b(digest_size=8), None
    for part in parts:
        if part.dtype.hasobject or part.dtype.char in "gG":  # their bytes are addresses, or have padding
            part = _as_floats(part)
        dtype = dtype or part.dtype
        checksum.update(_sums(np.ascontiguousarray(part)))
    return f"{dtype} of shape {tuple(shape)}{way} with checksum {checksum.hexdigest()}"


def _blocks(rows):
    """Blocks of rows, the same for data in memory and in a file. There is one empty block if there are no rows."""
    size = max(1, BLOCK_BYTES // (8 * max(1, math.prod(rows.shape[1:]))))
    for start in range(0, max(1, rows.shape[0]), size):
        yield rows[start : start + size]


def _as_floats(part):
    try:
        return part.astype(float)
    except (TypeError, ValueError):
        return np.frombuffer(repr(part.tolist()).encode(), np.uint8)


@cache
def _weights():
    return np.random.PCG64(0).random_raw(BLOCK) | np.uint64(1)


def _sums(part):
    """A 64-bit sum for each block, as bytes, followed by the remaining bytes."""
    content = part.reshape(-1).view(np.uint8)
    whole = content.size // 8 * 8
    numbers, weights = content[:whole].view(np.uint64), _weights()
    sums, mixed = np.empty(-(-numbers.size // BLOCK), np.uint64), np.empty(BLOCK, np.uint64)
    for k in range(sums.size):
        block = numbers[k * BLOCK : (k + 1) * BLOCK]
        low = mixed[: block.size]
        # round numbers differ in their high bits only, which a product mod 2^64 would not propagate
        np.right_shift(block, np.uint64(32), out=low)
        np.bitwise_xor(block, low, out=low)
        sums[k] = np.dot(low, weights[: block.size])
    return sums.tobytes() + content[whole:].tobytes()
