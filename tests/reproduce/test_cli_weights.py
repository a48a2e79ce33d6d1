"""The command that prints the weights of a portfolio, and what every command says of a file that is none of returns."""

import csv

import numpy as np
import pytest

from sk_stormc import CompositionalPortfolio
from sk_stormc.__main__ import main
from sk_stormc.datasets import make_gaussian_returns

RETURNS = make_gaussian_returns(60, 3, mean=0.05, random_state=0)


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [",".join(f"{value:.10f}" for value in row) for row in RETURNS]
    (tmp_path / "returns.csv").write_text("\n".join(["oil,gas,gold", *lines]))
    prices = 100 * np.cumprod(1 + RETURNS / 100, axis=0)
    (tmp_path / "prices.csv").write_text("\n".join(["oil,gas,gold"] + [",".join(map(str, row)) for row in prices]))


def weights():
    with open("weights.csv", encoding="utf-8") as file:
        return {row["asset"]: float(row["weight"]) for row in csv.DictReader(file)}


def test_weights_are_printed_and_written(capsys):
    args = ["portfolio", "--data", "returns.csv", "--unit", "percent", "--risk-aversion", "30", "--out", "weights.csv"]
    assert main([*args, "--limit", "oil + gas <= 0.2"]) == 0
    said = capsys.readouterr().out
    assert "percent divided by 100" in said and "gold" in said and "Weights written to weights.csv" in said
    expected = CompositionalPortfolio(
        constraint=(0.0, 1.0), budget=1.0, risk_aversion=30.0, random_state=0, linear_constraints=([1, 1, 0], None, 0.2)
    ).fit(RETURNS.round(10) / 100)
    np.testing.assert_allclose(list(weights().values()), expected.weights_, atol=1e-9)
    assert list(weights()) == ["oil", "gas", "gold"] and weights()["gold"] >= 0.8 - 1e-8
    assert main([*args, "--risk-measure", "cvar", "--bounds", "-0.5", "0.7"]) == 0
    assert max(weights().values()) <= 0.7 and sum(weights().values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["portfolio", "--data", "nowhere.csv"], ["No such file: nowhere.csv. A path"]),
        (["compare", "--data", "nowhere.csv"], ["No such file: nowhere.csv. A path"]),
        (["reproduce", "portfolio", "--data", "nowhere.npz"], ["No such file: nowhere.npz"]),
        (["portfolio", "--data", "prices.csv"], ["expected returns", "prices", "pct_change"]),
        (["reproduce", "portfolio", "--data", "prices.csv"], ["expected returns", "prices", "--unit"]),
        (["portfolio", "--data", "returns.csv", "--limit", "coal <= 1"], ["'coal'", "'oil', 'gas', 'gold'"]),
        (["portfolio", "--data", "returns.csv", "--limit", "oil >= 2"], ["'oil >= 2'", "missed by 1"]),
        (["portfolio", "--data", "returns.csv", "--risk-aversion", "-1"], ["risk_aversion", "-1"]),
        (
            ["reproduce", "portfolio", "--data", "returns.csv", "--ifo", "3", "--methods", "storm-c"],
            ["--ifo must pay for the first batch of storm-c", "got 3"],
        ),
        (
            ["compare", "--data", "returns.csv", "--ifo", "3", "--solvers", "storm-c", "--seeds", "1"],
            ["--ifo must pay for the first batch of storm-c", "got 3"],
        ),
    ],
)
def test_what_is_wrong_is_said_on_one_line(args, words, capsys):
    assert main(args) == 2
    said = capsys.readouterr()
    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and not said.out
    for word in words:
        assert word in errors[0]


@pytest.mark.parametrize(
    "option", [["--bounds", "a", "b"], ["--unit", "bp"], ["--out", "weights.txt"], ["--out", "no/w.csv"]]
)
def test_options_that_cannot_be_read(option):
    with pytest.raises(SystemExit) as raised:
        main(["portfolio", "--data", "returns.csv", *option])
    assert raised.value.code == 2


def test_a_unit_is_not_said_twice():
    with open("signs.csv", "w", encoding="utf-8") as file:
        file.write("a,b\n" + "1%,-2%\n-1%,3%\n" * 15)
    assert main(["portfolio", "--data", "signs.csv", "--unit", "percent"]) == 2
    assert main(["portfolio", "--data", "signs.csv"]) == 0
