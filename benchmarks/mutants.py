"""Mutants: one line of mathematics changed at a time, and whether a test notices it.

    python -m benchmarks.mutants [NAME ...] [-- ARGUMENTS OF PYTEST]

A name is a part of the path of a file or of the new text; without one, all mutants are
tried. Without arguments for pytest each mutant is tried on its own tests. A mutant that
no test notices is printed as missed, and the exit status is then 1. The file is changed
in place while its tests run, and restored afterwards: run this in a copy of the
repository that nobody else uses.
"""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Mutant(NamedTuple):
    """A line of a file that occurs once there, and what it is replaced by."""

    file: str  # in the package
    old: str
    new: str
    tests: str  # that should notice it, separated by spaces


MUTANTS = [
    Mutant(
        "portfolio/risk/cvar.py",
        "Hinges(rows, np.zeros(n), scaled.risk_weight * scaled.p / tail, np.zeros(n))",
        "Hinges(rows, np.zeros(n), scaled.risk_weight * scaled.p, np.zeros(n))",
        "tests/pairs/test_portfolio.py",
    ),
    Mutant(
        "portfolio/risk/semideviation.py",
        "t = (above / (self.norm(above, p) or 1.0)) ** (self.order - 1) * (above > 0)",
        "t = (above / (self.norm(above, p) or 1.0)) ** self.order * (above > 0)",
        "tests/portfolio/test_risk_measures.py",
    ),
    Mutant(
        "portfolio/risk/evar.py",
        "value = t * (np.log(mass) + self.allowed) - low",
        "value = t * np.log(mass) - low",
        "tests/portfolio/test_rounds.py tests/portfolio/test_risk_measures.py",
    ),
    Mutant(
        "portfolio/risk/evar.py",
        "H[n, n] = q @ (e - middle) ** 2",
        "H[n, n] = q @ e**2",
        "tests/portfolio/test_exact.py tests/portfolio/test_hard_numbers.py",
    ),
    Mutant(
        "portfolio/risk/cdar.py",
        "return np.maximum(np.maximum.accumulate(total), 0.0) - total",
        "return np.maximum.accumulate(total) - total",
        "tests/portfolio/test_risk_measures.py",
    ),
    Mutant(
        "portfolio/risk/gini.py",
        "slopes[order] = q[:, None] * (rank[:, None] * rows - others)",
        "slopes[order] = q[:, None] * (rank[:, None] * rows + others)",
        "tests/portfolio/test_gini.py",
    ),
    Mutant(
        "portfolio/moments.py",
        "x, self.log_at(x), self.mean - self.covariance @ way, self.covariance",
        "x, self.log_at(x), self.mean, self.covariance",
        "tests/portfolio/test_moments_of_returns.py",
    ),
    Mutant(
        "portfolio/sums.py",
        "between = (self.weight * part) * np.outer(way, way)",
        "between = part * np.outer(way, way)",
        "tests/portfolio/test_moments_of_returns.py",
    ),
    Mutant(
        "portfolio/returns.py",
        "fading = 0.5 ** (np.arange(self.shape[0])[::-1] / half_life)",
        "fading = 0.5 ** (np.arange(self.shape[0]) / half_life)",
        "tests/portfolio/test_rounds.py tests/pairs/test_portfolio.py",
    ),
    Mutant(
        "portfolio/exact/feasible_set.py",
        "middle = np.where(self.previous > 0, norm - cost, cost - norm)",
        "middle = np.where(self.previous > 0, cost - norm, norm - cost)",
        "tests/portfolio/test_portfolio_steps.py",
    ),
    Mutant(
        "portfolio/convex_program.py",
        "return constant - solution.dual_E @ program.e - dual_A @ at, c",
        "return constant - dual_A @ at, c",
        "tests/portfolio/test_exact.py",
    ),
    Mutant(
        "portfolio/rounds/rows.py",
        "return float(n) if ratio == 1 else (1 - ratio**n) / (1 - ratio)",
        "return float(n) if ratio == 1 else 1 / (1 - ratio)",
        "tests/portfolio/test_rounds.py",
    ),
    Mutant(
        "portfolio/compositional.py",
        "d -= factors.weight",
        "d -= 2 * factors.weight",
        "tests/portfolio/test_portfolio_steps.py",
    ),
    Mutant(
        "portfolio/performance.py",
        "wealth ** (periods_per_year / len(returns)) - 1",
        "wealth ** (periods_per_year / (len(returns) + 1)) - 1",
        "tests/portfolio/test_walk_forward.py",
    ),
    Mutant(
        "backtest/accounts.py",
        "lost = np.flatnonzero(wealth <= 0)",
        "lost = np.flatnonzero(wealth < 0)",
        "tests/portfolio/test_walk_forward.py",
    ),
    Mutant(
        "portfolio/whole_shares.py",
        "cost = np.concatenate([prices - 2 * remainders, prices]) / unit",
        "cost = np.concatenate([prices - remainders, prices]) / unit",
        "tests/portfolio/test_whole_shares.py",
    ),
]


def first_failure(mutant, arguments=()):
    """The first test that fails with the mutant, or None. The file is restored."""
    path = ROOT / "sk_stormc" / mutant.file
    before = path.read_text(encoding="utf-8")
    if before.count(mutant.old) != 1:
        raise ValueError(f"{mutant.file} must have one {mutant.old!r}")
    options = ["-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
    command = [sys.executable, "-m", "pytest", *options]
    try:
        path.write_text(before.replace(mutant.old, mutant.new), encoding="utf-8")
        tests = arguments or mutant.tests.split()
        ran = subprocess.run(
            [*command, *tests], cwd=ROOT, capture_output=True, text=True, check=False
        )
    finally:
        path.write_text(before, encoding="utf-8")
    if ran.returncode == 0:
        return None
    failed = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    if ran.returncode != 1 or not failed:
        raise RuntimeError(ran.stdout[-2000:] + ran.stderr[-2000:])
    return failed[0].split()[1]


def main(argv):
    """Try the mutants that are named, and print a line for each."""
    end = argv.index("--") if "--" in argv else len(argv)
    names, arguments = argv[:end], argv[end + 1 :]
    missed = 0
    for mutant in MUTANTS:
        if names and not any(name in mutant.file + mutant.new for name in names):
            continue
        failed = first_failure(mutant, arguments)
        missed += failed is None
        print(f"{mutant.file}: {mutant.new}\n    {failed or 'missed'}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
