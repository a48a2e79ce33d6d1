"""Store the optima of the cases of tests/pairs/test_portfolio.py:

    python -m benchmarks._portfolio_optima

The cases have every allowed pair of the factors' values, so they are made anew if
these change. The tests need neither cvxpy nor Clarabel.
"""

import json
import sys

from benchmarks._portfolio_cases import FACTORS, FORBIDDEN, case_of, drawn
from benchmarks._portfolio_oracle import solve
from benchmarks._tables import ROOT

FILE = ROOT / "tests" / "pairs" / "portfolio.json"
SEEDS = 10  # of a case, until Clarabel solves it
# seeds of random cases that once were wrong, stored after those of the covering array
FOUND = (136, 164, 271, 388, 438, 935, 79, 698)


def optimum_of(words, seed):
    """A case, its seed, and what Clarabel finds."""
    for k in range(SEEDS):
        case = case_of(words, 1000 * k + seed)
        answer = solve(case)
        if answer.status != "failed":
            break
    else:
        raise ValueError(f"Clarabel solves no case of {words}")
    found = {"seed": 1000 * k + seed, "status": answer.status}
    if answer.status == "optimal":
        found |= {"value": answer.value, "error": answer.error}
        if case.goal != "ratio" and case.best_is_empty(answer.value):
            found["empty"] = True
    return words | found


def main():
    """Write the file."""
    sys.path.insert(0, str(ROOT / "tests"))
    from helpers import covering_array

    cases = covering_array(FACTORS, FORBIDDEN)
    seeds = [*enumerate(cases), *((seed, drawn(seed)) for seed in FOUND)]
    lines = [json.dumps(optimum_of(words, seed)) for seed, words in seeds]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    print(f"{FILE.relative_to(ROOT)}: {len(lines)} cases")


if __name__ == "__main__":
    main()
