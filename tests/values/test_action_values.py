"""Values of actions: exact on known models, LSPI's best policies, and ActionValueEstimator as its user sees it."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, SplineTransformer, StandardScaler

from sk_stormc import ActionValueEstimator, BellmanValueEstimator

TABULAR = {"fit_intercept": False}


def model(seed=0, n=6, m=3):
    """Transition probabilities (n, m, n), rewards (n, m) and, for all triples, state, action, successor and weight."""
    rng = np.random.default_rng(seed)
    P, R = rng.dirichlet(np.full(n, 0.5), (n, m)), rng.normal(size=(n, m))
    s, a, t = (part.ravel() for part in np.indices((n, m, n)))
    return P, R, s, a, t, P[s, a, t]


def exact_values(P, R, chances, gamma):
    """Q of a policy."""
    n, m = R.shape
    V = np.linalg.solve(np.eye(n) - gamma * np.einsum("sa,sat->st", chances, P), (chances * R).sum(1))
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
    return estimator.fit(eye[s], R[s, a], action=a, next_X=eye[t], sample_weight=weights, **more)


# what is found


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


@pytest.mark.parametrize("kind", given_policies(6, 3))
@pytest.mark.parametrize("solver", ["lstd", "storm-c", "lbfgs"])
def test_values_of_a_given_policy_are_exact_on_a_known_model(kind, solver):
    log = model()
    policy, chances = given_policies(6, 3)[kind]
    tol = None if solver == "lstd" else 1e-10
    q = fit(ActionValueEstimator(policy, 0.9, solver, tol=tol, random_state=0, **TABULAR), log)
    expected = exact_values(*log[:2], chances, 0.9)
    np.testing.assert_allclose(q.predict(np.eye(6)), expected, atol=1e-9 if solver == "lstd" else 1e-4)
    np.testing.assert_array_equal(q.policy(np.eye(6)), expected.argmax(axis=1))
    assert q.stop_reason_ == "converged" and not hasattr(q, "policy_changes_")


@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_policy_iteration(seed):
    log = model(seed, 12, 4)
    q = fit(ActionValueEstimator(gamma=0.95, **TABULAR), log)
    np.testing.assert_allclose(q.predict(np.eye(12)), value_iteration(*log[:2], 0.95), atol=1e-8)
    assert q.stop_reason_ == "converged" and q.policy_changes_[-1] == 0 and q.policy_changes_[0] == 1
    assert len(q.policy_changes_) == q.n_iter_ == len(q.loss_curve_) - 1 == len(q.ifo_) - 1
    assert q.loss_curve_[0] > 0 and q.ifo_[0] == 0


def test_states_are_numbers_of_an_array_or_indicators():
    P, R, s, a, t, weights = model()
    does = np.array([2, 0, 1, 1, 2, 0])
    indicators = fit(ActionValueEstimator(does, 0.9, **TABULAR), (P, R, s, a, t, weights))
    numbers = ActionValueEstimator(does, 0.9, features=OneHotEncoder(), **TABULAR)
    numbers.fit(s[:, None], R[s, a], action=a, next_X=t[:, None], sample_weight=weights)
    np.testing.assert_allclose(numbers.predict(np.arange(6)[:, None]), indicators.predict(np.eye(6)), rtol=1e-9)


def test_the_mean_over_actions_is_the_value_of_the_state():
    """Of the policy that acted, from the same rows: with indicators both are exact for the estimated model."""
    rng, chances = np.random.default_rng(0), np.array([[0.3, 0.7], [0.6, 0.4], [0.5, 0.5]])
    s, t, y = rng.integers(3, size=600), rng.integers(3, size=600), rng.normal(size=600)
    a = (rng.random(600) < chances[s, 1]).astype(int)
    seen = np.array([[np.mean(a[s == k] == b) for b in range(2)] for k in range(3)])  # not quite the probabilities
    q = ActionValueEstimator(seen, 0.9, **TABULAR).fit(np.eye(3)[s], y, action=a, next_X=np.eye(3)[t])
    value = BellmanValueEstimator(0.9, "lstd", **TABULAR).fit(np.eye(3)[s], y, next_X=np.eye(3)[t])
    mean = (seen * q.predict(np.eye(3))).sum(axis=1)
    np.testing.assert_allclose(mean, value.predict(np.eye(3)), rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.01])
def test_solvers_agree_with_lstdq_in_plain_numpy(alpha):
    rng = np.random.default_rng(1)
    X, next_X, y, a = rng.normal(size=(300, 3)), rng.normal(size=(300, 3)), rng.normal(size=300), np.arange(300) % 2
    terminal, weights = rng.random(300) < 0.1, rng.random(300)

    def policy(X):
        return (X[:, 0] > 0).astype(int)

    psi, after = np.zeros((2, 300, 2, 4))
    psi[np.arange(300), a] = np.c_[X, np.ones(300)]
    after[np.arange(300), policy(next_X)] = np.c_[next_X, np.ones(300)] * ~terminal[:, None]
    psi, after, d = psi.reshape(300, 8), after.reshape(300, 8), weights / weights.sum()
    A = (psi * d[:, None]).T @ (psi - 0.8 * after) + alpha * np.diag([1, 1, 1, 0] * 2)
    expected = np.linalg.solve(A, psi.T @ (d * y)).reshape(2, 4)
    for solver in ("lstd", "storm-c", "sarah-c"):
        q = ActionValueEstimator(policy, 0.8, solver, alpha=alpha, tol=1e-10, max_iter=20_000, random_state=0)
        q.fit(X, y, action=a, next_X=next_X, terminal=terminal, sample_weight=weights)
        np.testing.assert_allclose(np.c_[q.coef_, q.intercept_], expected, atol=1e-5)


# control


def chain(n, goals, n_rows, seed):
    """The chain walk of Lagoudakis and Parr: left and right do the opposite with probability .1; goals give 1."""
    rng = np.random.default_rng(seed)
    s, a = rng.integers(n, size=n_rows), rng.integers(2, size=n_rows)
    right = (a == 1) != (rng.random(n_rows) < 0.1)
    t = np.clip(s + np.where(right, 1, -1), 0, n - 1)
    P = np.zeros((n, 2, n))
    for k in range(n):
        for way, chance in ((0, (0.9, 0.1)), (1, (0.1, 0.9))):
            P[k, way, max(k - 1, 0)] += chance[0]
            P[k, way, min(k + 1, n - 1)] += chance[1]
    R = np.repeat(np.isin(np.arange(n), goals)[:, None], 2, axis=1).astype(float)
    return P, R, s, a, t


@pytest.mark.parametrize("seed", range(3))
def test_chain_walk_of_20_states(seed):
    """Polynomials of degree 4 for each action, as in the paper: the best policy in all states."""
    P, R, s, a, t = chain(20, [0, 19], 5000, seed)
    q = ActionValueEstimator(gamma=0.9, features=make_pipeline(StandardScaler(), PolynomialFeatures(4)),
                             fit_intercept=False)
    q.fit(s[:, None], R[s, a], action=a, next_X=t[:, None])
    best = value_iteration(P, R, 0.9)
    np.testing.assert_array_equal(q.policy(np.arange(20)[:, None]), best.argmax(axis=1))
    np.testing.assert_array_equal(best.argmax(axis=1), np.arange(20) >= 10)


def loss_of(P, R, actions, gamma):
    """How much less a policy is worth than the best one, at most, over the best value."""
    best = value_iteration(P, R, gamma)
    return (best.max(1) - exact_values(P, R, np.eye(2)[actions], gamma).max(1)).max() / best.max()


@pytest.mark.parametrize("seed", range(3))
def test_chain_walk_of_50_states(seed):
    """Ten radial basis functions for each action: a policy that is worth as much as the best one, to 1 %."""
    P, R, s, a, t = chain(50, [9, 40], 10_000, seed)
    centres = np.linspace(0, 49, 10)

    class Radial(OneHotEncoder):
        def fit(self, X, y=None):
            return self

        def transform(self, X):
            return np.exp(-0.5 * ((X - centres) / 4) ** 2)

    q = ActionValueEstimator(gamma=0.9, features=Radial())
    q.fit(s[:, None], R[s, a], action=a, next_X=t[:, None])
    assert loss_of(P, R, q.policy(np.arange(50)[:, None]), 0.9) < 0.01
    assert loss_of(P, R, np.zeros(50, int), 0.9) > 0.5


@pytest.mark.parametrize("name, gamma", [("FrozenLake-v1", 0.95), ("FrozenLake8x8-v1", 0.99), ("CliffWalking-v1", 0.9)])
def test_environments_that_publish_their_model(name, gamma):
    """The transitions of the model, weighted by their probabilities: value iteration's values and policy."""
    gymnasium = pytest.importorskip("gymnasium")
    published = gymnasium.make(name).unwrapped.P
    moves = np.array([(s, a, *move) for s in published for a in published[s] for move in published[s][a]], float)
    s, a, weights, t, y, end = moves.T
    s, a, t, end = s.astype(int), a.astype(int), t.astype(int), end > 0
    n, m = len(published), len(published[0])
    P, R = np.zeros((n, m, n)), np.zeros((n, m))
    np.add.at(P, (s, a, t), weights)
    np.add.at(R, (s, a), weights * y)
    best = value_iteration(P, R, gamma, np.unique(t[end]))
    q = ActionValueEstimator(gamma=gamma, **TABULAR)
    q.fit(np.eye(n)[s], y, action=a, next_X=np.eye(n)[t], terminal=end, sample_weight=weights)
    states = np.setdiff1d(np.arange(n), t[end])
    np.testing.assert_allclose(q.predict(np.eye(n))[states], best[states], atol=1e-8)
    does = q.policy(np.eye(n))[states]
    np.testing.assert_allclose(best[states, does], best[states].max(axis=1), atol=1e-8)  # several may be best
    clear = (best[states] < best[states].max(axis=1, keepdims=True) - 1e-6).sum(axis=1) == m - 1
    np.testing.assert_array_equal(does[clear], best[states].argmax(axis=1)[clear])
    assert clear.any()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [301, 302])
