"""Maps of three kinds of data by SNEEmbedding, scikit-learn's TSNE and openTSNE, judged by several measures.

Each fit has a fresh process with one thread. KL is on a P of its own that is the same for all (perplexity 30, 91
neighbours). The seeds are those of the data and of the methods, and nothing in the library was chosen on them.
"""

import numpy as np

from benchmarks._sne_bench import Bench
from benchmarks._sne_kinds import KINDS
from benchmarks._sne_panel import DEPTHS, MEASURES, panel
from benchmarks._sne_pictures import draw_maps
from benchmarks._tables import markdown
from sk_stormc.affinities import perplexity_affinities

DURATION = "2 hours"
NEEDS_DATA = False
PACKAGES = ("scikit-learn", "openTSNE")
METHODS = (("SNEEmbedding", "ours"), ("scikit-learn TSNE", "sklearn"), ("openTSNE", "openTSNE"))
FIRST_SEED = 40
CASES = {  # part: kind, points, seeds, whether scikit-learn takes part
    **{f"{kind} {n}": (kind, n, seeds, True) for n, seeds in ((1797, 5), (5000, 3), (20_000, 1)) for kind in KINDS},
    "augmented digits 70000": ("augmented digits", 70_000, 1, False),
    "counts 70000": ("counts", 70_000, 1, False),
}
CASES = {name.replace(" ", "_"): case for name, case in CASES.items()}
PARTS = dict.fromkeys(CASES)


def run_part(name, quick, images):
    """Measure one part.

    Parameters
    ----------
    name : str
        Of `PARTS`.
    quick : bool
    images : Path or None
        The folder of the pictures.

    Returns
    -------
    list of dict
        One for each method: lists over the seeds.
    """
    kind, n, n_seeds, with_sklearn = CASES[name]
    rows = {}
    with Bench(quick, images) as bench:
        for seed in range(FIRST_SEED, FIRST_SEED + (1 if quick else n_seeds)):
            X, y = KINDS[kind](bench.size(n) if quick else n, seed)
            P, maps = perplexity_affinities(X, 30.0), {}
            for label, method in METHODS if with_sklearn else (METHODS[0], METHODS[2]):
                row = rows.setdefault(label, {"data": kind, "n": len(X), "method": label})
                reason = bench.missing(method, {})
                if reason:
                    row["skipped"] = reason
                    continue
                found = bench.fit(method, X, seed)
                measured = {"seconds": found["seconds"], **panel(X, y, P, found["Z"])}
                for key, value in measured.items():
                    row.setdefault(key, []).append(value)
                maps[f"{label}\nKL {measured['kl']:.3f}, {measured['seconds']:.0f} s"] = found["Z"]
                bench.say(f"{name}, {label}, seed {seed}: {measured}")
            if images and seed == FIRST_SEED and n >= 5000:
                draw_maps(images / f"maps_{name}.png", maps, y)
    return list(rows.values())


def tables(stored):
    """A table for each part, and one of where SNEEmbedding is behind the better of the two others."""
    results = stored["results"]
    found = {part: table(results[part]) if part in results else NOT_YET.format(part) for part in CASES}
    return found | {"behind": behind([results[part] for part in CASES if part in results])}


NOT_YET = markdown(["not measured yet"], [["`--parts {}`"]])
HEADER = ["method", "CPU s", "KL", "T5", *(f"recall at {k}" for k in DEPTHS), "10-NN", "silhouette", "pieces", "rank"]


def table(rows):
    """Medians over the seeds; of seconds and KL the spread too."""
    lines = []
    for row in rows:
        if "skipped" in row:
            lines.append([row["method"], f"({row['skipped']})", *[""] * (len(HEADER) - 2)])
            continue
        cells = [spread(row["seconds"], ".1f"), spread(row["kl"], ".3f")]
        for key in MEASURES[1:]:
            spec = ".0f" if key == "pieces" else ".3f" if key in ("silhouette", "rank correlation") else ".4f"
            cells.append(format(float(np.median(row[key])), spec) if key in row else "")
        lines.append([row["method"], *cells])
    return markdown(HEADER, lines)


def spread(values, spec):
    """The median, and the least and largest where there are several."""
    middle = format(float(np.median(values)), spec)
    return middle if len(values) == 1 else f"{middle} ({min(values):{spec}} to {max(values):{spec}})"


def behind(parts):
    """By how much SNEEmbedding is behind the better peer, for each data set and measure; empty where it is not."""
    less = {"kl", "pieces"}
    lines = []
    for rows in parts:
        ours, peers = rows[0], [row for row in rows[1:] if "skipped" not in row]
        cells = []
        for key in MEASURES:
            if key not in ours or not peers:
                cells.append("")
                continue
            sign = -1 if key in less else 1
            best = max(sign * float(np.median(peer[key])) for peer in peers)
            lag = best - sign * float(np.median(ours[key]))
            cells.append(f"{lag:.0f}" if key == "pieces" and lag > 0 else f"{lag:.4f}" if lag > 0 else "")
        times = [np.median(peer["seconds"]) / np.median(ours["seconds"]) for peer in peers]
        lines.append([f"{ours['data']}, {ours['n']:,}", " / ".join(f"{ratio:.1f}" for ratio in times), *cells])
    return markdown(["data", "times faster", *HEADER[2:]], lines)
