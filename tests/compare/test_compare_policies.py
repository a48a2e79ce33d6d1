"""One table of policies: which is the best, what episodes that are cut off mean, and
what is refused. Its numbers are compared in tests/pairs."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from sk_stormc import ActionValueEstimator, compare_policies
from sk_stormc.plotting import PolicyValueDisplay

GAMMA = 0.9
CHAIN = np.random.default_rng(3).dirichlet(np.ones(3), size=(3, 2)) * 0.85
GAINS = np.random.default_rng(4).normal(size=(3, 2))
STATE, AFTER = ["x0", "x1", "x2"], ["after0", "after1", "after2"]


def chain_log(m=200, seed=0, cut=None):
    """Episodes of three states, as indicators, in which "a" and "b" are equally likely;
    perhaps cut off."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(m):
        s, t = rng.integers(3), 0
        while s < 3:
            a = int(rng.random() < 0.5)
            after = int(np.searchsorted(np.cumsum(CHAIN[s, a]), rng.random()))
            gain = GAINS[s, a] + 0.3 * rng.normal()
            rows.append((s, a, gain, f"e{episode}", t, after == 3, after))
            s, t = (after, t + 1) if t + 1 != cut else (3, 0)
    s, a, y, episode, t, ends, after = zip(*rows, strict=True)
    frame = pd.DataFrame({
        "action": np.where(a, "b", "a"), "reward": y, "episode": episode, "time": t,
        "done": ends, "p": 0.5,
    })  # fmt: skip
    for names, states in ((STATE, s), (AFTER, after)):
        frame[names] = np.eye(4)[list(states), :3]
    return frame


def mostly_b(S):
    """ "b" with a probability that depends on the state."""
    values = S[STATE].to_numpy() if hasattr(S, "columns") else S
    b = values @ [0.9, 0.7, 0.8]
    return np.column_stack([1 - b, b])


def exact(b):
    """The value of the policy that takes "b" with a probability in each state."""
    policy = np.column_stack([1 - np.array(b), b])
    P = np.einsum("sa,sat->st", policy, CHAIN)
    return np.linalg.solve(np.eye(3) - GAMMA * P, (policy * GAINS).sum(axis=1)).mean()


MODEL = ActionValueEstimator(fit_intercept=False, alpha=1e-6)
ROLES = {
    "state": STATE, "episode": "episode", "time": "time", "terminal": "done",
    "next_state": AFTER, "probability": "p", "gamma": GAMMA, "estimator": MODEL,
}  # fmt: skip


def compared(data, policies=None, **changes):
    policies = {"mostly b": mostly_b} if policies is None else policies
    return compare_policies(data, policies, **ROLES | changes)


def test_episodes_that_are_cut_off():
    """The value of the policy that acted includes what follows, as the others do: all
    are those of episodes without a cut."""
    log = chain_log(1500, cut=2)
    found = compared(log, method="dr")
    for name, b in {"behaviour": [0.5] * 3, "mostly b": [0.9, 0.7, 0.8]}.items():
        low, high = found.values[name].interval(0.999)
        assert low < exact(b) < high and high - low < 1
    first = log[log["time"] == 0]["reward"].mean()
    second = log[log["time"] == 1]["reward"].sum() / 1500
    until_cut = compared(log, method="wpdis").values["behaviour"].value
    assert until_cut == pytest.approx(first + GAMMA * second)
    assert abs(until_cut - exact([0.5] * 3)) > 0.1


def test_values_that_measure_different_things_are_not_subtracted():
    log = chain_log(cut=2).assign(q=0.5)
    found = compared(log, {"mostly b": mostly_b, "even": "q"})
    warning = found.table.loc["even", "warning"]
    assert "only one value includes what follows" in warning
    assert found.best_ is None and "even" in found.reason_


