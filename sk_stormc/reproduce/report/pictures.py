"""The report's pictures, drawn by `sk_stormc.plotting`."""

import numpy as np

from sk_stormc.reproduce.complexity import METHODS as ROWS
from sk_stormc.reproduce.complexity import Measured
from sk_stormc.reproduce.report.claims import TITLES, slopes
from sk_stormc.reproduce.report.grids import PARTS
from sk_stormc.reproduce.report.plan import COMPLEXITY
from sk_stormc.reproduce.slopes import draw_slopes
from sk_stormc.reproduce.sne import LABELS as SNE_LABELS

__all__ = ["draw"]

LABELS = {
    "portfolio": ["gap  $(\\Phi(x) - \\Phi^*) / |\\Phi^*|$", "exact gradient  $|\\nabla\\Phi(x)|$"],
    "streaming": ["gap  $(\\Phi(x) - \\Phi^*) / |\\Phi^*|$", "exact gradient  $|\\nabla\\Phi(x)|$"],
    "bellman": ["gap / gap at the start", "exact gradient  $|\\nabla\\Phi(w)|$"],
    "sne": SNE_LABELS,
}
DPI = 110


def draw(results, out):
    """Draw and save all pictures."""
    from sk_stormc.plotting import plot_curves, plot_embeddings  # matplotlib: not for --help

    names = {}

    def save(key, name, figure):
        names[key] = f"{name}.png"
        figure.savefig(out / names[key], dpi=DPI)

    for experiment in TITLES:
        for part in PARTS:
            panels = {
                case: {method: [_run(curve, piece) for curve in piece["curves"]] for method, piece in by.items()}
                for case, by in results.part(experiment, part).items()
            }
            save((experiment, part), f"{experiment}_{part}", plot_curves(panels, LABELS[experiment]))
    maps = results["sne/maps"]
    panels = {f"{title}\nKL {found['kl']:.2f}": np.array(found["points"]) for title, found in maps["maps"].items()}
    save("maps", "sne_maps", plot_embeddings(panels, np.array(maps["labels"])))
    save("complexity", "complexity", draw_slopes(_measured(results)))
    return names


def _run(curve, piece):
    """(ifo, y_1, y_2)."""
    return curve["ifo"], np.array(curve["gap"]) / (piece["scale"] or 1.0), np.array(curve["gradient"])


def _measured(results):
    fitted, found = slopes(results), []
    for method in COMPLEXITY:
        stored = results[f"complexity/{method}"]
        for row in ROWS[method]:
            it = {name: np.array(value) for name, value in stored[row.name].items()}
            found.append(Measured(row, it["epsilons"], it["ifo"], it["resampled"], fitted[row.name]))
    return found
