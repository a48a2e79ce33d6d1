"""Every option of values meets every other, in all containers and ways of giving the
successors: numbers are those of sums over the transitions, one after the other."""

import warnings

import numpy as np
import pandas as pd
import pytest
from helpers import covering_array
from scipy import sparse
from sklearn.preprocessing import FunctionTransformer

from sk_stormc import ActionValueEstimator, BellmanValueEstimator, off_policy_value

LENGTHS = np.random.default_rng(0).integers(1, 15, 26)
N, D, STATES = LENGTHS.sum(), 3, np.random.default_rng(1).normal(size=(8, 3))
HALF = 12  # episodes of the first partition
SIZE = 40  # of a chunk: each open episode has a row in it
SUCCESSORS = {
    "next_X": ["next_X"],
    "next_X, episode": ["next_X", "episode"],
    "episode": ["episode"],
    "episode, time": ["episode", "time"],
}
CONTAINERS = ["array", "pandas", "polars", "sparse", "dask", "file"]
WAYS = {
    "successors": [*SUCCESSORS, "time"],
    "order": ["one by one", "alternating"],
    "container": CONTAINERS,
    "call": ["fit", "partial_fit"],
    "weights": [(), ("sample_weight",)],
}
NOT_IN_PARTITIONS = [
    {"container": "dask", "order": "alternating", "successors": name}
    for name in ("episode", "episode, time")
]
FORBIDDEN = [
    {"container": "dask", "call": "partial_fit"},
    {"container": "dask", "successors": "time"},
    # the rows of one long episode are in the order of time
    {"order": "alternating", "successors": "time"},
    *NOT_IN_PARTITIONS,
]
OF_STATES = WAYS | {
    "objective": ["projected", "bellman"],
    "gamma": [0.0, 0.9],
    "fit_intercept": [True, False],
    "alpha": [0.0, 0.1],
    "trace_decay": [0.0, 0.7],
    "half_life": [None, 60.0],
    "weights": [
        (),
        ("sample_weight",),
        ("importance_ratio",),
        ("sample_weight", "importance_ratio"),
    ],
}
OF_STATES_FORBIDDEN = [
    *FORBIDDEN,
    {"objective": "bellman", "trace_decay": 0.7},
    {"objective": "bellman", "call": "partial_fit"},
    {"objective": "bellman", "container": "dask"},
    {"trace_decay": 0.7, "container": "dask"},
    # only the successors show the trace, which may be that of another episode
    {"trace_decay": 0.7, "order": "alternating", "successors": "next_X"},
    *(
        {"half_life": 60.0, "container": "dask", "successors": name}
        for name in ("episode", "episode, time")
    ),
    # rows that wait for a successor are counted when it comes
    *(
        {"half_life": 60.0, "call": "partial_fit", "order": "alternating"}
        | {"successors": name}
        for name in ("episode", "episode, time")
    ),
]
OF_ACTIONS = WAYS | {
    "policy": ["greedy", "probabilities", "labels"],
    "labels": [(0, 1), ("left", "right")],
    "gamma": [0.0, 0.9],
    "fit_intercept": [True, False],
    "alpha": [0.01, 0.1],
}
OF_ACTIONS_FORBIDDEN = [*FORBIDDEN, {"policy": "greedy", "call": "partial_fit"}]


def make_log(case):
    """Episodes of which a third is cut off. States repeat for "bellman"."""
    rng = np.random.default_rng(2)
    X, last = rng.normal(size=(N, D)), np.cumsum(LENGTHS) - 1
    after = rng.normal(size=(N, D))
    if case.get("objective") == "bellman":
        X, after = (STATES[rng.integers(len(STATES), size=N)] for _ in range(2))
    inside = np.setdiff1d(np.arange(N), last)
    after[inside] = X[inside + 1]
    action, episode = rng.integers(2, size=N), np.repeat(np.arange(26), LENGTHS)
    step = np.concatenate([np.arange(n) for n in LENGTHS])
    log = {
        "X": X,
        "y": X[:, 0] * (1 + action) + rng.normal(size=N),
        "next_X": after,
        "terminal": np.isin(np.arange(N), last[np.arange(26) % 3 > 0]),
        "episode": episode,
        "time": step + 20 * episode * (case["successors"] == "time"),
        "sample_weight": rng.integers(3, size=N).astype(float),
        "importance_ratio": rng.uniform(0.5, 1.5, N) * (rng.random(N) < 0.95),
        "action": action,
        "step": step,
    }
    if case["order"] == "alternating":
        order = np.lexsort((episode, step))
        log = {name: part[order] for name, part in log.items()}
    return log


