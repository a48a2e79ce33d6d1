"""Invalid arguments of the estimators of values, of off-policy evaluation, and of
models and logs: a table a class."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.tree import DecisionTreeClassifier
from value_logs import episodes

from sk_stormc import (
    ActionValueEstimator,
    BellmanValueEstimator,
    estimated_ratios,
    off_policy_value,
)
from sk_stormc.datasets import (
    MarkovRewardProcess,
    transitions_from_arrays,
    transitions_from_episodes,
)
from sk_stormc.solvers import STORMCompositional

LOG, EPISODE, STEP = episodes([3, 5, 4])
N = len(EPISODE)
ROWS = np.arange(N)


def put(column, row, value):
    """The column as numbers, with another value in a row."""
    column = np.array(column, dtype=float)
    column[row] = value
    return column


# values of states: parameters, data of all methods, data of single methods


VALUE = [
    ({"gamma": -1}, "gamma must be a finite number >= 0 and <= 1, got -1"),
    (
        {"solver": "newton"},
        "solver must be one of 'storm-c'.*'auto', 'lstd', got 'newton'",
    ),
    (
        {"solver": STORMCompositional},
        r"'lstd'\], got a class: give STORMCompositional\(\)",
    ),
    (
        {"trace_decay": 0.7, "solver": "storm-c"},
        "trace_decay must be 0 unless solver is 'auto' or 'lstd', got 0.7",
    ),
    (
        {"trace_decay": 0.7, "objective": "bellman"},
        "trace_decay must be 0 with objective='bellman', got 0.7",
    ),
]
DATA = [  # of fit, partial_fit and score
    ({"y": put(LOG["y"], 4, np.inf)}, "y must be finite, got inf in row 4"),
    ({"y": LOG["y"].astype(str)}, "y must be numbers, got array"),
    ({"y": LOG["y"].astype(str).astype(object)}, "y must be numbers, got array"),
    ({"y": [None] * N}, "y must be finite, got nan in row 0"),
    ({"next_X": LOG["X"][:, :2]}, "next_X must have the columns of X"),
    (
        {"next_X": LOG["X"][:4]},
        r"next_X must be of shape \(12, 3\), as X is, got \(4, 3\)",
    ),
    (
        {"next_X": put(LOG["X"], 3, np.inf)},
        "next_X must be finite where not terminal, got NaN or infinity in row 3",
    ),
    ({"time": ROWS}, "time must be None if next_X is given"),
    (
        {"next_X": None, "time": ROWS + 0.5},
        "time must be whole numbers or dates, got .*0.5.* in row 0",
    ),
    (
        {"next_X": None, "time": ROWS // 2},
        "time must (have distinct .*rows 0 and 1.*episode=|increase .*0, then 0)",
    ),
    (
        {"episode": np.zeros(3)},
        r"episode must be one label for each of the 12 rows, got shape \(3,\)",
    ),
    ({"episode": put(EPISODE, 7, np.nan)}, "label in each row, got nan in row 7"),
    (
        {"episode": np.array([[1]] * N + [1], dtype=object)[:N]},
        "labels such as numbers or strings, got",
    ),
    (
        {"episode": np.zeros(N)},
        "terminal must be the last row of an episode, got row 3 after row 2",
    ),
    (
        {"next_X": None, "time": STEP // 2, "episode": EPISODE},
        "distinct values .*got 0 in rows 0 and 1$",
    ),
    ({"sample_weight": put(ROWS, 1, -1)}, "sample_weight must be .*got -1.0 in row 1"),
]


@pytest.mark.parametrize("method", ["fit", "partial_fit", "score"])
@pytest.mark.parametrize(("data", "message"), DATA)
def test_data_of_bellman_value_estimator(data, message, method):
    value = BellmanValueEstimator(0.9).fit(**LOG)
    before = pickle.dumps(value)
    with pytest.raises(ValueError, match=message):
        getattr(value, method)(**LOG | data)
    assert pickle.dumps(value) == before


def fit(data, method="fit", **params):
    value = BellmanValueEstimator(**{"gamma": 0.9} | params)
    value = value.fit(**LOG) if method == "score" else value
    return getattr(value, method)(**LOG | data)


TIMED = {"next_X": None, "time": 2 * ROWS, "terminal": ROWS < 0}
VANISHING = {name: 1e-170 * LOG[name] for name in ("X", "next_X")}
WIDE = {name: np.zeros((N, 4000)) for name in ("X", "next_X")}
SINGLE = [
    ({"data": {"sample_weight": 0 * ROWS}}, "sample_weight must have a positive entry"),
    ({"data": TIMED}, "X must have a usable transition"),
    ({"data": TIMED, "method": "score"}, "X must have a transition"),
    (
        {"data": {"next_X": None}, "method": "score"},
        "next_X must be given for transitions that are not terminal",
    ),
    (
        {"data": {"X": 1e200 * LOG["X"]}},
        "X, y and sample_weight must have finite products",
    ),
    (
        {"data": VANISHING, "objective": "projected", "fit_intercept": False},
        "X must have features whose squares",
    ),
    (
        {"data": WIDE, "method": "partial_fit", "solver": "lstd"},
        "at most 4000 features .*got 4001, the inter",
    ),
    (
        {"data": {}, "method": "partial_fit", "objective": "bellman"},
        "objective must be 'auto' or 'projected' for part",
    ),
    (
        {"data": {}, "method": "partial_fit", "gamma": 1, "solver": "storm-c"},
        "gamma must be < 1 for partial_fit",
    ),
]
FITTED = BellmanValueEstimator(0.9).fit(**LOG, episode=EPISODE)
CONFIDENCE = [({"confidence": wrong}, "confidence must be") for wrong in (0, 1.5)]

# values of actions

ACTIONS = LOG | {"action": ROWS % 2}
POLICY = [
    ({"policy": [0, 1]}, "policy is an array for 2 states.*3 columns that are neither"),
    ({"policy": lambda X: np.ones(3)}, "policy must give an action.*got shape"),
    (
        {"policy": lambda X: np.full(len(X), 7)},
        r"actions of policy must be among.*\[0, 1\].*got 7 in row 0",
    ),
    (
        {"policy": lambda X: np.full((len(X), 2), 0.4)},
        "probabilities >= 0 that sum to 1.*0.4.*row 0",
    ),
    (
        {"policy": lambda X: np.full((len(X), 3), 1 / 3)},
        "policy must give probabilities of the actions",
    ),
    (
        {"solver": "storm-c"},
        "solver must be 'auto' or 'lstd' with policy='greedy', got 'storm-c'",
    ),
]
ACTION = [
    (put(ROWS, 5, np.nan), "action must be finite, got nan in row 5"),
    (put(ROWS, 5, 0.25), "action must be labels of a finite choice, got 0.25 in row 5"),
    (ROWS[:, None], r"action must be one label.*shape \(12, 1\)"),
    (ROWS[:3], r"action must be one label.*shape \(3,\)"),
]
BRIEF = {"X": [[0], [1]], "y": [0, 1], "action": [0, 1], "next_X": [[1], [-1]]}
SCORED = [
    (
        ACTIONS | {"action": put(ACTIONS["action"], 1, 2)},
        "action must be among those that fit had.*got 2 in row 1",
    ),
    (LOG, "action must be given, the action of each row"),
    (
        ACTIONS | {"next_X": None, "terminal": None},
        "next_X and terminal must be given to score",
    ),
]
MANY = {
    "X": np.ones((2, 1400)),
    "y": [0.0, 1.0],
    "terminal": [True, True],
    "action": [0, 1],
    "actions": [0, 1, 2],
}

# off-policy evaluation

Q = {
    "method": "dr",
    "X": np.eye(9),
    "action": np.arange(9) % 2,
    "target": np.full((9, 2), 0.5),
}
Q["terminal"] = np.arange(9) % 3 == 2
OFF_POLICY = [
    (
        {"importance_ratio": np.zeros(9), "method": "wis"},
        "importance_ratio must be positive",
    ),
    ({"importance_ratio": np.zeros(9)}, "importance_ratio must be positive"),
    ({"time": np.zeros(9, dtype=int)}, "distinct values within an episode"),
    (
        {"method": "dr"},
        "X must be given for the methods 'dr' and 'wdr'.*pass the states",
    ),
    (
        Q | {"action": None},
        "action must be given for the methods 'dr' and 'wdr'.*the action of each "
        "row.*'pdis'",
    ),
    (
        Q | {"target": None},
        r"target must be given .*of all actions in each row, \(n_transitions, "
        r"n_actions",
    ),
    (
        Q | {"estimator": ActionValueEstimator(solver="storm-c")},
        "estimator must be an .*with solver='auto'",
    ),
    (
        Q | {"target": np.full((9, 3), 1 / 3)},
        "target must give probabilities of the actions .*0, 1.*got .*9, 3",
    ),
    (
        Q | {"target": np.full((9, 2), 0.4)},
        "target must have probabilities >= 0 that sum to 1, got .* in row 0",
    ),
    (
        Q | {"target": lambda X: np.full(len(X), 7)},
        "actions of target must be among .*got 7 in row 0",
    ),
    (Q | {"X": np.eye(9)[:4]}, "X must have 9 rows, as y has, got 4"),
    (
        Q | {"time": np.tile([0, 1, 3], 3)},
        "next_X must be given .*are cut off or have gaps: row 1 is",
    ),
]
X, TAKEN = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
RATIOS = [
    (
        {"classifier": RidgeClassifier()},
        "classifier must be a classifier with predict_proba, got RidgeClassifier",
    ),
    (
        {"classifier": DecisionTreeClassifier()},
        "classifier must give .* a positive probability, got 0 for . in row",
    ),
    ({"action": TAKEN[:-1]}, "X and action must have as many rows, got 60 and 59"),
    (
        {"action": put(TAKEN, 7, 9)},
        "action must have .* two rows of each, got 1 of 9 and 4 in all",
    ),
    (
        {"target": np.ones((60, 2))},
        r"target must give probabilities of the actions .*0, 1, 2.*shape \(60, 2\)",
    ),
    (
        {"target": np.full((60, 3), 0.3)},
        "target must have probabilities >= 0 that sum .*0.9 in row 0",
    ),
    (
        {"target": put(np.full(60, 0.5), 5, -0.1)},
        "target must be probabilities from 0 to 1, got .*-0.1.* in row 5",
    ),
    ({"episode": 0 * TAKEN}, "episode must have at least 2 different labels, got 1"),
    (
        {"episode": TAKEN},
        "action must have actions in episodes of several folds, got . in those of one "
        "fold only",
    ),
]


def value_of(**changes):
    parts = {
        "y": np.ones(9),
        "importance_ratio": np.ones(9),
        "episode": np.repeat([0, 1, 2], 3),
    }
    return off_policy_value(**parts | changes)


def ratios(**changes):
    given = {
        "X": X,
        "action": TAKEN,
        "target": np.full((60, 3), 1 / 3),
        "classifier": LogisticRegression(),
    }
    return estimated_ratios(**given | changes)


# models and recorded episodes

NEGATIVE = np.array([[0.5, 0.5, 0], [0, 1, 0], [-0.5, 1.5, 0]])
MODEL = [
    (
        ([[0.5, 0.5], [0, 0.9]], np.zeros(2)),
        "transition_matrix must have rows that sum to 1, got 0.9 in row 1",
    ),
    (
        ([[0.5, 0.5], [np.nan, 1]], np.zeros(2)),
        "transition_matrix must have finite.*got nan in row 1",
    ),
    (
        (sparse.csr_array(NEGATIVE), np.zeros(3)),
        "transition_matrix must have .*got -0.5 in row 2",
    ),
    (
        (np.eye(3), np.zeros(2)),
        r"rewards must be of shape \(3,\) or \(3, 3\), got \(2,\)",
    ),
    (
        (np.eye(3), np.zeros(3), np.eye(2)),
        r"features must be of shape \(3, n_features\), got \(2, 2\)",
    ),
    ((np.eye(3), np.zeros(3), None, 1), "gamma must be < 1 for a model, got 1"),
    ((np.eye(3)[:2], np.zeros(2)), "transition_matrix must be square"),
]


def spoilt(**parts):
    """Two episodes, of two steps each, and a wrong part in the second one."""
    episode = {
        "observations": [[0.0, 1.0]] * 3,
        "actions": [0, 1],
        "rewards": [0.0, 1.0],
        "terminations": True,
    }
    return [episode, episode | parts]


EPISODES = [
    (spoilt()[0], "episodes must be a sequence of episodes"),
    (
        [3],
        "episodes must have observations, actions, rewards, got episode 0 without "
        "observations and actions",
    ),
    (
        spoilt(rewards=[1.0, np.nan]),
        "rewards must be finite, got nan in step 1 of episode 1",
    ),
    (
        spoilt(actions=[0.0, np.nan]),
        "actions must be finite, got nan in step 1 of episode 1",
    ),
    (spoilt(actions=[1]), "actions must be as many as rewards, 2, got 1 in episode 1"),
    (
        spoilt(observations=np.zeros((3, 4))),
        "observations must have the same columns.*got 4 in episode 1 and 2",
    ),
    (
        spoilt(observations={"a": np.zeros((3, 2)), "b": np.zeros(2)}),
        "observations must have parts of one length",
    ),
    (
        spoilt(observations=[{"a": 0}, {"b": 0}, {"a": 0}]),
        r"observations must have the keys \['a'\].*got {'b'",
    ),
    (
        spoilt(next_observations=[[0, 0]]),
        "next_observations must be as many as rewards, 2, got 1 in episode 1",
    ),
    (
        spoilt(next_observations=np.zeros((2, 3))),
        "next_observations must have the same columns.*got 3 in episode 1",
    ),
    (
        spoilt(terminations=[True, False]),
        "terminations must be False before the last step.*step 0 of episode 1",
    ),
    (
        spoilt(truncations=[True, False]),
        "truncations must be False before the last step of an episode",
    ),
    (
        spoilt(terminations=[True] * 3),
        r"terminations must be one or 2, got shape \(3,\) in episode 1",
    ),
]
ARRAYS = {
    "observations": np.zeros((4, 2)),
    "actions": [0, 1, 0, 1],
    "rewards": np.ones(4),
    "terminals": [0, 1, 0, 1],
}
FLAT = [
    ({"rewards": np.full(4, np.nan)}, "rewards must be finite, got nan in row 0"),
    ({"actions": np.zeros(3)}, "actions must be one for each of the 4 rows"),
    (
        {"terminals": np.full(4, 2)},
        "terminals must be booleans, or 0 and 1, got .*2.* in row 0",
    ),
    (
        {"terminals": np.zeros(4), "timeouts": np.ones(4)},
        "observations must have a row that has a successor or is",
    ),
]

STREAM = [  # of ActionValueEstimator.partial_fit
    (
        {"actions": actions},
        "actions must be a list of the labels of all actions, got " + got,
    )
    for actions, got in ((2, "2"), ([], r"\[\]"), ({0, 1}, "{"), ([[0, 1]], r"\[\["))
] + [
    ({"actions": [0, 0.5]}, "actions must be labels of a finite choice, got 0.5"),
    ({"solver": "bogus"}, "solver must be one of .*'lstd', got 'bogus'"),
    ({"solver": 3}, "solver must be a solver or one of .*'lstd'], got 3"),
]


def action_stream(solver="auto", **given):
    estimator = ActionValueEstimator(lambda X: [0] * len(X), solver=solver)
    return estimator.partial_fit(**ACTIONS, **given)


TABLES = [
    (action_stream, STREAM),
    (lambda **params: BellmanValueEstimator(**params).fit(**LOG), VALUE),
    (fit, SINGLE),
    (lambda **given: FITTED.value_interval(LOG["X"], **given), CONFIDENCE),
    (lambda **params: ActionValueEstimator(**params).fit(**ACTIONS), POLICY),
    (
        lambda action: ActionValueEstimator().fit(**LOG, action=action),
        [({"action": a}, m) for a, m in ACTION],
    ),
    (
        ActionValueEstimator([0, 1]).fit,
        [(BRIEF, "policy must have a row for each state, got 2 rows and state -1")],
    ),
    (ActionValueEstimator(gamma=0.5).fit(**ACTIONS).score, SCORED),
    (
        ActionValueEstimator(lambda X: [0] * len(X)).partial_fit,
        [(MANY, "at most 4000 features .* all actions")],
    ),
    (value_of, OFF_POLICY),
    (ratios, RATIOS),
    (
        lambda args: MarkovRewardProcess(*args),
        [({"args": args}, message) for args, message in MODEL],
    ),
    (
        transitions_from_episodes,
        [({"episodes": wrong}, message) for wrong, message in EPISODES],
    ),
    (lambda **changes: transitions_from_arrays(**ARRAYS | changes), FLAT),
]


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [(call, *row) for call, rows in TABLES for row in rows],
)
def test_arguments_are_refused(call, given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(**given)
