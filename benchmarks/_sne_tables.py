"""The tables of the benchmark of maps."""

import numpy as np

from benchmarks._sne_panel import DEPTHS, MEASURES
from benchmarks._tables import markdown

NOT_YET = markdown(["not measured yet"], [["`--parts {}`"]])
LABELS = ["10-NN", "silhouette", "pieces", "all pieces", "class radius"]
NAMES = ["KL", "T5", *(f"recall at {k}" for k in DEPTHS), *LABELS, "rank"]  # of MEASURES
SPECS = {
    "kl": ".3f",
    "pieces": ".0f",
    "all pieces": ".0f",
    "silhouette": ".3f",
    "class radius": ".3f",
    "rank correlation": ".3f",
}
LESS = ("kl", "pieces", "all pieces")  # the less, the better
SHAPES = (
    *("far clusters", "uneven clusters", "blobs", "hierarchy"),
    *("swiss roll", "s curve", "uniform noise", "tree", "rings"),
)
SHOWN = "augmented_digits_20000"  # in README, with "times_20000"
README_MEASURES = ("kl", "t5", "accuracy", "pieces")


def tables(stored, cases, further):
    """All tables by their names.

    Parameters
    ----------
    stored : dict
        What `_tables.load` returned.
    cases : dict
        The kind of data of each part of the panel comes first.
    further : iterable of str
        The other parts.
    """
    results = stored["results"]
    timed = [row for part, rows in results.items() if part.startswith("times_") for row in rows]
    of_kinds = {}
    for part, (kind, *_) in cases.items():
        of_kinds.setdefault("shapes" if kind in SHAPES else kind.split()[-1], []).append(part)
    found = {name: judged(results, parts) for name, parts in of_kinds.items()}
    found["shown"] = shown(results.get(SHOWN, []), results.get("times_20000", []))
    found["behind"] = behind([results[part] for part in cases if part in results])
    found["times"] = times(timed) if timed else NOT_YET.format("times_1797")
    for part in further:
        if part in results and part in TABLES:
            found[part] = TABLES[part](results[part])
        elif part in TABLES:
            found[part] = NOT_YET.format(part)
    return found


def median(row, key, spec):
    """The median of a row's list as text; nothing where there is none."""
    values = [value for value in row.get(key) or [] if value is not None]
    return format(float(np.median(values)), spec) if values else ""


def spread(values, spec):
    """The median, and the least and largest where there are several."""
    middle = format(float(np.median(values)), spec)
    return middle if len(set(values)) == 1 else f"{middle} ({min(values):{spec}} to {max(values):{spec}})"


def ratio(row, other, key, spec=".1f"):
    """The median of one row over that of another."""
    if not row.get(key) or not other.get(key):
        return ""
    return format(float(np.median(row[key]) / np.median(other[key])), spec)


def label(row):
    """The data of a row."""
    return f"{row['data']}, n = {row['n']:,}" + (f", d = {row['d']}" if "d" in row else "")


def seconds(row):
    """CPU seconds, or why there are none."""
    return f"({row['skipped']})" if "skipped" in row else median(row, "seconds", ".1f")


# The panel


def judged(results, parts):
    """Medians over the seeds, of KL the spread too; of the parts that have been measured."""
    lines = []
    for part in parts:
        for row in results.get(part, ()):
            name = f"{row['data']}, {row['n']:,}" if row["data"] in SHAPES else f"{row['n']:,}"
            lines.append([name, row["method"], *cells_of(row)])
    return markdown(["points", "method", *NAMES], lines) if lines else NOT_YET.format(parts[0])


def shown(rows, timed):
    """The rows of one data set with their times, of the measures in `README_MEASURES`."""
    by_method = {row["method"]: seconds(row) for row in timed}
    kept = [MEASURES.index(key) for key in README_MEASURES]
    lines = []
    for row in rows:
        cells = cells_of(row)
        lines.append([row["method"], by_method.get(row["method"], ""), *(cells[k] for k in kept)])
    return markdown(["method", "CPU s", *(NAMES[k] for k in kept)], lines)


def cells_of(row):
    """The measures of a row as text."""
    if "skipped" in row:
        return [f"({row['skipped']})", *[""] * (len(NAMES) - 1)]
    return [spread(row["kl"], ".3f"), *(median(row, key, SPECS.get(key, ".4f")) for key in MEASURES[1:])]


