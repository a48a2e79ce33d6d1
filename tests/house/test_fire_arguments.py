"""Wrong arguments: every public function raises a TypeError or ValueError that names the parameter, before any work."""

import contextlib
import math
import re

import numpy as np
import pytest
from fire_table import CASES, INSIDE, MODULES
from helpers import slow_but
from matplotlib import pyplot as plt

WRONG = {
    "None": None,
    "string": "junk",
    "object": object(),
    "complex": 1 + 2j,
    "NaN": math.nan,
    "inf": math.inf,
    "negative": -1,
    "fraction": 2.5,
    "bool": True,
    "empty": np.empty(0),
    "3-d": np.zeros((2, 2, 2)),
    "dict": {"a": 1},
    "dates": np.array(["2020-01-01"] * 3, "M8[D]"),
    "names": ["a", None],
    "class": int,
    "function": len,
}


@pytest.fixture(autouse=True)
def no_figures():
    yield
    plt.close("all")


def test_every_public_name_has_a_case():
    public = {name for module in MODULES for name in module.__all__}
    known = {re.split("[.,]", case)[0] for case in CASES}
    assert public - INSIDE.keys() <= known
    assert not INSIDE.keys() & known


DEAR = ("EmbeddingDisplay.from_estimator", "FrontierDisplay.from_estimator", "SNEEmbedding.fit", "check_solver")


@pytest.mark.parametrize("name", slow_but(CASES, *(name for name in CASES if name not in DEAR)))
@pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore:.*:sklearn.exceptions.ConvergenceWarning")
def test_wrong_arguments_are_named(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = CASES[name]
    with contextlib.suppress(*case.fails):
        case.call(**case.valid)
    found = []
    for argument, value in case.valid.items():
        said = rf"\b(?:{case.names.get(argument, argument)})\b"
        free = case.allowed.get(argument, "").split(",")
        free += ["fraction"] * isinstance(value, float) + ["bool"] * isinstance(value, bool)
        for kind, wrong in WRONG.items():
            try:
                case.call(**case.valid | {argument: wrong})
            except (TypeError, ValueError) as error:
                if kind not in free and not re.search(said, str(error)):
                    found.append(f"{argument}={kind} is not named: {error}")
            except Exception as error:
                if kind in free and isinstance(error, case.fails):
                    continue
                found.append(f"{argument}={kind} ends in {type(error).__name__}: {error}")
            else:
                if kind not in free:
                    found.append(f"{argument}={kind} is taken")
    assert not found, "\n" + "\n".join(found)


