"""Files whose header claims more than the machine can hold end in a sentence."""

import zipfile

import pytest
from numpy.lib import format as npy

from sk_stormc.__main__ import main


def write(path, shape):
    with open(path, "wb") as file:
        npy.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
        file.write(bytes(240))
    return path


@pytest.mark.parametrize("rows", [6 * 10**12, 10**25], ids=["6e12", "1e25"])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_header_that_claims_too_much(suffix, rows, tmp_path, capsys):
    path = write(tmp_path / "returns.npy", (rows, 3))
    if suffix == ".npz":
        with zipfile.ZipFile(tmp_path / "returns.npz", "w") as archive:
            archive.write(path, "returns.npy")
        path = tmp_path / "returns.npz"
    assert main(["compare", "--data", str(path)]) == 2
    said = capsys.readouterr().err
    assert f"{path}: expected arrays that fit in memory" in said and "its header is wrong" in said
    assert "Traceback" not in said
