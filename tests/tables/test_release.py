"""What a release needs: tables that the released version has made."""

import pytest

import sk_stormc
from benchmarks import _tables


@pytest.mark.skipif(
    "dev" in sk_stormc.__version__, reason="a version in development keeps older tables until they are remade"
)
def test_a_release_shows_its_own_tables():
    assert _tables.made_by_others(sk_stormc.__version__) == {}


def test_tables_of_another_version_are_found(tmp_path, monkeypatch):
    for version, name, part in (
        ("1.0", "whole", None),
        ("1.0.dev0", "old", None),
        ("1.0", "parts", "a"),
        ("0.9", "parts", "b"),
    ):
        monkeypatch.setattr(sk_stormc, "__version__", version)
        if part is None:
            _tables.store(name, {"results": {}}, 1.0, tmp_path)
        else:
            _tables.store_part(name, part, [], 1.0, tmp_path)
    assert _tables.made_by_others("1.0", tmp_path) == {"old": "1.0.dev0", "parts/b": "0.9"}
    assert "whole" in _tables.made_by_others("1.1", tmp_path)


def test_every_stored_result_says_its_version():
    assert set(_tables.made_by_others("none")) >= {"portfolio", "maps/digits_1797"}
