"""The command that prints the weights of a portfolio, and what every command says of a file that is none of returns."""

import csv
import datetime

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


# --- files that say something else than they seem to ---------------------------------------------------


def write(name, rows, header="oil,gas,gold", form="{:.8f}", dates=None, footer=()):
    lines = [",".join(cell if isinstance(cell, str) else form.format(cell) for cell in row) for row in rows]
    if dates is not None:
        header, lines = f"Date,{header}", [f"{date},{line}" for date, line in zip(dates, lines, strict=True)]
    with open(name, "w", encoding="utf-8") as file:
        file.write("\n".join([header, *lines, *footer]) + "\n")


def run(capsys, *args):
    """The weights that the command finds, what it prints, and its error."""
    code = main(["portfolio", "--data", *args, "--out", "weights.csv"])
    said = capsys.readouterr()
    return (None if code else list(weights().values())), said.out, said.err


@pytest.mark.parametrize(("unit", "factor"), [("fractions", 0.01), ("percent", 1.0), ("basis-points", 100.0)])
def test_a_unit_that_is_guessed_is_treated_as_one_that_is_said(unit, factor, capsys):
    expected = CompositionalPortfolio(constraint=(0.0, 1.0), budget=1.0, risk_aversion=30.0, random_state=0)
    expected = expected.fit((RETURNS * factor).round(8) / {"fractions": 1, "percent": 1e2, "basis-points": 1e4}[unit])
    write("mine.csv", RETURNS * factor)
    for said in ([], ["--unit", unit]):
        found, out, _ = run(capsys, "mine.csv", *said, "--risk-aversion", "30")
        np.testing.assert_array_equal(found, expected.weights_)
        assert ("guessed" in out) == (not said)
        assert ("divided by" in out) == (unit != "fractions")


def test_two_columns_of_one_name(capsys):
    write("mine.csv", RETURNS, header="oil,gas,oil")
    found, _, err = run(capsys, "mine.csv", "--limit", "oil <= 0.2")
    assert found is None and "mine.csv: expected a name of its own for each column, found 'oil' twice" in err


def test_percent_signs_in_one_column_only(capsys):
    write("mine.csv", [(f"{row[0]:.4f}%", *row[1:]) for row in RETURNS])
    found, _, err = run(capsys, "mine.csv")
    assert found is None and "percent signs in all columns or in none, found them in 'oil' and not in 'gas'" in err
    cash = [(f"{row[0]:.4f}%", f"{row[1]:.4f}%", "0") for row in RETURNS]
    write("mine.csv", cash)  # a zero is one in any unit
    assert run(capsys, "mine.csv")[0] is not None


DAYS = [str(day) for day in np.arange("2020-01-27", "2020-03-27", dtype="datetime64[D]")]


@pytest.mark.parametrize("word", ["Average", "Mean", "TOTAL", "Sum:", "Std. Dev.", "Durchschnitt"])
@pytest.mark.parametrize("dates", [DAYS, [f"{d[8:]}.{d[5:7]}.{d[:4]}" for d in DAYS], range(60)])
def test_rows_of_averages_and_sums_are_no_periods(word, dates, capsys):
    write("plain.csv", RETURNS, dates=dates)
    write("mine.csv", RETURNS, dates=dates, footer=["", f"{word},7.0,-8.0,9.0"])
    expected, found = run(capsys, "plain.csv"), run(capsys, "mine.csv")
    assert found[0] == expected[0] and "mine.csv: 60 periods, 3 assets" in found[1]
    assert f"line 63 ({word}) left out" in found[1]