def behind(parts):
    """By how much SNEEmbedding is behind the better peer, for each data set and measure; empty where it is not."""
    lines = []
    for rows in parts:
        ours, peers = rows[0], [row for row in rows[1:] if "skipped" not in row]
        cells = []
        for key in MEASURES:
            if key not in ours or not peers:
                cells.append("")
                continue
            sign = -1 if key in LESS else 1
            best = max(sign * float(np.median(peer[key])) for peer in peers)
            lag = best - sign * float(np.median(ours[key]))
            cells.append(format(lag, SPECS[key] if key.endswith("pieces") else ".4f") if lag > 0 else "")
        lines.append([f"{ours['data']}, {ours['n']:,}", *cells])
    return markdown(["data", *NAMES], lines)


# Further parts


def by_size(rows):
    """The rows of each data set, size and dimension together, in their order."""
    found = {}
    for row in rows:
        found.setdefault((row["data"], row["n"], row.get("d")), []).append(row)
    return found.values()


def times(rows):
    """Seconds of all methods at each size, over the first's, and the largest memory."""
    lines = []
    for group in by_size(rows):
        for row in group:
            over = "" if row is group[0] else ratio(row, group[0], "seconds")
            apart = [median(row, "search", ".1f"), median(row, "of_kl", ".1f"), median(row, "peak", ".2f")]
            lines.append([f"{row['n']:,}", row["method"], seconds(row), over, *apart])
    header = ["points", "method", "CPU s", "over ours", "of it the search", "`kl_divergence_` besides, if it is read"]
    return markdown([*header, "peak GB"], lines)


def methods(rows):
    """Methods side by side."""
    lines = []
    for group in by_size(rows):
        for row in group:
            cells = [median(row, key, ".4f") for key in ("kl", "t5", "accuracy")]
            lines.append([label(row), row["method"], *([seconds(row)] if "seconds" in row else []), *cells])
    timed = ["CPU s"] if "seconds" in rows[0] else []
    return markdown(["data", "method", *timed, "KL", "T5", "10-NN"], lines)


def robustness(rows):
    """How far maps move, the worst KL and the farthest point."""
    of_map = ["disparity, median", "largest", "KL, median", "largest over the median", "farthest point"]
    header = ["data", "change", "runs", *of_map]
    lines = [
        [
            label(row),
            row["kind"],
            str(len(row["kl"])),
            median(row, "disparity", ".4f"),
            f"{max(row['disparity']):.4f}",
            median(row, "kl", ".4f"),
            f"{max(row['kl']) / np.median(row['kl']):.3f}",
            f"{max(row['farthest']):.2f}",
        ]
        for row in rows
    ]
    return markdown(header, lines)


def transform(rows):
    """New samples."""
    header = ["data", "method", "10-NN", "T5", "largest radius over the training data's", "CPU s"]
    lines = [
        [
            f"{label(row)}, {row['new']} new",
            row["method"] + (f" ({row['skipped']})" if "skipped" in row else ""),
            *(f"{np.mean(row[key]):.4f}" if key in row else "" for key in ("accuracy", "t5")),
            median(row, "radius", ".2f"),
            median(row, "seconds", ".2f"),
        ]
        for row in rows
    ]
    return markdown(header, lines)


def search(rows):
    """The search and what follows it."""
    header = ["neighbours", "search, CPU s", "everything", "recall of the search", "KL", "T5", "10-NN"]
    keys = {"search": ".1f", "seconds": ".1f", "recall": ".4f", "kl": ".4f", "t5": ".4f", "accuracy": ".4f"}
    return markdown(header, [[row["method"], *(median(row, *of) for of in keys.items())] for row in rows])


def ablations(rows):
    """Maps without one mechanism each, below the map with all."""
    keys = {"seconds": ".1f", "kl": ".3f", "t5": ".4f", "recall 10": ".4f", "recall 100": ".4f", "recall 500": ".4f"}
    keys |= {key: SPECS[key] for key in ("pieces", "class radius")}
    header = ["data", "without", "CPU s", "KL", "T5", *(f"recall at {k}" for k in (10, 100, 500)), *list(keys)[-2:]]
    return markdown(header, [[label(row), row["without"], *(median(row, *of) for of in keys.items())] for row in rows])


TABLES = {
    "ablations": ablations,
    "ablations_70000": ablations,
    "dimensions": methods,
    "gaussian": methods,
    "robustness": robustness,
    "transform": transform,
    "search": search,
}