def contained(case, log, folder):
    """The arguments of a fit in their containers."""
    given = SUCCESSORS.get(case["successors"], ["time"])
    names = "X", "y", "terminal", *given, *case["weights"]
    columns, kind = {name: log[name] for name in names}, case["container"]
    if "policy" in case:
        columns["action"] = np.array(case["labels"])[log["action"]]
    for name in columns:
        part = columns[name]
        if kind == "dask":
            da = pytest.importorskip("dask.array")
            n = LENGTHS[:HALF].sum()
            columns[name] = da.from_array(
                part, chunks=((n, N - n), *((m,) for m in part.shape[1:]))
            )
        elif kind == "file":
            np.save(folder / f"{name}.npy", part)
            columns[name] = np.load(folder / f"{name}.npy", mmap_mode="r")
        elif name in ("X", "next_X") and kind == "pandas":
            columns[name] = pd.DataFrame(part, columns=list("abc"))
        elif name in ("X", "next_X") and kind == "polars":
            pl = pytest.importorskip("polars")
            columns[name] = pl.DataFrame(dict(zip("abc", part.T, strict=True)))
        elif name in ("X", "next_X") and kind == "sparse":
            columns[name] = sparse.csr_array(part)
    return columns


# fits of frames predict arrays
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")


def fitted(estimator, case, log, folder, **more):
    """The estimator, after a fit or after chunks."""
    columns = contained(case, log, folder)
    if case["container"] == "sparse":
        estimator.set_params(features=FunctionTransformer())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case["call"] == "fit":
            return estimator.fit(**columns)
        for start in range(0, N, SIZE):
            rows = slice(start, start + SIZE)
            some = {
                name: part.iloc[rows] if hasattr(part, "iloc") else part[rows]
                for name, part in columns.items()
            }
            estimator.partial_fit(**some, **more)
    return estimator


def usable(case, log):
    """The transitions that count, and their weights."""
    ends, weights = log["terminal"], np.ones(N)
    if "sample_weight" in case["weights"]:
        weights = log["sample_weight"]
    known = np.ones(N, dtype=bool)
    if "next_X" not in case["successors"]:
        known = ends | (log["step"] + 1 < LENGTHS[log["episode"]])
        step = log["step"]
        if case["call"] == "fit":  # the ends of a step are censored as its other rows
            goes_on = ~ends & known
            share = [
                weights[goes_on & (step == t)].sum()
                / (weights[~ends & (step == t)].sum() or np.inf)
                if (weights * ~ends)[step == t].any()
                else 1.0
                for t in step
            ]
            weights = weights * np.where(ends, share, 1.0)
    if "importance_ratio" in case["weights"]:
        weights = weights * log["importance_ratio"]
    if case.get("half_life"):
        age = np.cumsum(known[::-1])[::-1] - 1
        weights = weights * 0.5 ** (age / case["half_life"])
    return np.flatnonzero(known), weights


def with_ones(X, case):
    return np.column_stack([X, np.ones(len(X))]) if case["fit_intercept"] else X


def traces_of(case, log, rows, weights, Z):
    """The eligibility traces of the rows, row by row of their episodes."""
    decay, last, traces = case["gamma"] * case["trace_decay"], {}, np.zeros(Z.shape)
    ratios = np.ones(N)
    if "importance_ratio" in case["weights"]:
        ratios = log["importance_ratio"]
    for k in rows:
        traces[k] = Z[k] + decay * last.get(log["episode"][k], 0.0)
        last[log["episode"][k]] = traces[k] * ratios[k] * (weights[k] > 0)
    return traces


def solved(case, log):
    """The coefficients, and the sandwich estimate of their covariance."""
    rows, weights = usable(case, log)
    d = weights / weights[rows].sum()
    Z = with_ones(log["X"], case)
    after = with_ones(log["next_X"], case) * ~log["terminal"][:, None]
    ridge = case["alpha"] * (np.arange(Z.shape[1]) < D)
    if case["objective"] == "bellman":
        A = b = 0.0
        for state in STATES:
            at = rows[(log["X"][rows] == state).all(axis=1) & (d[rows] > 0)]
            if len(at):
                mean = d[at] @ (Z - case["gamma"] * after)[at]
                A = A + np.outer(mean, mean) / d[at].sum()
                b = b + mean * (d[at] @ log["y"][at]) / d[at].sum()
        return np.linalg.solve(A + np.diag(ridge), b), None
    traces = traces_of(case, log, rows, weights, Z)[rows] * d[rows, None]
    difference = (Z - case["gamma"] * after)[rows]
    A = traces.T @ difference + np.diag(ridge)
    w = np.linalg.solve(A, traces.T @ log["y"][rows])
    scores = traces * (difference @ w - log["y"][rows])[:, None]
    return w, sandwich(A, scores, log["episode"][rows], d[rows])