def test_a_row_without_a_date_is_named(capsys):
    for word in ("Skewness", ""):
        write("mine.csv", RETURNS, dates=DAYS, footer=[f"{word},7.0,-8.0,9.0"])
        found, _, err = run(capsys, "mine.csv")
        assert found is None
        assert f"mine.csv, line 62: expected a date such as '2020-01-27', found '{word}'" in err
    write("mine.csv", RETURNS[:7], dates=["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
    assert run(capsys, "mine.csv")[0] is not None


FORMS = ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d %B %Y", "%b %d %Y", "%Y%m%d", "%d-%b-%y", "%Y-%m-%d %H:%M:%S"]


@pytest.mark.parametrize("form", FORMS)
def test_periods_with_the_latest_first_are_reversed(form, capsys):
    dates = [datetime.date.fromisoformat(day).strftime(form) for day in DAYS]
    write("up.csv", RETURNS, dates=dates)
    write("down.csv", RETURNS[::-1], dates=dates[::-1])
    args = ["--risk-measure", "cdar", "--risk-aversion", "0.2"]
    up, down = run(capsys, "up.csv", *args), run(capsys, "down.csv", *args)
    assert up[0] == down[0] and "rows reversed" in down[1] and "rows reversed" not in up[1]
    assert f"{dates[0]} to {dates[-1]}" in down[1]
    mixed = np.random.default_rng(0).permutation(60)
    write("mixed.csv", RETURNS[mixed], dates=[dates[k] for k in mixed])
    found, _, err = run(capsys, "mixed.csv", *args)
    assert found is None and "expected dates in ascending order" in err
    np.testing.assert_allclose(run(capsys, "mixed.csv")[0], run(capsys, "up.csv")[0], atol=1e-6)


def test_german_dates_beside_decimal_commas(capsys):
    with open("mine.csv", "w", encoding="utf-8") as file:
        file.write("Datum;oil;gas;gold\n")
        for day, row in zip(DAYS, RETURNS, strict=True):
            cells = [f"{v:.6f}".replace(".", ",") for v in row]
            file.write(";".join([f"{day[8:]}.{day[5:7]}.{day[:4]}", *cells]) + "\n")
    found, out, _ = run(capsys, "mine.csv")
    assert len(found) == 3 and "60 periods, 3 assets, 27.01.2020 to 26.03.2020" in out


WALK = np.cumsum(np.random.default_rng(1).normal(0.0, 0.01, (250, 3)), axis=0)
TICK = 40 * np.exp(WALK)
TICK[100, 1] = -37.6
PRICES = {
    "prices": 40 * np.exp(WALK),
    "with a negative tick": TICK,
    "logarithms": np.log(40) + WALK,
    "negative logarithms": np.log(0.4) + WALK,
    "with a zero": np.where(WALK[5] == WALK, 0.0, TICK),
    "15 rows": 40 * np.exp(WALK[:15]),
}


@pytest.mark.parametrize("kind", PRICES)
def test_prices_are_refused(kind, capsys):
    write("mine.csv", PRICES[kind])
    found, _, err = run(capsys, "mine.csv")
    assert found is None and "mine.csv: expected returns, but" in err and "file of prices" in err
    if kind == "15 rows":
        write("mine.csv", PRICES[kind], dates=DAYS[:15], footer=["Average,40,40,40"])
        assert "file of prices" in run(capsys, "mine.csv")[2]


def test_the_largest_ratio_and_a_limit_of_the_risk(tmp_path, capsys):
    rng = np.random.default_rng(0)
    R = rng.normal([0.0002, 0.001, 0.0005], [0.002, 0.02, 0.01], (200, 3))
    path = tmp_path / "returns.csv"
    np.savetxt(path, R, delimiter=",", header="a,b,c", comments="")
    assert main(["portfolio", "--data", str(path), "--unit", "fractions", "--objective", "ratio"]) in (0, None)
    assert "largest ratio, converged" in capsys.readouterr().out
    assert main(["portfolio", "--data", str(path), "--unit", "fractions", "--max-risk", "0.008"]) in (0, None)
    said = capsys.readouterr().out
    assert "risk of at most 0.008, converged" in said and "deviation 0.008" in said
