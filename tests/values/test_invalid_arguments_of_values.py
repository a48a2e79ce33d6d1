"""Arguments of values, of off-policy evaluation, of models and of logs that contradict
each other: one table. Those of a wrong type are in tests/package."""

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


def as_labels(X):
    return [0] * len(X)


# data of fit, partial_fit and score
LABELLED = {"next_X": None, "episode": EPISODE}
DATA = [
    ({"y": put(LOG["y"], 4, np.inf)}, "y must be finite, got inf in row 4"),
    ({"y": LOG["y"].astype(str).astype(object)}, "y must be numbers, got array"),
    ({"y": [None] * N}, "y must be finite, got nan in row 0"),
    ({"next_X": LOG["X"][:, :2]}, "next_X must have the columns of X"),
    ({"next_X": LOG["X"][:4]}, r"next_X must be of shape \(12, 3\), as X is"),
    ({"next_X": put(LOG["X"], 3, np.inf)}, "next_X must be finite where not terminal"),
    ({"time": ROWS}, "time must be None if next_X is given"),
    ({"next_X": None, "time": ROWS + 0.5}, "time must be whole numbers or dates"),
    ({"next_X": None, "time": ROWS // 2}, "time must (have distinct|increase).*0"),
    (LABELLED | {"time": STEP // 2}, "distinct values .*got 0 in rows 0 and 1$"),
    ({"episode": np.zeros(3)}, r"episode must be one label for each of the 12 rows"),
    ({"episode": put(EPISODE, 7, np.nan)}, "label in each row, got nan in row 7"),
    ({"episode": np.zeros(N)}, "terminal must be the last row of an episode, got row"),
    ({"sample_weight": put(ROWS, 1, -1)}, "sample_weight must be .*got -1.0 in row 1"),
]


def test_data_of_states_are_refused_and_nothing_changes():
    value = BellmanValueEstimator(0.9).fit(**LOG)
    before = pickle.dumps(value)
    for data, message in DATA:
        for method in (value.fit, value.partial_fit, value.score):
            with pytest.raises(ValueError, match=message):
                method(**LOG | data)
    assert pickle.dumps(value) == before


def value(data=None, method="fit", **params):
    estimator = BellmanValueEstimator(**{"gamma": 0.9} | params)
    estimator = estimator.fit(**LOG) if method == "score" else estimator
    return getattr(estimator, method)(**LOG | (data or {}))


TIMED = {"next_X": None, "time": 2 * ROWS, "terminal": ROWS < 0}
TINY = {"objective": "projected", "fit_intercept": False}
TINY |= {"data": {name: 1e-170 * LOG[name] for name in ("X", "next_X")}}
STREAM = {"method": "partial_fit"}
WIDE = STREAM | {"data": {name: np.zeros((N, 4000)) for name in ("X", "next_X")}}
VALUE = [
    ({"solver": "newton"}, "solver must be one of 'storm-c'.*'auto', 'lstd', got"),
    ({"solver": STORMCompositional}, r"got a class: give STORMCompositional\(\)"),
    ({"trace_decay": 0.7, "solver": "storm-c"}, "trace_decay must be 0 unless solver"),
    ({"trace_decay": 0.7, "objective": "bellman"}, "trace_decay must be 0 with"),
    ({"data": {"sample_weight": 0 * ROWS}}, "sample_weight must have a positive entry"),
    ({"data": TIMED}, "X must have a usable transition"),
    ({"data": TIMED, "method": "score"}, "X must have a transition"),
    ({"data": {"next_X": None}, "method": "score"}, "must be given for transitions"),
    ({"data": {"X": 1e200 * LOG["X"]}}, "X, y and sample_weight must have finite"),
    (TINY, "X must have features whose squares"),
    (WIDE | {"solver": "lstd"}, "at most 4000 features .*got 4001"),
    (STREAM | {"objective": "bellman"}, "objective must be"),
    (STREAM | {"gamma": 1, "solver": "storm-c"}, "gamma must be < 1 for partial_fit"),
]

ACTIONS = LOG | {"action": ROWS % 2}
POLICY = [
    ({"policy": [0, 1]}, "policy is an array for 2 states.*3 columns that are neither"),
    ({"policy": lambda X: np.ones(3)}, "policy must give an action.*got shape"),
    ({"policy": lambda X: np.full(len(X), 7)}, r"among.*\[0, 1\].*got 7 in row 0"),
    ({"policy": lambda X: np.full((len(X), 2), 0.4)}, ">= 0 that sum to 1.*0.4.*row 0"),
    ({"policy": lambda X: np.ones((len(X), 3)) / 3}, "give probabilities of"),
    ({"solver": "storm-c"}, "solver must be 'auto' or 'lstd' with policy='greedy'"),
]
ACTION = [
    ({"action": put(ROWS, 5, np.nan)}, "action must be finite, got nan in row 5"),
    ({"action": put(ROWS, 5, 0.25)}, "labels of a finite choice, got 0.25 in row 5"),
    ({"action": ROWS[:, None]}, r"action must be one label.*shape \(12, 1\)"),
]
BRIEF = {"X": [[0], [1]], "y": [0, 1], "action": [0, 1], "next_X": [[1], [-1]]}
SCORED = [
    ({"action": put(ROWS % 2, 1, 2)}, "among those that fit had.*got 2 in row 1"),
    ({"action": None}, "action must be given, the action of each row"),
    ({"next_X": None, "terminal": None}, "next_X and terminal must be given to score"),
]
MANY = {"X": np.ones((2, 1400)), "y": [0.0, 1.0], "terminal": [True, True]}
CHUNK = [
    ({"actions": 2}, "actions must be a list of the labels of all actions, got 2"),
    ({"actions": []}, r"actions must be a list of the labels of all actions, got \[\]"),
    ({"actions": [0, 0.5]}, "actions must be labels of a finite choice, got 0.5"),
    (MANY | {"next_X": None, "action": [0, 1], "actions": [0, 1, 2]}, "at most 4000"),
]

RETURNS = {"y": np.ones(9), "importance_ratio": np.ones(9), "episode": ROWS[:9] // 3}
Q = {"method": "dr", "X": np.eye(9), "action": ROWS[:9] % 2}
Q |= {"target": np.full((9, 2), 0.5), "terminal": ROWS[:9] % 3 == 2}
SAMPLED = ActionValueEstimator(solver="storm-c")
OFF_POLICY = [
    ({"importance_ratio": np.zeros(9)}, "importance_ratio must be positive"),
    ({"time": np.zeros(9, dtype=int)}, "distinct values within an episode"),
    ({"method": "dr"}, "X must be given for the methods 'dr' and 'wdr'.*pass the"),
    (Q | {"action": None}, "action must be given for the methods.*of each row.*'pdis'"),
    (Q | {"target": None}, r"target must be given .*\(n_transitions, n_actions"),
    (Q | {"estimator": SAMPLED}, "estimator must be an .*with solver='auto'"),
    (Q | {"target": np.full((9, 3), 1 / 3)}, "of the actions .*0, 1.*got .*9, 3"),
    (Q | {"target": np.full((9, 2), 0.4)}, "target must have .* sum to 1"),
    (Q | {"target": lambda X: np.full(len(X), 7)}, "must be among .*got 7 in row 0"),
    (Q | {"X": np.eye(9)[:4]}, "X must have 9 rows, as y has, got 4"),
    (Q | {"time": np.tile([0, 1, 3], 3)}, "next_X must .*gaps: row 1 is"),
]
X, TAKEN = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
GIVEN = {"X": X, "action": TAKEN, "target": np.full((60, 3), 1 / 3)}
GIVEN |= {"classifier": LogisticRegression()}
TREE = DecisionTreeClassifier()
RATIOS = [
    ({"classifier": RidgeClassifier()}, "classifier with predict_proba, got"),
    ({"classifier": TREE}, "a positive probability, got 0 for . in row"),
    ({"action": TAKEN[:-1]}, "X and action must have as many rows, got 60 and 59"),
    ({"action": put(TAKEN, 7, 9)}, "two rows of each, got 1 of 9 and 4 in all"),
    ({"target": np.ones((60, 2))}, r"of the actions .*0, 1, 2.*shape \(60, 2\)"),
    ({"target": np.full((60, 3), 0.3)}, ">= 0 that sum .*0.9 in row 0"),
    ({"target": put(0.5 + 0 * TAKEN, 5, -0.1)}, "from 0 to 1, got .*-0.1.* in row 5"),
    ({"episode": 0 * TAKEN}, "episode must have at least 2 different labels, got 1"),
    ({"episode": TAKEN}, "in episodes of several folds, got . in those of one fold"),
]

TWO = {"transition_matrix": np.eye(3), "rewards": np.zeros(3)}
NEGATIVE = sparse.csr_array([[0.5, 0.5, 0], [0, 1, 0], [-0.5, 1.5, 0]])
MODEL = [
    ({"transition_matrix": np.diag([1, 0.9, 1])}, "sum to 1, got 0.9 in row 1"),
    ({"transition_matrix": np.diag([1, np.nan, 1])}, "finite.*got nan in row 1"),
    ({"transition_matrix": NEGATIVE}, "transition_matrix must have .*got -0.5 in row"),
    ({"rewards": np.zeros(2)}, r"rewards must be of shape \(3,\) or \(3, 3\), got"),
    ({"features": np.eye(2)}, r"features must be of shape \(3, n_features\), got"),
    ({"gamma": 1}, "gamma must be < 1 for a model, got 1"),
    ({"transition_matrix": np.eye(3)[:2], "rewards": [0, 0]}, "must be square"),
]
FIRST = {"observations": [[0.0, 1.0]] * 3, "actions": [0, 1], "rewards": [0.0, 1.0]}
PARTS = {"a": np.zeros((3, 2)), "b": np.zeros(2)}
EPISODES = [  # the second of two has a wrong part
    ({"rewards": [1.0, np.nan]}, "rewards must be finite, got nan in step 1 of"),
    ({"actions": [0.0, np.nan]}, "actions must be finite, got nan in step 1 of"),
    ({"actions": [1]}, "as many as rewards, 2, got 1 in episode 1"),
    ({"observations": np.zeros((3, 4))}, "same columns.*got 4 in episode 1 and 2"),
    ({"observations": PARTS}, "observations must have parts of one length"),
    ({"observations": [{"a": 0}, {"b": 0}, {"a": 0}]}, r"the keys \['a'\].*got {'b'"),
    ({"next_observations": [[0, 0]]}, "as many as rewards, 2, got 1 in episode 1"),
    ({"next_observations": np.zeros((2, 3))}, "same columns.*got 3 in episode 1"),
    ({"terminations": [True, False]}, "False before the last step.*step 0 of"),
    ({"truncations": [True, False]}, "False before the last step of an episode"),
    ({"terminations": [True] * 3}, r"be one or 2, got shape \(3,\) in episode 1"),
]
ARRAYS = {"observations": np.zeros((4, 2)), "actions": [0, 1, 0, 1]}
ARRAYS |= {"rewards": np.ones(4), "terminals": [0, 1, 0, 1]}
ALL_CUT = {"terminals": np.zeros(4), "timeouts": np.ones(4)}
FLAT = [
    ({"rewards": np.full(4, np.nan)}, "rewards must be finite, got nan in row 0"),
    ({"actions": np.zeros(3)}, "actions must be one for each of the 4 rows"),
    ({"terminals": np.full(4, 2)}, "booleans, or 0 and 1, got .*2.* in row 0"),
    (ALL_CUT, "observations must have a row that has a successor or is"),
]

FITTED = BellmanValueEstimator(0.9).fit(**LOG, episode=EPISODE)
TABLES = [
    (value, VALUE),
    (lambda **given: FITTED.value_interval(LOG["X"], **given), [
        ({"confidence": 1.5}, "confidence must be"),
    ]),
    (lambda **params: ActionValueEstimator(**params).fit(**ACTIONS), POLICY),
    (lambda **given: ActionValueEstimator().fit(**ACTIONS | given), ACTION),
    (ActionValueEstimator([0, 1]).fit, [
        (BRIEF, "policy must have a row for each state, got 2 rows and state -1"),
    ]),
    (lambda **given: ActionValueEstimator().fit(**ACTIONS).score(**ACTIONS | given), SCORED),
    (lambda **given: ActionValueEstimator(as_labels).partial_fit(**ACTIONS | given), CHUNK),
    (lambda **given: off_policy_value(**RETURNS | given), OFF_POLICY),
    (lambda **given: estimated_ratios(**GIVEN | given), RATIOS),
    (lambda **given: MarkovRewardProcess(**TWO | given), MODEL),
    (lambda **parts: transitions_from_episodes([FIRST, FIRST | parts]), EPISODES),
    (transitions_from_episodes, [
        ({"episodes": FIRST}, "episodes must be a sequence of episodes"),
        ({"episodes": [3]}, "got episode 0 without observations and actions"),
    ]),
    (lambda **given: transitions_from_arrays(**ARRAYS | given), FLAT),
]  # fmt: skip


@pytest.mark.parametrize("call, rows", TABLES, ids=range(len(TABLES)))
def test_arguments_are_refused(call, rows):
    for given, message in rows:
        with pytest.raises((TypeError, ValueError), match=message):
            call(**given)