def sandwich(A, scores, episode, d):
    counts = np.unique(episode[d > 0])
    sums = np.array([scores[episode == e].sum(axis=0) for e in counts])
    sums, n, m = sums - sums.mean(axis=0), np.count_nonzero(d), len(sums)
    inverse = np.linalg.inv(A)
    correction = m / (m - 1) * (n - 1) / (n - len(A))
    return correction * inverse @ sums.T @ sums @ inverse.T


def named(cases):
    return [
        pytest.param(case, id=" ".join(map(str, (k, *list(case.values())[:4]))))
        for k, case in enumerate(cases)
    ]


@pytest.mark.parametrize(
    "case", named(covering_array(OF_STATES, OF_STATES_FORBIDDEN, trials=3))
)
def test_values_of_states(case, tmp_path):
    log, names = make_log(case), set(OF_STATES) - set(WAYS)
    value = BellmanValueEstimator(solver="lstd", **{n: case[n] for n in sorted(names)})
    fitted(value, case, log, tmp_path)
    w, covariance = solved(case, log)
    found = np.append(value.coef_, value.intercept_)[: len(w)]
    np.testing.assert_allclose(found, w, rtol=1e-8, atol=1e-10)
    labelled = "episode" in case["successors"] and case["call"] == "fit"
    if labelled and covariance is not None and case["half_life"] is None:
        X = log["X"][:5]
        given = sparse.csr_array(X) if case["container"] == "sparse" else X
        Z, (_, std) = with_ones(X, case), value.predict(given, return_std=True)
        expected = np.sqrt(np.einsum("ij,jk,ik->i", Z, covariance, Z))
        np.testing.assert_allclose(std, expected, rtol=1e-7)


def likes(X):
    """Probabilities of two actions."""
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    right = 1 / (1 + np.exp(-X[:, 0]))
    return np.column_stack([1 - right, right])


@pytest.mark.parametrize(
    "case", named(covering_array(OF_ACTIONS, OF_ACTIONS_FORBIDDEN, trials=3))
)
def test_values_of_actions(case, tmp_path):
    log, labels = make_log(case), np.array(case["labels"])
    policy = {
        "greedy": "greedy",
        "probabilities": likes,
        "labels": lambda X: labels[likes(X).argmax(axis=1)],
    }[case["policy"]]
    names = "gamma", "fit_intercept", "alpha"
    q = ActionValueEstimator(policy, **{name: case[name] for name in names})
    fitted(q, case, log, tmp_path, actions=labels)
    assert q.actions_.tolist() == labels.tolist()
    after = log["next_X"]
    given = sparse.csr_array(after) if case["container"] == "sparse" else after
    chances = likes(after)
    if case["policy"] == "labels":
        chances = np.eye(2)[chances.argmax(axis=1)]
    elif case["policy"] == "greedy":  # its values are those of the greedy policy
        assert q.stop_reason_ == "converged"
        chances = np.eye(2)[np.searchsorted(labels, q.predict_action(given))]
    rows, weights = usable(case, log)
    d = (weights / weights[rows].sum())[rows]
    now, to = (with_ones(log[name], case)[rows] for name in ("X", "next_X"))
    to = to * ~log["terminal"][rows, None]
    taken = np.eye(2)[log["action"][rows]]
    psi, next_psi = (
        (part[:, :, None] * of[:, None]).reshape(len(rows), -1)
        for part, of in ((taken, now), (chances[rows], to))
    )
    ridge = np.tile(case["alpha"] * (np.arange(now.shape[1]) < D), 2)
    difference = psi - case["gamma"] * next_psi
    A = (d[:, None] * psi).T @ difference + np.diag(ridge)
    w = np.linalg.solve(A, psi.T @ (d * log["y"][rows]))
    found = np.column_stack([q.coef_, q.intercept_])[:, : now.shape[1]]
    np.testing.assert_allclose(found.ravel(), w, rtol=1e-7, atol=1e-9)
    if "episode" in case["successors"] and case["call"] == "fit":
        scores = (d * (difference @ w - log["y"][rows]))[:, None] * psi
        covariance = sandwich(A, scores, log["episode"][rows], d)
        Z = np.kron(np.eye(2), now[:4])
        expected = np.sqrt(np.einsum("ij,jk,ik->i", Z, covariance, Z)).reshape(2, -1)
        X = log["X"][rows[:4]]
        X = sparse.csr_array(X) if case["container"] == "sparse" else X
        std = q.predict(X, return_std=True)[1]
        np.testing.assert_allclose(std, expected.T, rtol=1e-6)


