"""Policies from random transitions: `ActionValueEstimator` beside LSPI in plain numpy, as its paper has it."""

import gymnasium
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.utils import Bunch

from benchmarks import _tables
from benchmarks._measure import timed
from sk_stormc import ActionValueEstimator
from sk_stormc.datasets import MarkovRewardProcess, collect_transitions

__all__ = ["measure", "table"]

SEED = 1000  # logs have the seeds from here on, which nothing else has
EPISODES, LARGEST = 10, 20  # episodes of a pole; policies that plain LSPI tries
CENTRES = np.linspace(0, 49, 10)


def bumps(X):
    """Radial basis functions along a chain of 50 states."""
    return np.exp(-0.5 * ((X - CENTRES) / 4) ** 2)


class Chain:
    """The chain walk of Lagoudakis and Parr: an action fails, and does the opposite, in one step of ten."""

    def __init__(self, n, goals, n_rows, features):
        self.n, self.n_rows, self.gamma, self.alpha, self.features = n, n_rows, 0.9, 0.0, features
        states, ahead = np.arange(n), [np.maximum(np.arange(n) - 1, 0), np.minimum(np.arange(n) + 1, n - 1)]
        self.P, self.R = np.zeros((n, 2, n)), np.repeat(np.isin(states, goals)[:, None], 2, axis=1).astype(float)
        for action in (0, 1):
            for way, chance in ((action, 0.9), (1 - action, 0.1)):
                np.add.at(self.P, (states, action, ahead[way]), chance)

    def log(self, seed):
        """States and actions at random."""
        rng = np.random.default_rng(seed)
        s, a = rng.integers(self.n, size=self.n_rows), rng.integers(2, size=self.n_rows)
        right = (a == 1) != (rng.random(self.n_rows) < 0.1)
        t = np.clip(s + np.where(right, 1, -1), 0, self.n - 1)
        X, next_X = s[:, None].astype(float), t[:, None].astype(float)
        return Bunch(X=X, y=self.R[s, a], action=a, next_X=next_X, terminal=np.zeros(self.n_rows, bool))

    def judge(self, choose):
        """The most that the policy loses of the value of a state, over the largest value."""
        rows = np.arange(self.n)
        does = choose(rows[:, None].astype(float))
        best = np.zeros((self.n, 2))
        for _ in range(1000):
            best = self.R + self.gamma * self.P @ best.max(axis=1)
        V = np.linalg.solve(np.eye(self.n) - self.gamma * self.P[rows, does], self.R[rows, does])
        return float((best.max(axis=1) - V).max() / best.max())


class Lake:
    """FrozenLake, with an indicator for each state."""

    n_rows, gamma, alpha = 20_000, 0.95, 0.0

    def __init__(self):
        self.features = OneHotEncoder(categories=[np.arange(16)], sparse_output=False)
        P = gymnasium.make("FrozenLake-v1").unwrapped.P
        V = np.zeros(16)
        for _ in range(2000):
            V = np.array([max(self.ahead(P[s][a], V) for a in range(4)) for s in range(16)])
        self.best = V[0]

    def ahead(self, moves, V):
        """The value of an action."""
        return sum(chance * (reward + self.gamma * (not end) * V[t]) for chance, t, reward, end in moves)

    def log(self, seed):
        """Random actions."""
        return collect_transitions("FrozenLake-v1", n_transitions=self.n_rows, seed=seed, one_hot=False)

    def judge(self, choose):
        """What the policy loses of the value of the start, over this value."""
        does = choose(np.arange(16.0)[:, None])
        model = MarkovRewardProcess.from_gymnasium("FrozenLake-v1", does, gamma=self.gamma)
        return float((self.best - model.exact_value()[0]) / self.best)


class Pole:
    """CartPole, with splines."""

    n_rows, gamma, alpha = 20_000, 0.95, 1e-4

    def __init__(self):
        self.features = make_pipeline(StandardScaler(), SplineTransformer(n_knots=5, extrapolation="linear"))

    def log(self, seed):
        """Random pushes."""
        return collect_transitions("CartPole-v1", n_transitions=self.n_rows, seed=seed)

    def judge(self, choose):
        """Steps until an episode ends, on average; 500 at the most."""
        poles = [gymnasium.make("CartPole-v1") for _ in range(EPISODES)]
        seen = np.array([pole.reset(seed=k)[0] for k, pole in enumerate(poles)])
        steps, up = np.zeros(EPISODES), np.arange(EPISODES)
        while len(up):
            steps[up] += 1
            came = [poles[k].step(int(action)) for k, action in zip(up, choose(seen[up]), strict=True)]
            seen[up] = [step[0] for step in came]
            up = up[[not (step[2] or step[3]) for step in came]]
        return float(steps.mean())


