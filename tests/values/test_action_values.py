"""Values of actions: exact on known models, LSPI's best policies, streams, and what
scikit-learn asks for."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from value_logs import fed, messages, some, with_ones

from sk_stormc import ActionValueEstimator, BellmanValueEstimator

TABULAR = {"fit_intercept": False}


def model(seed=0, n=6, m=3):
    """Transition probabilities (n, m, n), rewards (n, m) and, for all triples, state,
    action, successor and weight."""
    rng = np.random.default_rng(seed)
    P, R = rng.dirichlet(np.full(n, 0.5), (n, m)), rng.normal(size=(n, m))
    s, a, t = (part.ravel() for part in np.indices((n, m, n)))
    return P, R, s, a, t, P[s, a, t]


def exact_values(P, R, chances, gamma):
    """Q of a policy."""
    n, m = R.shape
    V = np.linalg.solve(
        np.eye(n) - gamma * np.einsum("sa,sat->st", chances, P), (chances * R).sum(1)
    )
    return R + gamma * P @ V


def value_iteration(P, R, gamma, ends=()):
    """Q of the best policy; nothing comes after the states ``ends``."""
    Q = np.zeros(R.shape)
    for _ in range(10_000):
        V = Q.max(1)
        V[list(ends)] = 0
        Q, before = R + gamma * P @ V, Q
        if abs(Q - before).max() < 1e-13:
            return Q
    raise AssertionError("value iteration has not converged")


def fit(estimator, log, **more):
    P, R, s, a, t, weights = log
    eye = np.eye(len(P))
    return estimator.fit(
        eye[s], R[s, a], action=a, next_X=eye[t], sample_weight=weights, **more
    )


def given_policies(n, m):
    rng = np.random.default_rng(5)
    chances, does = rng.dirichlet(np.ones(m), n), rng.integers(m, size=n)
    taken = np.eye(m)[does]
    return {
        "probabilities": (chances, chances),
        "actions": (does, taken),
        "function, probabilities": (lambda X: chances[X.argmax(axis=1)], chances),
        "function, actions": (lambda X: does[X.argmax(axis=1)], taken),
    }


def test_values_of_a_given_policy_are_exact_on_a_known_model():
    log = model()
    for policy, chances in given_policies(6, 3).values():
        q = fit(ActionValueEstimator(policy, 0.9, **TABULAR), log)
        expected = exact_values(*log[:2], chances, 0.9)
        np.testing.assert_allclose(q.predict(np.eye(6)), expected, atol=1e-9)
        best = expected.argmax(axis=1)
        np.testing.assert_array_equal(q.predict_action(np.eye(6)), best)
        assert q.stop_reason_ == "converged" and not hasattr(q, "policy_changes_")


@pytest.mark.parametrize("sparse_output", [True, False])
def test_iterative_solvers_end_at_the_exact_values(sparse_output):
    P, R, s, a, t, weights = model(n=10, m=2)
    policy, features = np.arange(10) % 2, OneHotEncoder(sparse_output=sparse_output)
    values = []
    for solver in ("lstd", "storm-c", "sarah-c"):
        q = ActionValueEstimator(
            policy, 0.8, solver, features=features, alpha=0.01, tol=1e-10,
            random_state=0, **TABULAR,
        ).fit(
            s[:, None], R[s, a], action=a, next_X=t[:, None], sample_weight=weights
        )  # fmt: skip
        values.append(q.coef_)
    np.testing.assert_allclose(values[1:], [values[0]] * 2, atol=1e-5)


@pytest.mark.parametrize("n, m", [(12, 4), (9, 60)])  # the last by blocks of actions
def test_greedy_is_policy_iteration(n, m):
    log = model(0, n, m)
    q = fit(ActionValueEstimator(gamma=0.95, **TABULAR), log)
    expected = value_iteration(*log[:2], 0.95)
    np.testing.assert_allclose(q.predict(np.eye(n)), expected, rtol=1e-8, atol=1e-8)
    changes = q.policy_changes_
    assert q.stop_reason_ == "converged" and (changes[0], changes[-1]) == (1, 0)
    assert len(changes) == q.n_iter_ == len(q.loss_curve_) - 1 == len(q.ifo_) - 1
    assert q.loss_curve_[0] > 0 and q.ifo_[0] == 0


def test_what_was_never_done_in_a_state_is_not_chosen():
    """All rewards are negative, so that 0, what is left of an unknown value, would look
    best."""
    s, a = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 0])
    t, y = np.array([1, 0, 0, 1]), np.array([-1.0, -2.0, -1.0, -1.0])
    q = ActionValueEstimator(gamma=0.5, **TABULAR).fit(
        np.eye(2)[s], y, action=a, next_X=np.eye(2)[t]
    )
    assert q.predict(np.eye(2))[1, 1] == 0 > q.predict(np.eye(2))[1, 0]
    assert list(q.predict_action(np.eye(2))) == [0, 0]
    np.testing.assert_allclose(q.predict(np.eye(2)), [[-2, -3], [-2, 0]], rtol=1e-9)
    for solver in ("auto", "storm-c"):
        with pytest.warns(UserWarning, match="50% of the successors the"):
            fit = ActionValueEstimator([0, 1], 0.5, solver, **TABULAR).fit
            fit(np.eye(2)[s], y, action=a, next_X=np.eye(2)[t])


def test_policies_that_do_not_converge_warn():
    """Four states with one feature: the best action for the values of either policy is
    that of the other."""
    P = [
        [[9, 0, 0, 1], [0, 7, 3, 0]], [[4, 0, 5, 1], [1, 1, 7, 1]],
        [[10, 0, 0, 0], [0, 0, 10, 0]], [[0, 3, 1, 6], [5, 4, 1, 0]],
    ]  # fmt: skip
    R = np.array([[0.1, -0.3], [1.7, 0.9], [0.3, 0.7], [-2.0, 0.6]])
    s, a, t = (part.ravel() for part in np.indices((4, 2, 4)))
    X = np.array([[-1.0], [-0.5], [-0.5], [0.0]])
    q = ActionValueEstimator(gamma=0.9, **TABULAR)
    with pytest.warns(ConvergenceWarning, match="after 50 policies.*changes in .*%"):
        q.fit(
            X[s], R[s, a], action=a, next_X=X[t], sample_weight=np.array(P)[s, a, t]
        )  # fmt: skip
    assert q.stop_reason_ == "max_iter" and q.n_iter_ == 50


@pytest.mark.parametrize(
    ("n", "seed"), [(2000, 6), (1000, 1)]
)  # converges after a new start, or as a mixture
def test_a_cycle_of_policies_ends(n, seed):
    """The chain walk of Lagoudakis and Parr with ten radial basis functions."""
    rng = np.random.default_rng(seed)
    s, a = rng.integers(50, size=n), rng.integers(2, size=n)
    t = np.clip(s + np.where((a == 1) != (rng.random(n) < 0.1), 1, -1), 0, 49)
    radial = FunctionTransformer(
        lambda X: np.exp(-0.5 * ((X - np.linspace(0, 49, 10)) / 4) ** 2)
    )
    q = ActionValueEstimator(gamma=0.9, features=radial)
    q.fit(s[:, None], np.isin(s, [9, 40]) * 1.0, action=a, next_X=t[:, None])
    assert q.stop_reason_ == "converged"


def test_ties_are_kept():
    """Two actions are the same: rounding must not move the policy from one to the other
    for ever."""
    P, R, s, a, t, _ = model(3, 8, 1)
    rng = np.random.default_rng(0)
    P, R = np.repeat(P, 3, axis=1), np.repeat(R, 3, axis=1)
    s, a, t = (part.ravel() for part in np.indices((8, 3, 8)))
    weights = P[s, a, t] * rng.random(3)[a]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = fit(ActionValueEstimator(gamma=0.999, **TABULAR), (P, R, s, a, t, weights))
    assert q.n_iter_ == 2


def cart(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X, a = rng.normal(size=(n, 3)), rng.integers(2, size=n)
    next_X = 0.8 * X + 0.2 * rng.normal(size=(n, 3)) + 0.3 * (2 * a[:, None] - 1)
    log = {"X": X, "y": -(next_X**2).sum(axis=1), "action": a, "next_X": next_X}
    return log | {"terminal": rng.random(n) < 0.05}


def test_policy_is_a_parameter_and_no_method():
    log = cart()
    first = ActionValueEstimator(gamma=0.8).fit(**log)
    # LSPI returns the values of its best policy
    again = ActionValueEstimator(first.predict_action, 0.8).fit(**log)
    values, actions = first.predict(log["X"]), first.predict_action(log["X"])
    np.testing.assert_allclose(again.predict(log["X"]), values, rtol=1e-8, atol=1e-8)
    assert first.policy == "greedy" and "policy" in repr(again)
    copied = clone(again)
    assert callable(copied.get_params()["policy"]) and not hasattr(copied, "coef_")
    assert copied.set_params(policy="greedy").get_params() == clone(first).get_params()
    loaded = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(loaded.predict_action(log["X"]), actions)


def test_labels_are_returned_and_frames_reach_the_policy():
    log, names = cart(), np.array(["left", "right"])
    named = {k: pd.DataFrame(log[k], columns=["a", "b", "c"]) for k in ("X", "next_X")}
    named = log | named | {"action": names[log["action"]].astype(object)}
    policy = lambda frame: np.where(frame["a"] > 0, "left", "right")  # noqa: E731
    q = ActionValueEstimator(policy, 0.8).fit(**named)
    plain = ActionValueEstimator(lambda X: (X[:, 0] <= 0).astype(int), 0.8).fit(**log)
    np.testing.assert_array_equal(q.coef_, plain.coef_)
    expected = names[plain.predict_action(log["X"])]
    np.testing.assert_array_equal(q.predict_action(named["X"]), expected)
    assert list(q.actions_) == ["left", "right"]
    assert q.score(**named) == plain.score(**log)


def test_td_errors_are_the_residuals_of_lstdq():
    log = cart()
    for policy in ("greedy", lambda X: (X[:, 0] > 0).astype(int)):
        q = ActionValueEstimator(policy, 0.8).fit(**log)
        error = q.td_error(**log)
        psi = np.zeros((400, 2, 4))
        psi[np.arange(400), log["action"]] = np.c_[log["X"], np.ones(400)]
        np.testing.assert_allclose(error @ psi.reshape(400, 8), 0, atol=1e-8)


@pytest.mark.parametrize("label", [None, "go"])
def test_one_action_has_the_values_of_states(label):
    log, value = cart(), BellmanValueEstimator(0.5, "lstd", objective="projected")
    log["episode"] = np.append(0, np.cumsum(log["terminal"])[:-1])
    del log["action"]
    expected = value.fit(**log).predict(log["X"], return_std=True)
    given = {} if label is None else {"action": np.full(400, label)}
    for policy, call in (
        ("greedy", "fit"), (lambda X: np.ones((len(X), 1)), "partial_fit")
    ):  # fmt: skip
        q = ActionValueEstimator(policy, 0.5)
        said = messages(getattr(q, call), **log, **given)
        assert any("all rows count as one action" in m for m in said) == (not label)
        assert q.actions_.tolist() == [label or 0]
        assert (q.predict_action(log["X"]) == (label or 0)).all()
        assert q.score(**log) == pytest.approx(value.score(**log), rel=1e-9)
        found = q.predict(log["X"], return_std=call == "fit")
        if call == "fit":
            found, std = found
            np.testing.assert_allclose(std[:, 0], expected[1], rtol=1e-9)
        np.testing.assert_allclose(found[:, 0], expected[0], rtol=1e-9)


def of_many_actions(n=2400, m=60, d=8, seed=0, ends=0.1):
    """More than 500 features of all actions together."""
    rng = np.random.default_rng(seed)
    X, action = rng.normal(size=(n, d)), np.arange(n) % m
    ends = rng.random(n) < ends
    return {
        "X": X,
        "y": X[:, 0] + np.cos(action) + rng.normal(size=n),
        "action": action,
        "next_X": 0.7 * X + 0.5 * rng.normal(size=(n, d)),
        "terminal": ends,
        "episode": np.append(0, np.cumsum(ends)[:-1]),
    }


SIDES = np.random.default_rng(1).normal(size=(8, 60))


def soft(X):
    chances = np.exp(X @ SIDES / 4)
    return chances / chances.sum(axis=1, keepdims=True)


def of_pairs(log, policy):
    """The features of state-action pairs, and of the next ones under a policy."""
    chances, (n, m) = policy(log["next_X"]), (len(log["y"]), log["action"].max() + 1)
    chances = np.eye(m)[chances] if chances.ndim == 1 else chances
    after = with_ones(log["next_X"]) * ~log["terminal"][:, None]
    both = (np.eye(m)[log["action"]], with_ones(log["X"])), (chances, after)
    return ((p[:, :, None] * Z[:, None]).reshape(n, -1) for p, Z in both)


@pytest.mark.parametrize(
    ("policy", "gamma"),
    [(soft, 0.0), (soft, 0.9), (lambda X: (X @ SIDES).argmax(axis=1), 1.0)],
)
def test_many_actions_are_solved_by_blocks_of_actions(policy, gamma):
    log, alpha = of_many_actions(), np.tile(np.append(np.full(8, 0.01), 0.0), 60)
    q = ActionValueEstimator(policy, gamma, alpha=0.01).fit(**log)
    psi, after = of_pairs(log, policy)
    n, difference = len(psi), psi - gamma * after
    A, b = psi.T @ difference / n + np.diag(alpha), psi.T @ log["y"] / n
    w = np.linalg.solve(A, b)
    np.testing.assert_allclose(
        np.column_stack([q.coef_, q.intercept_]).ravel(), w, rtol=1e-10, atol=1e-12
    )
    assert q.rank_ == len(w) and q.solver_ == "lstd" and q.condition_number_ < 100
    # the sandwich over episodes
    scores = np.zeros((log["episode"][-1] + 1, len(w)))
    np.add.at(scores, log["episode"], psi * (difference @ w - log["y"])[:, None] / n)
    m = len(scores)
    scores -= scores.mean(axis=0)
    covariance = np.linalg.solve(A, np.linalg.solve(A, scores.T @ scores).T)
    covariance *= m / (m - 1) * (n - 1) / (n - len(w))
    expected = np.sqrt(np.einsum("ij,jk,ik->i", psi[:30], covariance, psi[:30]))
    std = q.predict(log["X"][:30], return_std=True)[1]
    np.testing.assert_allclose(
        std[np.arange(30), log["action"][:30]], expected, rtol=1e-6
    )


def test_many_actions_that_the_log_determines_too_little():
    log, n = of_many_actions(n=1200), 1200
    best, third = (lambda X: (X @ SIDES).argmax(axis=1)), lambda X: np.full(len(X), 3)
    never, trap = np.zeros(n, bool), log["terminal"] & (log["action"] != 3)
    noise = 10 * np.random.default_rng(2).normal(size=log["X"].shape)
    few = "residual of .* is left. Half of .* at most 20 rows.*Set alpha"
    for policy, gamma, changes, message in (
        (best, 1.0, {"terminal": never}, "gamma must be a number < 1, got 1"),
        # no episode ends from an action
        (third, 1.0, {"terminal": trap}, "gamma must be a number < 1, got 1"),
        (best, 0.99, {"next_X": noise}, few),
    ):
        q = ActionValueEstimator(policy, gamma)
        with pytest.raises(ValueError, match=message):
            q.fit(**log | {"episode": None} | changes)
    grown = of_many_actions(n=6000)
    with pytest.warns(ConvergenceWarning, match="The values do not exist"):
        q.fit(**grown | {"next_X": 1.6 * grown["X"]})
    # one row of an action: coefficients stay in its direction
    rare = log | {"action": np.where(log["action"] == 7, 8, log["action"])}
    rare["action"][7] = 7
    q = ActionValueEstimator(soft, 0.9).fit(**rare)
    np.testing.assert_allclose(q.td_error(**rare)[7], 0.0, atol=1e-9)
    parts = q.coef_[7] * log["X"][7]  # coefficients in units of the features
    np.testing.assert_allclose(parts, q.intercept_[7], atol=1e-9)
    assert q.rank_ == 59 * 9 + 1


STATES = 6


def transitions(n=400, seed=0):
    rng = np.random.default_rng(seed)
    s, action = rng.integers(STATES, size=n), rng.integers(3, size=n)
    to = np.clip(s + action - 1, 0, STATES - 1)
    names = np.array(["left", "stay", "right"])
    return {
        "X": s[:, None].astype(float), "y": rng.normal(size=n) + to,
        "action": names[action],
        "next_X": to[:, None].astype(float), "terminal": rng.random(n) < 0.1,
    }  # fmt: skip


def right(X):
    return np.full(len(X), "right")


CHANCES = np.random.default_rng(1).dirichlet(np.ones(3), size=STATES)
LABELS = np.array(["left", "right", "stay"])[np.arange(STATES) % 3]


@pytest.mark.parametrize("policy", [right, CHANCES, LABELS], ids=range(3))
def test_chunks_are_as_all_at_once(policy):
    parts, states = transitions(), np.arange(STATES)[:, None].astype(float)
    one_hot = OneHotEncoder(categories=[np.arange(STATES)])
    q = ActionValueEstimator(policy, 0.9, features=one_hot, alpha=1e-3)
    expected = clone(q).fit(**parts).predict(states)
    q.partial_fit(**some(parts, slice(1)), actions=["stay", "right", "left"])
    fed(q, 90, **some(parts, slice(1, None)))
    np.testing.assert_allclose(q.predict(states), expected, rtol=1e-6, atol=1e-8)
    best = q.actions_[expected.argmax(axis=1)]
    np.testing.assert_array_equal(q.predict_action(states), best)
    assert q.score(**parts) == pytest.approx(-np.mean(q.td_error(**parts) ** 2))
    assert q.ifo_[-1] == 2 * 400 + 1 and not hasattr(q, "policy_changes_")


def test_a_stream_begins_anew_after_fit():
    parts = transitions()
    q = ActionValueEstimator(CHANCES, 0.9).fit(**transitions(seed=9))
    expected = q.partial_fit(**parts).coef_
    np.testing.assert_allclose(expected, clone(q).fit(**parts).coef_, rtol=1e-7)
    again = pickle.loads(pickle.dumps(q)).partial_fit(**transitions(seed=5)).coef_
    np.testing.assert_array_equal(q.partial_fit(**transitions(seed=5)).coef_, again)


def test_a_stream_has_no_greedy_policy_and_no_other_solver():
    for q, message in (
        (ActionValueEstimator(), "'greedy' evaluates several policies on all transition"),
        (ActionValueEstimator(right, solver="storm-c"), "for partial_fit set solver='auto'"),
    ):  # fmt: skip
        assert not hasattr(q, "partial_fit")
        with pytest.raises(AttributeError, match=message):
            q.partial_fit(**transitions())


def test_what_stays_and_what_is_refused():
    parts, states = transitions(), np.arange(STATES)[:, None].astype(float)
    q = ActionValueEstimator(CHANCES, 0.9).partial_fit(**parts)
    before = q.predict(states)
    after = q.set_params(policy=CHANCES.copy()).predict(states)
    np.testing.assert_array_equal(after, before)
    odd = {"action": np.where(np.arange(400) == 8, "jump", parts["action"])}
    for changes, message in (
        (odd, "action must be among the actions of this stream, .* got 'jump' in row"),
        ({"actions": ["left", "up"]}, "actions must stay .* goes on, got .*'up'"),
        ({"action": None}, "action must be given, the action of each row, got None"),
    ):
        with pytest.raises(ValueError, match=message):
            q.partial_fit(**parts | changes)
    for name, value in (("gamma", 0.5), ("policy", right), ("fit_intercept", False)):
        other = pickle.loads(pickle.dumps(q)).set_params(**{name: value})
        with pytest.raises(ValueError, match=f"{name} must stay .* while its stream"):
            other.partial_fit(**parts)
    np.testing.assert_array_equal(q.predict(states), before)