def bandit(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    x, action = rng.normal(size=n), rng.integers(2, size=n)
    log = {"x": x, "action": action, "p": np.full(n, 0.5), "done": np.ones(n, bool)}
    return log | {"reward": x * (2 * action - 1) + rng.normal(size=n)}


RIGHT = {
    "by sign": lambda X: (X[:, 0] > 0).astype(int),
    "always 1": lambda X: np.ones(len(X), int),
}


def test_the_best_policy():
    found = compare_policies(bandit(), RIGHT, state="x", probability="p")
    assert found.best_ == "by sign" and "every other row is above 0" in found.reason_
    assert "0.975 each" in found.reason_
    text, page = str(found), found._repr_html_()
    assert "by sign" in text and "Best: by sign" in text and "<table>" in page
    # nothing to choose
    twice = {"one": RIGHT["by sign"], "other": RIGHT["by sign"]}
    found = compare_policies(bandit(), twice, state="x", probability="p")
    assert found.best_ is None and "has the largest value" in found.reason_
    found = compare_policies(
        bandit(), RIGHT, state="x", probability="p", baseline="always 1"
    )
    assert list(found.values)[0] == "always 1" and found.best_ == "by sign"
    gap = found.values["by sign"] - found.values["always 1"]
    assert found.table.loc["by sign", "difference"] == pytest.approx(gap.value)
    few = compare_policies(bandit(12), RIGHT, state="x", probability="p")
    assert few.best_ is None and "warnings of" in few.reason_
    assert "12 episodes" in few.table.loc["by sign", "warning"]
    assert few.table.loc["always 1", "largest_weight"] == pytest.approx(
        1 / np.count_nonzero(bandit(12)["action"])
    )


def test_the_level_is_shared():
    """A difference of 2.2 standard errors, which one comparison accepts at a confidence
    of 0.9, and one of twelve does not."""
    n = 400
    action = np.arange(n) % 2
    noise = np.random.default_rng(1).normal(size=n)
    for chosen in (0, 1):  # means 0 and variances 1
        rows = action == chosen
        noise[rows] = (noise[rows] - noise[rows].mean()) / noise[rows].std()
    log = {"x": np.zeros(n), "action": action, "p": np.full(n, 0.5)}
    log["reward"] = noise + 2.2 / np.sqrt(n) * (2 * action - 1)
    ones = {"ones": RIGHT["always 1"]}
    even = {f"even {k}": np.full((n, 2), 0.5) for k in range(11)}
    one, twelve = (
        compare_policies(log, some, state="x", probability="p", confidence=0.9)
        for some in (ones, ones | even)
    )
    gap = one.table.loc["ones"]
    error = one.values["ones"] - one.values["behaviour"]
    assert gap["difference"] / error.std_error == pytest.approx(2.2, abs=0.05)
    assert one.best_ == "ones" and twelve.best_ is None


def test_without_pandas(monkeypatch):
    expected = compare_policies(bandit(), RIGHT, state="x", probability="p").table
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = compare_policies(bandit(), RIGHT, state="x", probability="p")
    table = found.table
    assert table["policy"].tolist() == list(expected.index) and "by sign" in str(found)
    np.testing.assert_array_equal(table["value"], expected["value"])


def test_warnings_of_others_are_passed_on():
    def policy(X):
        warnings.warn("old", DeprecationWarning, stacklevel=2)
        return np.ones(len(X), int)

    with pytest.warns(DeprecationWarning, match="old"):
        found = compare_policies(
            bandit(), {"ones": policy}, state="x", probability="p", terminal="done"
        )
    assert found.table.loc["ones", "warning"] == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": {}}, "policies must be a dict of policies by name"),
        ({"policies": {"behaviour": mostly_b}}, "policies must have names.*behaviour"),
        ({"baseline": "x"}, "baseline must be one of 'behaviour', 'mostly b'"),
        ({"state": ["x0", "x9"]}, "state must name a column of data.*got 'x9'"),
        ({"next_state": AFTER[:2]}, "next_state must name as many columns as state"),
        ({"reward": "action"}, "reward='action': values must be numbers"),
        ({"probability": "reward"}, "probability='reward' must be probabilities, above"),
        ({"probability": None}, "probability must name the column.*or classifier"),
        ({"episode": None}, "episode must be given, because without it each row"),
        ({"terminal": "time"}, "terminal='time': terminal must be booleans"),
        ({"policies": {"c": "p"}, "method": "dr"}, r"policies\['c'\] must be a function"),
        ({"policies": {"c": np.ones(3)}}, r"policies\['c'\] must be a function.*\(3,\)"),
        ({"policies": {"c": lambda S: np.full(len(S), "z")}}, r"policies\['c'\].*'z'"),
        ({"policies": {"c": "reward"}}, r"policies\['c'\]='reward' must be probabil"),
        ({"confidence": 1.0}, "confidence must be below 1"),
        ({"confidence": 0.0}, "confidence must be a finite number > 0"),
        ({"method": "best"}, "method must be one of 'auto'"),
        ({"classifier": 3, "probability": None}, "classifier must be a classifier"),
        ({"estimator": 3}, "estimator must be a ActionValueEstimator"),
        ({"data": chain_log(30, cut=2), "next_state": None}, "as that of row"),
        ({"data": np.ones((3, 2))}, "data must be a data frame or a dict"),
    ],
)  # fmt: skip
def test_what_is_refused(changes, message):
    changes = dict(changes)
    data = changes.pop("data", chain_log(30))
    policies = changes.pop("policies", {"mostly b": mostly_b})
    with pytest.raises(ValueError, match=message):
        compared(data, policies, **changes)


def test_the_display():
    found = compared(chain_log(cut=2).assign(q=0.5), {"b": mostly_b, "even": "q"})
    display = found.plot(linewidth=3)
    table = found.table
    for name, line in display.value_intervals_.items():
        np.testing.assert_allclose(
            line.get_xdata(), table.loc[name, ["low", "high"]].astype(float)
        )
        assert line.get_linewidth() == 3
    ends = display.difference_intervals_["b"].get_xdata()
    columns = ["difference_low", "difference_high"]
    np.testing.assert_allclose(ends, table.loc["b", columns].astype(float))
    assert np.isnan(display.difference_intervals_["even"].get_xdata()).all()
    left, right = display.axes_
    labels = left.get_yticklabels()
    assert [label.get_text() for label in labels] == ["behaviour", "b", "even"]
    assert labels[2].get_color() != labels[1].get_color()
    figure, axes = plt.subplots(2)
    assert PolicyValueDisplay.from_comparison(found, axes=axes).figure_ is figure
    with pytest.raises(ValueError, match="comparison must be that of compare_policies"):
        PolicyValueDisplay.from_comparison(table)
    with pytest.raises(ValueError, match="differences must be those of"):
        PolicyValueDisplay({"a": [0, -1, 1]}, {"b": [0, -1, 1]}).plot()
    with pytest.raises(ValueError, match="axes must be two"):
        display.plot(axes[:1])
    with pytest.raises(ValueError, match="values must be a value and the ends"):
        PolicyValueDisplay({"a": [0, 1]}, {"a": [0, -1, 1]}).plot()
    plt.close("all")


def test_a_policy_that_equals_the_behaviour_is_not_better_by_rounding():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        log = {"s": rng.normal(size=120), "action": rng.integers(2, size=120)}
        log |= {"reward": rng.normal(size=120), "p": np.full(120, 0.5)}
        same = {"half": np.full((120, 2), 0.5)}
        found = compare_policies(log, same, state="s", probability="p")
        assert found.best_ is None and list(found.table["difference"])[1] == 0