def plain_lspi(case, log):
    """LSPI as its paper has it: from coefficients of 0, until the policy stays."""
    features = case.features.fit(log.X)
    m = int(log.action.max()) + 1

    def of_states(X):
        return np.hstack([features.transform(X), np.ones((len(X), 1))])

    Z, after = of_states(log.X), of_states(log.next_X) * ~log.terminal[:, None]
    n, d = Z.shape
    psi, w, before = np.zeros((n, m, d)), np.zeros((m, d)), None
    psi[np.arange(n), log.action] = Z
    psi = psi.reshape(n, m * d)
    ridge = np.diag(np.tile(np.append(np.full(d - 1, n * case.alpha), 0.0), m))
    for _ in range(LARGEST):
        does = (after @ w.T).argmax(axis=1)
        if before is not None and (does == before).all():
            break
        before, ahead = does, np.zeros((n, m, d))
        ahead[np.arange(n), does] = after
        A = psi.T @ (psi - case.gamma * ahead.reshape(n, m * d)) + ridge
        w = np.linalg.lstsq(A, psi.T @ log.y, rcond=None)[0].reshape(m, d)
    return lambda X: (of_states(X) @ w.T).argmax(axis=1)


def ours(case, log):
    """The policy that `ActionValueEstimator` finds."""
    q = ActionValueEstimator(gamma=case.gamma, features=case.features, alpha=case.alpha)
    return q.fit(log.X, log.y, action=log.action, next_X=log.next_X, terminal=log.terminal)


def measure(quick):
    """One row for each case: what policies are worth, and CPU seconds of finding them."""
    powers, radial = PolynomialFeatures(4, include_bias=False), FunctionTransformer(bumps)
    cases = {
        "chain of 20, polynomials, worst loss of value": Chain(
            20, (0, 19), 5000, make_pipeline(StandardScaler(), powers)
        ),
        "chain of 50, radial basis functions, worst loss of value": Chain(50, (9, 40), 10_000, radial),
        "FrozenLake, indicators, loss of value at the start": Lake(),
        "CartPole, splines, steps": Pole(),
    }
    rows = []
    for name, case in cases.items():
        n_logs = 1 if quick else 5 if isinstance(case, Pole) else 20
        case.n_rows = 1000 if quick else case.n_rows
        row = {"case": name, "n_rows": case.n_rows, "n_logs": n_logs, "warned": 0}
        row |= {"ours": [], "plain": [], "policies": []}
        seconds = {"ours": [], "plain": []}
        for seed in range(SEED, SEED + n_logs):
            log = case.log(seed)
            used, q, warned = timed(ours, case, log)
            plainly, choose, _ = timed(plain_lspi, case, log)
            seconds["ours"].append(used)
            seconds["plain"].append(plainly)
            row["warned"] += warned
            row["policies"].append(q.n_iter_)
            row["ours"].append(case.judge(q.policy))
            row["plain"].append(case.judge(choose))
        rows.append(row | {f"{way} seconds": float(np.median(used)) for way, used in seconds.items()})
    return rows


def table(rows):
    """Means and, in brackets, the worst log."""

    def text(row, way):
        steps = row["case"].endswith("steps")
        worst = min(row[way]) if steps else max(row[way])
        mean, worst = (abs(number) if abs(number) < 5e-4 else number for number in (np.mean(row[way]), worst))
        return f"{mean:.1f} ({worst:.1f})" if steps else f"{mean:.3f} ({worst:.3f})"

    columns = {
        "": "{case}", "transitions": "{n_rows:,}", "logs": "{n_logs}",
        "`ActionValueEstimator`": lambda row: text(row, "ours"), "LSPI in numpy": lambda row: text(row, "plain"),
        "policies": lambda row: f"{np.median(row['policies']):.0f}", "warned": "{warned}",
        "CPU s": "{ours seconds:.2f}", "numpy's": "{plain seconds:.2f}",
    }  # fmt: skip
    return _tables.table(rows, columns)