OF_POLICIES = {
    "method": ["is", "wis", "pdis", "wpdis", "dr", "wdr"],
    "gamma": [0.9, 1.0],
    "container": ["array", "pandas", "dask"],
    "order": ["one by one", "alternating", "shuffled"],
    "ratios": ["all 1", "some 0", "none 0"],
    "labels": ["numbers", "texts"],
    "terminal": [True, False],
}
OF_POLICIES_FORBIDDEN = [
    *({"method": name, "container": "dask"} for name in ("dr", "wdr")),
    *({"method": name, "terminal": False} for name in ("dr", "wdr")),
    *({"container": "dask", "order": name} for name in ("alternating", "shuffled")),
]


def by_hand(y, ratio, episode, gamma):
    """The four estimates without a model, and contributions to "wpdis", episode by
    episode and step by step."""
    numbers = np.unique(episode)
    W, G = np.zeros((2, LENGTHS.max(), len(numbers)))
    for e in numbers:
        rows = np.flatnonzero(episode == e)
        W[:, e] = np.prod(ratio[rows])
        W[: len(rows), e] = np.cumprod(ratio[rows])
        G[: len(rows), e] = gamma ** np.arange(len(rows)) * y[rows]
    mean = (W * G).sum(axis=1) / W.sum(axis=1)
    influence = (W / W.mean(axis=1, keepdims=True) * (G - mean[:, None])).sum(axis=0)
    returns = G.sum(axis=0)
    return {
        "is": W[-1] * returns,
        "wis": np.average(returns, weights=W[-1])
        + W[-1] / W[-1].mean() * (returns - np.average(returns, weights=W[-1])),
        "pdis": (W * G).sum(axis=0),
        "wpdis": mean.sum() + influence,
    }


@pytest.mark.parametrize(
    "case", named(covering_array(OF_POLICIES, OF_POLICIES_FORBIDDEN))
)
def test_values_of_policies(case):
    log = make_log({"successors": "episode", "order": "one by one"})
    ratio = {
        "all 1": np.ones(N),
        "some 0": 2.0 * (log["importance_ratio"] > 0.6),
        "none 0": log["importance_ratio"].clip(0.5),
    }[case["ratios"]]
    gamma, method, names = case["gamma"], case["method"], log["episode"]
    if case["labels"] == "texts":
        names = np.array([f"e{k:02}" for k in names])
    columns = {"y": log["y"], "importance_ratio": ratio, "episode": names}
    plain, more = dict(columns), {}
    if case["terminal"]:
        more["terminal"] = log["terminal"]
    if method in ("dr", "wdr"):
        chance = np.where(ratio > 0, 0.5, 0.0)
        target = np.where(log["action"][:, None] == [0, 1], chance[:, None], 0.0)
        target[np.arange(N), 1 - log["action"]] = 1 - chance
        more |= {"X": log["X"], "action": log["action"], "target": target}
        more["terminal"] = log["step"] + 1 == LENGTHS[log["episode"]]
        plain |= more
    columns |= more
    order = np.arange(N)
    if case["order"] == "alternating":
        order = np.lexsort((log["episode"], log["step"]))
    elif case["order"] == "shuffled":
        order = np.random.default_rng(3).permutation(N)
        columns["time"] = log["step"]
    columns = {name: part[order] for name, part in columns.items()}
    n = LENGTHS[:HALF].sum()
    for name in ("y", "importance_ratio", "episode", "terminal", "time"):
        if name in columns and case["container"] == "pandas":
            columns[name] = pd.Series(columns[name])
        elif name in columns and case["container"] == "dask":
            da = pytest.importorskip("dask.array")
            columns[name] = da.from_array(columns[name], chunks=((n, N - n),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = off_policy_value(**columns, gamma=gamma, method=method)
        if method in ("dr", "wdr"):
            expected = off_policy_value(**plain, gamma=gamma, method=method)
            expected = expected.contributions
        else:
            expected = by_hand(log["y"], ratio, log["episode"], gamma)[method]
    # episodes are in the order of their first rows
    _, first = np.unique(log["episode"][order], return_index=True)
    at = np.argsort(first)
    np.testing.assert_allclose(found.contributions, expected[at], rtol=1e-7, atol=1e-9)
    error = expected.std(ddof=1) / np.sqrt(len(expected))
    assert found.std_error == pytest.approx(error, rel=1e-7)
    if method not in ("dr", "wdr"):
        assert found.value == pytest.approx(expected.mean(), rel=1e-9)
