"""Ways to evaluate a policy from its log, beside numpy's LSTD: their errors, and the worst cases of each."""

import warnings

import numpy as np
from scipy import sparse

from benchmarks._bellman_logs import Log
from benchmarks._tables import table
from sk_stormc import BellmanValueEstimator

SIZES, GAMMAS = (1000, 10_000, 50_000), (0.95, 0.99, 0.999)
WORSE = 1.25  # times numpy's RMSE
RIDGES = (0.0, 1e-9, 1e-7, 1e-5, 1e-3, 0.1)  # tried by numpy where features are nearly collinear
FLOOR = 1e-3  # of the values' root mean square: a smaller RMSE counts as this
METHODS = {  # label: solver, rows of a chunk (None is fit)
    '`fit`, "storm-c"': ("storm-c", None),
    '`fit`, "lstd"': ("lstd", None),
    '"storm-c", chunks of 100': ("storm-c", 100),
    '"storm-c", of 1000': ("storm-c", 1000),
    '"lstd", chunks of 100': ("lstd", 100),
    '"lstd", of 1000': ("lstd", 1000),
}


def measure(part, quick):
    """One environment: for each number of transitions and gamma the RMSE of all methods."""
    sizes, gammas = ((300,), (0.95,)) if quick else (SIZES, GAMMAS)
    log, rows = Log(part, max(sizes), gammas, quick), []
    for n in sizes:
        for gamma in gammas:
            states, values, error = log.values(gamma, n)
            row = {"n": n, "gamma": gamma, "size": rms(values), "error": error}
            errors = {alpha: rms(found - values) for alpha, found in lstd(log, n, gamma, states).items()}
            row["numpy"], row["best"] = errors[log.alpha], min(errors.values())
            row["best_alpha"] = min(errors, key=errors.get)
            for label, (solver, chunk) in METHODS.items():
                row[label] = fit(log, n, gamma, solver, chunk, states, values)
            rows.append(row)
            print(f"{part}: {n} transitions, gamma {gamma}", flush=True)
    return rows


def fit(log, n, gamma, solver, chunk, states, values):
    """The RMSE of one estimator and the kinds of its warnings; or the error that it raised."""
    model = BellmanValueEstimator(gamma, solver, features=log.features, alpha=log.alpha, random_state=0)
    rows, work = log.rows, model.partial_fit if chunk else model.fit
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for start in range(0, n, chunk or n):
                part = slice(start, min(n, start + (chunk or n)))
                work(rows.X[part], rows.y[part], next_X=rows.next_X[part], terminal=rows.terminal[part])
            found = rms(model.predict(states) - values)
        except ValueError as error:
            return {"error": str(error)}
    kinds = sorted({w.category.__name__ for w in caught if issubclass(w.category, UserWarning)})
    return {"rmse": found, "warned": kinds}


def lstd(log, n, gamma, states):
    """Values of states by LSTD in plain numpy, from the same features, with an intercept, for each ridge."""
    rows = log.rows
    Z, following, T = (design(log.features, X) for X in (rows.X[:n], rows.next_X[:n], states))
    left = np.asarray(abs(Z).sum(axis=0)).ravel() > 0  # of other features nothing is known
    Z, following, T = (np.asarray(M[:, left].todense()) for M in (Z, following, T))
    D = (Z - gamma * ~rows.terminal[:n, None] * following) / np.sqrt(n)
    Z, y = Z / np.sqrt(n), rows.y[:n] / np.sqrt(n)
    M, b, found = Z.T @ D, Z.T @ y, {}
    for alpha in {log.alpha, *(RIDGES if log.alpha else ())}:
        ridge = np.full(Z.shape[1], alpha)
        ridge[-1] = 0.0  # not of the intercept
        A = M + np.diag(ridge)
        scale = np.linalg.norm(A, axis=0)
        found[alpha] = T @ (np.linalg.lstsq(A / scale, b, rcond=None)[0] / scale)
    return found


def design(features, X):
    """Features and, last, a column of ones."""
    Z = sparse.csr_array(features.transform(X))
    return sparse.csr_array(sparse.hstack([Z, np.ones((Z.shape[0], 1))]))


def rms(values):
    """Root mean square; infinite where a value is not finite."""
    return float(np.sqrt(np.mean(values**2))) if np.isfinite(values).all() else np.inf


def ratio(row, label, reference="numpy"):
    """A method's RMSE over numpy's."""
    rmse, least = row[label]["rmse"], FLOOR * row["size"]
    return np.inf if rmse is None else max(rmse, least) / max(row[reference], least)


def name_of(part):
    """An environment's name as the table has it."""
    names = {"frozen_lake": "FrozenLake 4x4", "frozen_lake_8x8": "FrozenLake 8x8"}
    return names.get(part, "".join(word.capitalize() for word in part.split("_")))


def cell(found, part, row):
    """A ratio, and where it was found."""
    return f"{found:.2f} ({name_of(part)}, {row['n']:,}, {row['gamma']:g})"


def of_method(label, cells):
    """How many of a method's cells raised or warned, and the worst of the others."""
    fitted = [(ratio(row, label), part, row) for part, row in cells if "rmse" in row[label]]
    silent = [entry for entry in fitted if not entry[2][label]["warned"]]
    worse = [row for found, _, row in silent if found > WORSE]
    worst = max(silent, key=lambda entry: entry[0], default=None)
    ridge = [ratio(row, label, "best") for _, _, row in fitted]
    return {
        "method": label,
        "raised": len(cells) - len(fitted),
        "warned": len(fitted) - len(silent),
        "needless": sum(bool(row[label]["warned"]) and found <= WORSE for found, _, row in fitted),
        "worst": cell(*worst) if worst else "",
        "worse": len(worse),
        "late": sum(row["n"] >= SIZES[1] for row in worse),
        "ridge": np.median(ridge),
        "above": sum(found > WORSE for found in ridge),
    }


COLUMNS = {
    "": "{method}",
    "cells that raised": "{raised}",
    "that warned": "{warned}",
    f"of these up to {WORSE}": "{needless}",
    "worst of the others": "{worst}",
    f"of the others above {WORSE}": "{worse}",
    "of these from 10,000 transitions on": "{late}",
    f"over numpy's with its best ridge: median, above {WORSE}": "{ridge:.2f}, {above}",
}


def verdict(results):
    """The table of the worst cases of each method."""
    cells = [(part, row) for part, rows in results.items() for row in rows]
    return table([of_method(label, cells) for label in METHODS], COLUMNS)
