"""The tables of sne_vs_tsne."""

import numpy as np

from benchmarks._tables import markdown

NOT_YET = markdown(["not measured yet"], [["`--parts {}`"]])


def median(row, key, spec):
    """The median of a row's list as text; nothing where there is none."""
    values = [value for value in row.get(key) or [] if value is not None]
    return format(float(np.median(values)), spec) if values else ""


def ratio(row, other, key, spec=".2f"):
    """The median of one row over that of another."""
    if not row.get(key) or not other.get(key):
        return ""
    return format(float(np.median(row[key]) / np.median(other[key])), spec)


def label(row):
    """The data of a row."""
    return f"{row['data']}, n = {row['n']:,}" + (f", d = {row['d']}" if "d" in row else "")


def groups(rows):
    """The rows of each data set, size and dimension together, in their order."""
    found = {}
    for row in rows:
        found.setdefault((row["data"], row["n"], row.get("d")), []).append(row)
    return found.values()


def methods(rows):
    """Methods side by side; seconds and KL also over the first method's."""
    lines = []
    for group in groups(rows):
        for row in group:
            first = {} if row is group[0] else group[0]
            lines.append(
                [
                    label(row),
                    row["method"],
                    seconds(row),
                    ratio(row, first, "seconds"),
                    median(row, "kl", ".4f"),
                    ratio(row, first, "kl", ".3f"),
                    *(median(row, key, ".4f") for key in ("t5", "accuracy")),
                    median(row, "peak", ".2f"),
                ]
            )
    header = ["data", "method", "CPU s", "over ours", "KL", "over ours", "T5", "10-NN", "peak GB"]
    return markdown(header, lines)


def seconds(row):
    """CPU seconds, or why there are none."""
    return f"({row['skipped']})" if "skipped" in row else median(row, "seconds", ".1f")


def optimisation(rows):
    """Methods side by side, everything and the optimisation alone."""
    header = ["method", "everything, CPU s", "over ours", "optimisation", "over ours", "KL", "T5", "10-NN", "peak GB"]
    lines = []
    for row in rows:
        first = {} if row is rows[0] else rows[0]
        lines.append(
            [
                row["method"],
                seconds(row),
                ratio(row, first, "seconds"),
                median(row, "optimisation", ".1f"),
                ratio(row, first, "optimisation"),
                *(median(row, key, ".4f") for key in ("kl", "t5", "accuracy")),
                median(row, "peak", ".2f"),
            ]
        )
    return markdown(header, lines)


def scaling(rows):
    """Seconds by the number of points."""
    lines = [
        [
            f"{row['n']:,}",
            median(row, "search", ".1f"),
            median(row, "fit", ".1f"),
            ratio(row, before, "fit"),
            median(row, "t5", ".4f"),
            median(row, "peak", ".2f"),
        ]
        for before, row in zip([{}, *rows[:-1]], rows, strict=True)
    ]
    return markdown(["n", "search, CPU s", "fit of the graph", "over n / 2", "T5", "peak GB"], lines)


def million(rows):
    """One run from each start."""
    header = ["n", "start", "search, CPU s", "start, CPU s", "fit of the graph", "T5", "peak GB"]
    lines = []
    for row in rows:
        times = [f"{row[key]:.1f}" for key in ("search", "of_start", "fit")]
        lines.append([f"{row['n']:,}", row["start"], *times, f"{row['t5']:.4f}", f"{row['peak']:.1f}"])
    return markdown(header, lines)


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
    header = ["data", "search", "search, CPU s", "fit of the graph", "both", "KL", "T5"]
    lines = []
    for row in rows:
        others = [median(row, *of) for of in (("fit", ".1f"), ("seconds", ".1f"), ("kl", ".4f"), ("t5", ".4f"))]
        first = seconds(row) if "skipped" in row else median(row, "search", ".1f")
        lines.append([label(row), row["method"], first, *others])
    return markdown(header, lines)


TABLES = {
    "digits": methods,
    "n5000": methods,
    "n20000": methods,
    "dimensions": methods,
    "gaussian": methods,
    "n70000": optimisation,
    "scaling": scaling,
    "million": million,
    "shapes": methods,
    "robustness": robustness,
    "transform": transform,
    "search": search,
}


def tables(stored):
    """One table for each part; those that have not been measured say so."""
    results = stored["results"]
    return {
        part: table(results[part]) if results.get(part) else NOT_YET.format(part) for part, table in TABLES.items()
    }