def test_a_pole_is_balanced_from_random_transitions(seed):
    """195 steps on average from 20,000 random transitions; most policies reach more than 450, and 500 is the most."""
    gymnasium = pytest.importorskip("gymnasium")
    from sk_stormc.datasets import collect_transitions

    log = collect_transitions("CartPole-v1", n_transitions=20_000, seed=seed)
    features = make_pipeline(StandardScaler(), SplineTransformer(5, extrapolation="linear"))
    q = ActionValueEstimator(gamma=0.95, features=features, alpha=1e-4)
    q.fit(log.X, log.y, action=log.action, next_X=log.next_X, terminal=log.terminal)
    steps, up = np.zeros(20), np.arange(20)
    poles = [gymnasium.make("CartPole-v1") for _ in up]
    seen = np.array([pole.reset(seed=k)[0] for k, pole in enumerate(poles)])
    while len(up):
        steps[up] += 1
        came = [poles[k].step(int(action)) for k, action in zip(up, q.policy(seen[up]), strict=True)]
        seen[up] = [step[0] for step in came]
        up = up[[not (step[2] or step[3]) for step in came]]
    assert steps.mean() >= 195


# what the log does not have


def test_what_was_never_done_in_a_state_is_not_chosen():
    """All rewards are negative, so that 0, what is left of an unknown value, would look best."""
    s, a = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 0])
    t, y = np.array([1, 0, 0, 1]), np.array([-1.0, -2.0, -1.0, -1.0])
    q = ActionValueEstimator(gamma=0.5, **TABULAR).fit(np.eye(2)[s], y, action=a, next_X=np.eye(2)[t])
    assert q.predict(np.eye(2))[1, 1] == 0 > q.predict(np.eye(2))[1, 0]
    assert list(q.policy(np.eye(2))) == [0, 0]
    np.testing.assert_allclose(q.predict(np.eye(2)), [[-2, -3], [-2, 0]], rtol=1e-9)
    with pytest.warns(UserWarning, match="50% of the successors the policy takes an action that the log never has"):
        fit = ActionValueEstimator([0, 1], 0.5, **TABULAR).fit
        fit(np.eye(2)[s], y, action=a, next_X=np.eye(2)[t])


