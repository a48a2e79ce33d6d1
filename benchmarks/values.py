"""Values of states to decide with: how often intervals hold, what policies are worth
off policy, and the time of a fit.

Intervals of 90 % are of 500 logs of small models whose values are known. Seeds of the
logs are used for nothing else. Beside the intervals are those of plain numpy, with the
normal quantile and no correction.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import _value_models as models
from benchmarks._measure import timed
from benchmarks._tables import table
from sk_stormc import ActionValueEstimator, BellmanValueEstimator, off_policy_value

DURATION = "18 minutes"
NEEDS_DATA = False
PACKAGES = ("numpy", "scikit-learn")
LOGS, SEED = 500, 1_000_000
NORMAL = 1.6448536269514722  # its .95 quantile
MODELS = {
    "8 states, steps to the end 10": (8, 0.9, 11),
    "20 states, steps to the end 5": (20, 0.8, 12),
}
EPISODES = (25, 50, 200)
TARGETS = {"behaviour policy": 0.5, "another, .7 for .5": 0.7}
ALPHAS = (0.0, 1e-9, 1e-7, 1e-5, 1e-3)
METHODS = ("is", "wis", "pdis", "wpdis", "dr", "wdr")
SIZES = ((5000, 20), (20_000, 10), (20_000, 50), (20_000, 100), (100_000, 100))


def lstd(**params):
    """The estimator of the tables."""
    return BellmanValueEstimator(
        models.GAMMA, "lstd", objective="projected", fit_intercept=False, **params
    )


def columns(log, n_states):
    """A log as `fit` takes it."""
    X, next_X = np.eye(n_states)[log.state], np.eye(n_states)[log.after]
    return {
        "X": X,
        "y": log.y,
        "next_X": next_X,
        "terminal": log.terminal,
        "episode": log.episode,
    }


def coverage(quick):
    """How often intervals of values contain them."""
    rows = []
    for name, (n_states, goes_on, seed) in MODELS.items():
        model = models.Model(n_states, goes_on, seed)
        for policy, first in TARGETS.items():
            truth = model.values(first)
            for n in EPISODES:
                logs = [model.draw(n, SEED + k) for k in range(8 if quick else LOGS)]
                found = [in_intervals(log, n_states, first, truth) for log in logs]
                means = {
                    key: np.nanmean([of_log[key] for of_log in found])
                    for key in found[0]
                }
                errors = {
                    key: np.sqrt(means.pop(key)) for key in ("rmse", "numpy_rmse")
                }
                rows.append(
                    {"model": name, "policy": policy, "episodes": n, **means, **errors}
                )
    return rows


def in_intervals(log, n_states, first, truth):
    """Shares of values within their intervals, and mean squared errors, of one log; of
    states that it leaves."""
    ratio, parts = models.ratios(log, first), columns(log, n_states)
    seen, states = np.unique(log.state), np.eye(n_states)
    value, stream, fading = (
        lstd().fit(**parts, importance_ratio=ratio),
        lstd(),
        lstd(half_life=len(log.y) / 4),
    )
    for rows in np.array_split(np.arange(len(log.y)), 4):
        part = {name: column[rows] for name, column in parts.items()}
        for of_parts in (stream, fading):
            of_parts.partial_fit(**part, importance_ratio=ratio[rows])
    x, error = models.numpy_lstd(log, ratio, n_states)

    def share(model):
        low, high = model.value_interval(states).T
        return np.mean((low < truth)[seen] & (truth < high)[seen])

    low, high = value.value_interval(states, mean=True)
    return {
        "states": share(value),
        "mean": low < truth.mean() < high if len(seen) == n_states else np.nan,
        "stream": share(stream),
        "fading": share(fading),
        "numpy": np.mean(abs(x - truth)[seen] < NORMAL * error[seen]),
        "rmse": np.mean((value.predict(states) - truth)[seen] ** 2),
        "numpy_rmse": np.mean((x - truth)[seen] ** 2),
    }


def off_policy(quick):
    """Errors and coverage of six estimates of a policy's value."""
    n_states, goes_on, seed = MODELS["20 states, steps to the end 5"]
    model, rows = models.Model(n_states, goes_on, seed), []
    for first in (0.6, 0.75):
        truth = model.values(first).mean()
        for n in EPISODES[1:]:
            logs = [model.draw(n, SEED + LOGS + k) for k in range(4 if quick else LOGS)]
            for method in METHODS:
                values = [worth(method, log, n_states, first) for log in logs]
                low, high = np.array([value.interval() for value in values]).T
                errors = np.array([value.value for value in values]) - truth
                std_errors = np.array([value.std_error for value in values])
                rows.append({
                    "first": first, "episodes": n, "method": method, "truth": truth,
                    "bias": errors.mean(),
                    "coverage": np.mean((low < truth) & (truth < high)),
                    "rmse": np.sqrt(np.mean(errors**2)),
                    "std_error": np.sqrt(np.mean(std_errors**2)),
                    "size": np.median([value.effective_size for value in values]),
                })  # fmt: skip
    return rows


def worth(method, log, n_states, first):
    """The value of the policy that takes the first action with this probability."""
    return off_policy_value(
        importance_ratio=models.ratios(log, first), gamma=models.GAMMA, method=method,
        action=log.action, cv=2,
        target=np.tile([first, 1 - first], (n_states, 1)),
        estimator=ActionValueEstimator(fit_intercept=False, alpha=1e-6), **columns(log,
        n_states),
    )  # fmt: skip


