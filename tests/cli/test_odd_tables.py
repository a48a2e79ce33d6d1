"""Odd tables by the hundred: each ends with all of its columns accounted for, or with
one line. ``python tests/cli/test_odd_tables.py 3000`` reads more of them."""

import contextlib
import io
import re
import sys

import numpy as np
import pandas as pd
import pytest

from sk_stormc.__main__ import main


def run(*args):
    """The exit status of a command, its lines, and its error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(map(str, args)))
    return code, out.getvalue().splitlines(), err.getvalue()


def odd_column(rng, n):
    """A column of one of many kinds."""
    kinds = [
        lambda: rng.normal(size=n),
        lambda: rng.integers(0, 5, n),
        lambda: rng.permutation(n),
        lambda: rng.choice(["a", "b", "c"], n),
        lambda: [f"id {k}" for k in range(n)],
        lambda: np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
        lambda: [f"{x:.1f}%" for x in rng.normal(size=n)],
        lambda: [f"{x:,.2f}" for x in 1e4 * rng.random(n)],
        lambda: [f"$ {x:.2f}" for x in rng.random(n)],
        lambda: pd.bdate_range("2020-01-01", periods=n).strftime("%Y-%m-%d"),
        lambda: rng.choice([True, False], n),
        lambda: [f"[{a:.1f} {b:.1f}]" for a, b in rng.normal(size=(n, 2))],
        lambda: [None] * n,
        lambda: ["1.5"] * (n - 1) + ["x"],
        lambda: np.full(n, 7),
        lambda: 100 * np.exp(0.01 * rng.normal(size=n).cumsum()),
    ]
    return kinds[rng.integers(len(kinds))]()


def odd_table(rng):
    """A small table of odd columns, names and rows, and how it is written."""
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 7))
    names = [f"c{k}" for k in range(d)]
    if rng.random() < 0.1:
        names[int(rng.integers(d))] = str(rng.choice(["", "label", "Volume", "=1+1"]))
    frame = pd.DataFrame({k: odd_column(rng, n) for k in range(d)}).set_axis(
        names, axis=1
    )
    if rng.random() < 0.1:
        frame = pd.concat([frame, frame.iloc[-1:]])
    if rng.random() < 0.1:
        frame = pd.concat([pd.DataFrame([["cm"] * d], columns=names), frame])
    form = {"index": bool(rng.random() < 0.3), "sep": str(rng.choice([",", ";", "\t"]))}
    return frame, form | {"header": bool(rng.random() < 0.9)}


def account_for(seed):
    """Read an odd table by a command that the seed chooses: it ends with 0 and accounts
    for all columns, or with 2 and one line."""
    rng = np.random.default_rng(seed)
    frame, form = odd_table(rng)
    frame.to_csv("odd.csv", **form)
    command = str(rng.choice(["map", "portfolio", "values"]))
    options = ["--mixed"] if command == "map" and rng.random() < 0.5 else []
    if command == "values":
        options = ["--state", "c0", "--reward", "c1", "--episode", "c2"]
    code, lines, err = run(command, "--data", "odd.csv", *options, "--check")
    if code != 0:
        # warnings are lines of their own
        errors = [line for line in err.splitlines() if "arning" not in line]
        assert code == 2 and len(errors) == 1, (seed, err)
        assert errors[0].startswith("error: "), (seed, err)
        return code
    block = lines[: lines.index("")]
    assert len(block) <= 6, (seed, block)
    n_columns = int(re.search(r"rows x (\d+) columns", block[0])[1])
    used = re.split(r"[;:] (?:[a-z ]+: )?", block[1], maxsplit=1)[1]
    used = re.sub(r"; [a-z ]+: ", ", ", used)
    left_out = next((line for line in block if line.startswith("left out: ")), "")
    left_out = re.sub(r" \([^()]*\)", "", left_out.removeprefix("left out: "))
    named = [name for name in used.split(", ") if name]
    named += [name for name in re.split("[,;] ", left_out) if name]
    more = sum(int(k) - 8 - 1 for k in re.findall(r"\.\.\. \((\d+) in all\)", block[1]))
    assert len(named) + more == n_columns, (seed, block)
    return code


@pytest.mark.slow
def test_odd_tables_are_accounted_for_or_refused(recwarn, tmp_path, monkeypatch, n=300):
    pytest.importorskip("skrub")
    monkeypatch.chdir(tmp_path)
    codes = [account_for(seed) for seed in range(n)]
    assert min(codes.count(0), codes.count(2)) > n / 10


if __name__ == "__main__":
    counts = [account_for(seed) for seed in range(int(sys.argv[1]))]
    print(f"{counts.count(0)} read, {counts.count(2)} refused")
