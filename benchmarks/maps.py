"""Maps of several kinds of data by SNEEmbedding, scikit-learn's TSNE and openTSNE,
judged by several measures.

Each fit has a fresh process with one thread. KL is on a P of its own that is the same
for all (perplexity 30, 91 neighbours), with exact normalisers. The seeds are those of
the data and of the methods, and nothing in the library was chosen on them.

Parts can be run one at a time: each is stored when it ends, beside those that were
stored before. The maps of the other packages take most of the time, and do not depend
on this one. Where the variable BENCHMARK_MAPS names a folder, they are kept there, one
file each, so that a part that was broken off goes on where it was. Seconds are never
taken from there: the parts "times_..." run all methods in turn.
"""

import io

from PIL import Image

from benchmarks import _sne_tables
from benchmarks._sne_bench import Bench, add
from benchmarks._sne_kinds import KINDS
from benchmarks._sne_panel import panel
from benchmarks._sne_parts import FURTHER, METHODS
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.plotting import align_embedding, plot_embeddings

DURATION = "40 minutes"  # with kept maps of the other packages, 3 hours without
NEEDS_DATA = False
PACKAGES = ("scikit-learn", "openTSNE")
FIRST_SEED = 40
CASES = [  # kind, points, seeds, whether scikit-learn takes part
    ("digits", 500, 5, True),
    ("digits", 1797, 5, True),
    ("augmented digits", 5000, 5, True),
    ("augmented digits", 20_000, 5, True),
    ("augmented digits", 70_000, 1, False),
    ("counts", 500, 5, True),
    ("counts", 1797, 3, True),
    ("counts", 5000, 1, True),
    ("counts", 20_000, 1, False),
    ("texts", 1797, 3, True),
    ("texts", 5000, 1, True),
    ("texts", 20_000, 1, False),
    ("swiss roll", 1000, 5, True),
    ("swiss roll", 4000, 1, True),
    ("far clusters", 4000, 1, True),
    ("uneven clusters", 500, 5, True),
    ("uneven clusters", 4000, 1, True),
    ("blobs", 1000, 5, True),
    ("hierarchy", 1200, 5, True),
    ("s curve", 1500, 5, True),
    ("uniform noise", 2000, 3, True),
    ("tree", 2000, 3, True),
    ("rings", 1000, 3, True),
]
CASES = {f"{case[0]} {case[1]}".replace(" ", "_"): case for case in CASES}
DRAWN = CASES.keys() - {"counts_500", "counts_20000", "texts_1797", "texts_20000"}
PARTS = dict.fromkeys([*CASES, *FURTHER])
COLOURS = 64  # of pictures, as small files


def run_part(name, quick, images):
    """Measure one part, and put pictures into a folder: a record for each method, of
    lists over the seeds."""
    return (
        FURTHER[name](Bench(quick))
        if name in FURTHER
        else judged(Bench(quick), name, images)
    )


def judged(bench, name, images):
    """The panel of all methods, and a picture of the maps of the first seed where a
    page shows it."""
    kind, n, n_seeds, with_sklearn = CASES[name]
    rows = {}
    for seed in range(FIRST_SEED, FIRST_SEED + (1 if bench.quick else n_seeds)):
        X, y = KINDS[kind](bench.size(n), seed)
        P, maps = perplexity_affinities(X, 30.0), {}
        for label, method in METHODS:
            if method == "sklearn" and not with_sklearn:
                continue
            row = bench.row(rows, label, method, data=kind, n=len(X))
            if row:
                Z = bench.kept_fit(method, kind, X, seed)["Z"]
                measured = panel(X, y, P, Z)
                add(row, measured)
                maps[f"{label}\nKL {measured['kl']:.3f}"] = Z
                print(f"{name}, {label}, seed {seed}: {measured}", flush=True)
        if images and name in DRAWN and seed == FIRST_SEED:
            draw_maps(images / f"maps_{name}.png", maps, y)
    return list(rows.values())


def draw_maps(path, maps, labels):
    """Maps side by side by their titles, aligned with the first."""
    first = next(iter(maps.values()))
    aligned = {
        title: align_embedding(Z, first, scale=False) for title, Z in maps.items()
    }
    figure = plot_embeddings(aligned, labels)
    for ax in figure.axes:
        ax.collections[0].set_sizes([0.8])
    save_small(figure, path)


def save_small(figure, path):
    """Save a figure with a palette in place of all colours."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=160)
    with Image.open(file) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    path.parent.mkdir(parents=True, exist_ok=True)
    few.save(path, optimize=True)


def tables(stored):
    """The tables of all parts, of each kind of data, and of where SNEEmbedding is
    behind the better of the others."""
    return _sne_tables.tables(stored["results"], CASES)