def test_policies_that_do_not_settle_are_told():
    """Four states with one feature: the best action for the values of either policy is that of the other."""
    P = np.array([[[9, 0, 0, 1], [0, 7, 3, 0]], [[4, 0, 5, 1], [1, 1, 7, 1]], [[10, 0, 0, 0], [0, 0, 10, 0]],
                  [[0, 3, 1, 6], [5, 4, 1, 0]]]) / 10  # fmt: skip
    R = np.array([[0.1, -0.3], [1.7, 0.9], [0.3, 0.7], [-2.0, 0.6]])
    s, a, t = (part.ravel() for part in np.indices((4, 2, 4)))
    X = np.array([[-1.0], [-0.5], [-0.5], [0.0]])
    given = {"X": X[s], "y": R[s, a], "action": a, "next_X": X[t], "sample_weight": P[s, a, t]}
    with pytest.warns(ConvergenceWarning, match="after 50 policies.*changes in .*% of the successors"):
        q = ActionValueEstimator(gamma=0.9, **TABULAR).fit(**given)
    assert q.stop_reason_ == "max_iter" and q.n_iter_ == 50


def test_ties_are_kept():
    """Two actions are the same: rounding must not move the policy from one to the other for ever."""
    P, R, s, a, t, _ = model(3, 8, 1)
    rng = np.random.default_rng(0)
    P, R = np.repeat(P, 3, axis=1), np.repeat(R, 3, axis=1)
    s, a, t = (part.ravel() for part in np.indices((8, 3, 8)))
    weights = P[s, a, t] * rng.random(3)[a]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = fit(ActionValueEstimator(gamma=0.999, **TABULAR), (P, R, s, a, t, weights))
    assert q.n_iter_ == 2