def cpu(quick):
    """CPU of fits over that of LSTD's products and solution in plain numpy, in
    turns."""
    rows = []
    for n, d in SIZES[:1] if quick else SIZES:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n + 1, d))
        X, next_X, terminal = X[:-1], 0.5 * X[:-1] + X[1:], rng.random(n) < 0.01
        log = X, next_X, X @ rng.normal(size=d) + rng.normal(size=n), terminal
        ways = (plain_products, *log), (fit, "auto", *log), (fit, "storm-c", *log)
        seconds = np.array(
            [[timed(*way)[0] for way in ways] for _ in range(2 if quick else 7)]
        )
        lstd_over, storm_over = np.median(seconds[:, 1:] / seconds[:, :1], axis=0)
        rows.append(
            {
                "n": n,
                "d": d,
                "numpy": np.median(seconds[:, 0]),
                "lstd": lstd_over,
                "storm-c": storm_over,
            }
        )
    return rows


def plain_products(X, next_X, y, terminal):
    """LSTD in numpy, with C as for the ridge's scale, and an intercept."""
    Z = np.column_stack([X, np.ones(len(X))])
    D = Z - models.GAMMA * np.where(
        terminal[:, None], 0.0, np.column_stack([next_X, np.ones(len(X))])
    )
    return Z.T @ Z, np.linalg.solve(Z.T @ D, Z.T @ y)


def fit(solver, X, next_X, y, terminal):
    """A fit of values."""
    BellmanValueEstimator(models.GAMMA, solver, random_state=0).fit(
        X, y, next_X=next_X, terminal=terminal
    )


def ridge(quick):
    """Errors of values against the best linear fit to returns, by gamma and alpha."""
    train, test = (
        models.drives(n, SEED + k) for k, n in enumerate((6, 6) if quick else (60, 200))
    )
    X, next_X = (
        np.vstack([states[:-1] for states in train]),
        np.vstack([states[1:] for states in train]),
    )
    terminal = np.concatenate(
        [np.arange(len(states) - 1) == len(states) - 2 for states in train]
    )
    held_out = np.vstack([states[:-1] for states in test])
    steps = np.concatenate([np.arange(len(states) - 1, 0, -1) for states in test])
    radial = make_pipeline(
        StandardScaler(), RBFSampler(n_components=100, gamma=0.5, random_state=0)
    ).fit(X)
    Z, rows = np.column_stack([radial.transform(held_out), np.ones(len(held_out))]), []
    for gamma in (0.95, 0.99, 0.999):
        best = Z @ np.linalg.lstsq(Z, -(1 - gamma**steps) / (1 - gamma), rcond=None)[0]
        row = {"gamma": gamma, "size": np.sqrt(np.mean(best**2))}
        for alpha in ALPHAS:
            value = BellmanValueEstimator(
                gamma, "lstd", objective="projected", features=radial, alpha=alpha
            )
            value.fit(X, -np.ones(len(X)), next_X=next_X, terminal=terminal)
            row[f"{alpha:g}"] = np.sqrt(np.mean((value.predict(held_out) - best) ** 2))
        rows.append(row)
    return rows


PARTS = {part.__name__: part for part in (coverage, off_policy, cpu, ridge)}


def run_part(name, quick, images):
    """Measure one part."""
    with warnings.catch_warnings():
        # features that are nearly collinear
        warnings.simplefilter("ignore", ConvergenceWarning)
        # of few episodes, on purpose
        warnings.filterwarnings("ignore", "the (uncertainty of values|value) is")
        return PARTS[name](quick)


COLUMNS = {
    "coverage": {
        "": "{model}", "policy": "{policy}", "episodes": "{episodes}",
        "values": "{states:.1%}",
        "mean of values": "{mean:.1%}", "`partial_fit`": "{stream:.1%}",
        "with a half-life": "{fading:.1%}",
        "numpy's LSTD": "{numpy:.1%}", "RMSE": "{rmse:.3g}",
        "RMSE of numpy": "{numpy_rmse:.3g}",
    },
    "off_policy": {
        "probability, for .5": "{first:g}", "episodes": "{episodes}",
        "method": '"{method}"',
        "90 % intervals hold": "{coverage:.1%}", "RMSE": "{rmse:.3g}",
        "bias": "{bias:.2g}", "standard error": "{std_error:.3g}",
        "effective size": "{size:.0f}",
    },
    "cpu": {
        "transitions": "{n:,}", "features": "{d}",
        "numpy's LSTD, ms": lambda row: f"{1e3 * row['numpy']:.0f}",
        '"lstd", ratio to numpy': "{lstd:.2f}",
        '"storm-c", ratio to numpy': "{storm-c:.2f}",
    },
    "ridge": {
        "gamma": "{gamma:g}", "values, RMS": "{size:.3g}",
        **{f"alpha = {alpha:g}": lambda row,
        alpha=alpha: f"{row[f'{alpha:g}']:.3g}" for alpha in ALPHAS},
    },
}  # fmt: skip


def tables(stored):
    """A table for each part that was measured."""
    results = stored["results"]
    return {
        part: table(results[part], columns)
        for part, columns in COLUMNS.items()
        if part in results
    }
