"""Ways to evaluate a policy from its log, held against numpy's LSTD: the rows of the tables and their verdict."""

import warnings

import numpy as np
from scipy import sparse

from benchmarks._bellman_logs import Log
from benchmarks._tables import markdown
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
    if chunk and not hasattr(model, "partial_fit"):
        return {"error": f'"{solver}" has no partial_fit'}
    rows = log.rows
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for start in range(0, n, chunk or n):
                part = slice(start, min(n, start + (chunk or n)))
                work = model.partial_fit if chunk else model.fit
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


# Tables


def ratio(row, label, reference="numpy"):
    """A method's RMSE over numpy's; None where it was not run."""
    entry, least = row[label], FLOOR * row["size"]
    if "error" in entry:
        return None
    rmse = np.inf if entry["rmse"] is None else entry["rmse"]
    return max(rmse, least) / max(row[reference], least)


def cell(row, label):
    """The ratio, with an asterisk where the method warned."""
    found = ratio(row, label)
    if found is None:
        return "error"
    text = "not finite" if found == np.inf else f"{found:.2f}" if found < 99.995 else f"{found:.1e}"
    return text + " *" * bool(row[label]["warned"])


def name_of(part):
    """An environment's name as the tables have it."""
    return {"frozen_lake": "FrozenLake 4x4", "frozen_lake_8x8": "FrozenLake 8x8"}.get(
        part, "".join(word.capitalize() for word in part.split("_"))
    )


def all_cells(results):
    """The table of all environments, sizes and gammas."""
    header = ["", "transitions", "gamma", "values, RMS", "numpy's RMSE", "with its best ridge", *METHODS]
    rows = []
    for part, found in results.items():
        for k, row in enumerate(found):
            error = f" ({row['error']:.2g})" if row["error"] else ""
            first = [name_of(part) if k == 0 else "", f"{row['n']:,}", f"{row['gamma']:g}"]
            best = f"{row['best']:.3g} ({row['best_alpha']:g})" if row.get("best", np.inf) < row["numpy"] else ""
            numbers = [f"{row['size']:.3g}{error}", f"{row['numpy']:.3g}", best]
            rows.append([*first, *numbers, *(cell(row, label) for label in METHODS)])
    return markdown(header, rows)


def verdict(results):
    """The table of the worst cases of each method."""
    cells = [(part, row) for part, rows in results.items() for row in rows]
    rows = []
    for label in METHODS:
        known = [(ratio(row, label), part, row) for part, row in cells if ratio(row, label) is not None]
        silent = [entry for entry in known if not entry[2][label]["warned"]]
        worse = [entry for entry in silent if entry[0] > WORSE]
        late = sum(row["n"] >= SIZES[1] for _, _, row in worse)
        worst = max(silent, key=lambda entry: entry[0], default=None)
        where = worst and f"{cell(worst[2], label)} ({name_of(worst[1])}, {worst[2]['n']:,}, {worst[2]['gamma']:g})"
        needless = sum(bool(row[label]["warned"]) and found <= WORSE for found, _, row in known)
        counts = [len(cells) - len(known), len(known) - len(silent), needless]
        ridge = [ratio(row, label, "best") for _, row in cells if "rmse" in row[label] and "best" in row]
        median = f"{np.median(ridge):.2f}, {sum(found > WORSE for found in ridge)}" if ridge else ""
        rows.append([label, *map(str, counts), where or "", str(len(worse)), str(late), median])
    header = ["", "cells that raised", "that warned", f"of these up to {WORSE}", "worst of the others",
              f"of the others above {WORSE}", "of these from 10,000 transitions on",
              f"over numpy's with its best ridge: median, above {WORSE}"]  # fmt: skip
    return markdown(header, rows)
