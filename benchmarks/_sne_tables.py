"""The tables of the benchmark of maps. A record has a list over the seeds for each
measure."""

import numpy as np

from benchmarks._sne_panel import DEPTHS, MEASURES
from benchmarks._tables import table

LESS = ("kl", "pieces", "all pieces")  # the less, the better
SHAPES = (
    *("far clusters", "uneven clusters", "blobs", "hierarchy"),
    *("swiss roll", "s curve", "uniform noise", "tree", "rings"),
)
SHOWN = "augmented_digits_20000"  # in README, with "times_20000"


def median(key, spec=".4f"):
    """A column: the median of a list; nothing where there are no numbers."""

    def text(row):
        values = [value for value in row.get(key, ()) if value is not None]
        return format(float(np.median(values)), spec) if values else ""

    return text


def divergence(row):
    """The median of KL, and the least and largest where there are several; or why there
    is none."""
    if "skipped" in row:
        return f"({row['skipped']})"
    values = row["kl"]
    middle = f"{np.median(values):.3f}"
    return (
        middle
        if len(set(values)) == 1
        else f"{middle} ({min(values):.3f} to {max(values):.3f})"
    )


def seconds(row):
    """CPU seconds, or why there are none."""
    return f"({row['skipped']})" if "skipped" in row else median("seconds", ".1f")(row)


def data(row):
    """The data of a record."""
    return f"{row['data']}, n = {row['n']:,}" + (
        f", d = {row['d']}" if "d" in row else ""
    )


RECALLS = {f"recall at {k}": median(f"recall {k}") for k in DEPTHS}
PANEL = {  # in the order of MEASURES
    "KL": divergence,
    "T5": median("t5"),
    **RECALLS,
    "10-NN": median("accuracy"),
    "silhouette": median("silhouette", ".3f"),
    "pieces": median("pieces", ".0f"),
    "all pieces": median("all pieces", ".0f"),
    "class radius": median("class radius", ".3f"),
    "rank": median("rank correlation", ".3f"),
}
ABLATIONS = {
    "data": data,
    "left out": "{without}",
    "CPU s": seconds,
    "KL": median("kl", ".3f"),
    "T5": median("t5"),
    **{name: column for name, column in RECALLS.items() if name != "recall at 30"},
    "pieces": PANEL["pieces"],
    "class radius": PANEL["class radius"],
}
DIMENSIONS = {
    "data": data,
    "method": "{method}",
    "KL": median("kl"),
    "T5": median("t5"),
    "10-NN": median("accuracy"),
}
TRANSFORM = {
    "data": lambda row: f"{data(row)}, {row['new']} new",
    "method": lambda row: (
        row["method"] + (f" ({row['skipped']})" if "skipped" in row else "")
    ),
    "10-NN": lambda row: f"{np.mean(row['accuracy']):.4f}" if "accuracy" in row else "",
    "T5": lambda row: f"{np.mean(row['t5']):.4f}" if "t5" in row else "",
    "largest radius, relative to the training data": median("radius", ".2f"),
    "CPU s": median("seconds", ".2f"),
}
COLUMNS = {
    "ablations": ABLATIONS,
    "ablations_70000": ABLATIONS,
    "dimensions": DIMENSIONS,
    "gaussian": {"data": data, "method": "{method}", "CPU s": seconds, **DIMENSIONS},
    "transform": TRANSFORM,
}


def tables(results, cases):
    """All tables of what was measured, by their names; the kind of data of a case comes
    first."""
    parts = {}
    for part, (kind, *_) in cases.items():
        parts.setdefault("shapes" if kind in SHAPES else kind.split()[-1], []).append(
            part
        )
    rows = {
        name: [row for part in of_kind for row in results.get(part, ())]
        for name, of_kind in parts.items()
    }
    found = {
        name: table(of_kind, {"points": points, "method": "{method}", **PANEL})
        for name, of_kind in rows.items()
    }
    timed = [
        row
        for part, rows in results.items()
        if part.startswith("times_")
        for row in rows
    ]
    found["shown"] = shown(results.get(SHOWN, []), results.get("times_20000", []))
    found["behind"] = behind([results[part] for part in cases if part in results])
    found["times"] = times(timed)
    return found | {
        part: table(results[part], columns)
        for part, columns in COLUMNS.items()
        if part in results
    }


def points(row):
    """How many points, and the kind where a table has several."""
    return f"{row['data']}, {row['n']:,}" if row["data"] in SHAPES else f"{row['n']:,}"


def shown(rows, timed):
    """Four measures of one data set, with the times of all methods."""
    by_method = {row["method"]: seconds(row) for row in timed}
    measures = {name: PANEL[name] for name in ("KL", "T5", "10-NN", "pieces")}
    return table(
        rows,
        {
            "method": "{method}",
            "CPU s": lambda row: by_method.get(row["method"], ""),
            **measures,
        },
    )


def behind(parts):
    """By how much SNEEmbedding is behind the better peer, for each data set and
    measure; empty where it is not."""
    rows = []
    for ours, *peers in parts:
        peers = [row for row in peers if "skipped" not in row]
        rows.append(
            {"data": f"{ours['data']}, {ours['n']:,}"}
            | {key: lag(key, ours, peers) for key in MEASURES}
        )
    return table(
        rows,
        {
            "data": "{data}",
            **{name: f"{{{key}}}" for name, key in zip(PANEL, MEASURES, strict=True)},
        },
    )


def lag(key, ours, peers):
    """By how much one record is behind the best of others by one measure, as text."""
    if key not in ours or not peers:
        return ""
    sign = -1 if key in LESS else 1
    best = max(sign * float(np.median(peer[key])) for peer in peers)
    found = best - sign * float(np.median(ours[key]))
    return (
        format(found, ".0f" if key.endswith("pieces") else ".4f") if found > 0 else ""
    )


def times(rows):
    """Seconds of all methods at each size, over those of SNEEmbedding, and the largest
    memory."""
    ours = {
        row["n"]: np.median(row["seconds"])
        for row in rows
        if row["method"] == "SNEEmbedding"
    }

    def over(row):
        if row["method"] == "SNEEmbedding" or "skipped" in row:
            return ""
        return f"{np.median(row['seconds']) / ours[row['n']]:.1f}"

    return table(rows, {
        "points": "{n:,}",
        "method": "{method}",
        "CPU s": seconds,
        "ratio to SNEEmbedding": over,
        "search, CPU s": median("search", ".1f"),
        "`kl_divergence_` if read, CPU s": median("of_kl", ".1f"),
        "peak GB": median("peak", ".2f"),
    })  # fmt: skip