# as scikit-learn has it


def cart(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    a = rng.integers(2, size=n)
    next_X = 0.8 * X + 0.2 * rng.normal(size=(n, 3)) + 0.3 * (2 * a[:, None] - 1)
    return {"X": X, "y": -(next_X**2).sum(axis=1), "action": a, "next_X": next_X, "terminal": rng.random(n) < 0.05}


def test_the_parameter_policy_is_set_and_the_method_is_read():
    log = cart()
    first = ActionValueEstimator(gamma=0.8).fit(**log)
    again = ActionValueEstimator(first.policy, 0.8).fit(**log)  # the values of the best policy are those of LSPI
    np.testing.assert_allclose(again.predict(log["X"]), first.predict(log["X"]), rtol=1e-8, atol=1e-8)
    assert first.get_params()["policy"] == "greedy" and "policy" in repr(again)
    copied = clone(again)
    assert callable(copied.get_params()["policy"]) and not hasattr(copied, "coef_")
    assert copied.set_params(policy="greedy").get_params() == clone(first).get_params()
    loaded = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(loaded.policy(log["X"]), first.policy(log["X"]))
    assert loaded.get_params() == first.get_params()


def test_search_with_routing():
    log = cart()
    with config_context(enable_metadata_routing=True):
        names = dict.fromkeys(("action", "next_X", "terminal"), True)
        q = ActionValueEstimator(gamma=0.8, features=RBFSampler(random_state=0))
        q.set_fit_request(**names).set_score_request(**names)
        search = GridSearchCV(q, {"features__n_components": [3, 30], "alpha": [0.0, 1e-3]}, cv=3, error_score="raise")
        search.fit(**log)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.policy(log["X"]).shape == (400,)


def test_labels_are_returned_and_frames_reach_the_policy():
    log = cart()
    names = np.array(["left", "right"])
    frames = {k: pd.DataFrame(log[k], columns=["a", "b", "c"]) for k in ("X", "next_X")}
    q = ActionValueEstimator(lambda frame: np.where(frame["a"] > 0, "left", "right"), 0.8)
    q.fit(**log | frames | {"action": names[log["action"]].astype(object)})
    plain = ActionValueEstimator(lambda X: (X[:, 0] <= 0).astype(int), 0.8).fit(**log)
    np.testing.assert_array_equal(q.predict(frames["X"]), plain.predict(log["X"]))
    np.testing.assert_array_equal(q.policy(frames["X"]), names[plain.policy(log["X"])])
    assert list(q.actions_) == ["left", "right"] and q.score(
        **log | frames | {"action": names[log["action"]]}
    ) == plain.score(**log)


def test_time_stands_in_for_next_x():
    rng = np.random.default_rng(0)
    walk, y, a = rng.normal(size=(201, 2)), rng.normal(size=200), rng.integers(2, size=200)
    q = ActionValueEstimator(gamma=0.5).fit(walk[:199], y[:199], action=a[:199], next_X=walk[1:200])
    timed = ActionValueEstimator(gamma=0.5).fit(walk[:200], y, action=a, time=np.arange(200))
    np.testing.assert_allclose(timed.coef_, q.coef_, rtol=1e-9)
    label = {"episode": np.repeat(["a"], 200)}
    labelled = ActionValueEstimator(gamma=0.5).fit(walk[:200], y, action=a, **label)
    np.testing.assert_array_equal(labelled.coef_, timed.coef_)
    assert labelled.score(walk[:200], y, action=a, **label) == timed.score(walk[:200], y, action=a, time=np.arange(200))
    error = timed.td_error(walk[:200], y, action=a, time=np.arange(200))
    assert np.isnan(error[-1]) and not np.isnan(error[:-1]).any()
    assert timed.score(walk[:200], y, action=a, time=np.arange(200)) == pytest.approx(-np.mean(error[:-1] ** 2))


def test_td_errors_are_the_residuals_of_lstdq():
    log = cart()
    for policy in ("greedy", lambda X: (X[:, 0] > 0).astype(int)):
        q = ActionValueEstimator(policy, 0.8).fit(**log)
        error = q.td_error(**log)
        psi = np.zeros((400, 2, 4))
        psi[np.arange(400), log["action"]] = np.c_[log["X"], np.ones(400)]
        np.testing.assert_allclose(error @ psi.reshape(400, 8), 0, atol=1e-8)


def test_sparse_features_have_the_values_of_dense_ones():
    P, R, s, a, t, weights = model(n=40, m=2)
    given = {"y": R[s, a], "action": a, "sample_weight": weights}
    for solver in ("lstd", "storm-c"):
        policy = "greedy" if solver == "lstd" else np.arange(40) % 2
        q = ActionValueEstimator(policy, 0.9, solver, features=OneHotEncoder(), random_state=0, **TABULAR)
        q.fit(s[:, None], next_X=t[:, None], **given)
        dense = clone(q).set_params(features__sparse_output=False).fit(s[:, None], next_X=t[:, None], **given)
        np.testing.assert_allclose(q.coef_, dense.coef_, rtol=1e-6, atol=1e-9)


def test_a_budget_that_ends_is_resumed_to_the_same_bits():
    log = cart()
    q = ActionValueEstimator(last_action, 0.9, "storm-c", tol=0, random_state=0)
    whole = clone(q).set_params(max_iter=9).fit(**log)
    q.set_params(max_iter=4).fit(**log).set_params(max_iter=9).resume(**log)
    assert whole.stop_reason_ == "max_iter"
    np.testing.assert_array_equal(q.coef_, whole.coef_)
    with pytest.raises(ValueError, match="action must be the data of the fit to resume"):
        q.set_params(max_iter=10).resume(**log | {"action": 1 - log["action"]})


def last_action(X):
    return np.ones(len(X), int)


# what is refused


@pytest.mark.parametrize(
    "params, message",
    [
        ({"policy": "best"}, "policy must be 'greedy', a function.*'best'"),
        ({"policy": None}, "policy must be 'greedy'.*None"),
        ({"policy": np.zeros((2, 2, 2))}, "policy must be 'greedy'"),
        ({"policy": [0, 1]}, "policy is an array for 2 states.*3 columns that are neither"),
        ({"policy": lambda X: np.ones(3)}, "policy must give an action.*got shape"),
        ({"policy": lambda X: np.full(len(X), 7)}, r"actions of policy must be among.*\[0, 1\].*got 7 in row 0"),
        ({"policy": lambda X: np.full((len(X), 2), 0.4)}, "probabilities >= 0 that sum to 1.*0.4.*row 0"),
        ({"policy": lambda X: np.full((len(X), 3), 1 / 3)}, "policy must give probabilities of the actions"),
        ({"solver": "storm-c"}, "solver must be 'auto' or 'lstd' with policy='greedy', got 'storm-c'"),
        ({"solver": "no"}, "solver must be one of.*'lstd'"),
        ({"gamma": 1.5}, "gamma"),
        ({"alpha": -1}, "alpha"),
        ({"fit_intercept": 2}, "fit_intercept"),
        ({"features": 3}, "features must be a transformer"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_parameters_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        ActionValueEstimator(**params).fit(**cart())


@pytest.mark.parametrize(
    "action, message",
    [
        (np.r_[np.zeros(5), np.nan, np.zeros(394)], "action must be finite, got nan in row 5"),
        (np.r_[np.zeros(5), 0.25, np.zeros(394)], "action must be labels of a finite choice, got 0.25 in row 5"),
        (np.zeros((400, 1)), r"action must be one label.*shape \(400, 1\)"),
        (np.zeros(3), r"action must be one label.*shape \(3,\)"),
        ([None] * 400, "action must be.*"),
        (np.zeros(400, complex), "action must be integers or strings, got complex"),
    ],
)
def test_actions_are_labels(action, message):
    with pytest.raises(ValueError, match=message):
        ActionValueEstimator().fit(**cart() | {"action": action})


def test_actions_that_fit_did_not_have():
    log = cart()
    q = ActionValueEstimator(gamma=0.5).fit(**log)
    with pytest.raises(ValueError, match="action must be among those that fit had.*got 2 in row 1"):
        q.score(**log | {"action": np.r_[0, 2, log["action"][2:]]})
    with pytest.raises(ValueError, match="action must be given to score"):
        q.score(**log | {"action": None})
    with pytest.raises(ValueError, match="next_X and terminal must be given to score"):
        q.score(log["X"], log["y"], action=log["action"])


def test_a_fit_without_actions_says_so():
    log = cart() | {"action": None}
    with pytest.warns(UserWarning, match="action was not given"):
        q = ActionValueEstimator(gamma=0.5).fit(**log)
    value = BellmanValueEstimator(0.5, "lstd", objective="projected")
    value.fit(**{name: part for name, part in log.items() if name != "action"})
    np.testing.assert_allclose(q.predict(log["X"])[:, 0], value.predict(log["X"]), rtol=1e-9)


def test_nothing_that_was_fitted_is_lost():
    log = cart()
    q = ActionValueEstimator(gamma=0.5).fit(**log)
    before = q.coef_.copy()
    with pytest.raises(ValueError, match="gamma"):
        q.set_params(gamma=2).fit(**log)
    np.testing.assert_array_equal(q.coef_, before)
