"""The report's text: Markdown, made of what the pieces found."""

import numpy as np

from sk_stormc import __version__
from sk_stormc.reproduce.report.claims import CLAIMS, RULE, TITLES, slopes, verdict
from sk_stormc.reproduce.report.grids import PARTS, variants_of
from sk_stormc.reproduce.report.notes import NAMES, about, note, short
from sk_stormc.reproduce.report.plan import COMPLEXITY
from sk_stormc.reproduce.tuning import KEPT

__all__ = ["write_report"]

PAPER = (
    'Yuan & Hu, "Stochastic Recursive Momentum Method for Non-Convex Compositional Optimization" '
    "(STORM-Compositional, STORM-C)"
)
PART_TITLES = {
    "published": "at the published constants",
    "tuned": "every method tuned",
}
CORRECTED = """\
Proposition 3.2 as printed has B_f on both sides of its formula, c where its square belongs, and a closing formula
without the factor (32/3) L_Phi Delta. `sk_stormc.theory.storm_parameters` has the printed form (variant="paper") and
the corrected one.
"""
GAPS = {
    "portfolio": "(Phi - Phi\\*) / |Phi\\*|",
    "streaming": "(Phi - Phi\\*) / |Phi\\*|",
    "bellman": "(Phi - Phi\\*) / (Phi(w_0) - Phi\\*)",
    "sne": "KL",
}
SHOWN = dict.fromkeys(TITLES, "{:.2e}") | {"sne": "{:.4f}"}


def write_report(results, sizes, pictures, *, quick, days=None):
    """The whole report."""
    parts = [_head(results, quick), _claims(results), _reading(sizes)]
    for experiment in TITLES:
        parts.append(f"## {TITLES[experiment]}\n\n{about(experiment, sizes, days)}")
        for part in PARTS:
            parts.append(f"### {TITLES[experiment]}, {PART_TITLES[part]}\n\n{note(experiment, part, sizes)}")
            parts.append(_table(results, experiment, part))
            parts.append(f"![{TITLES[experiment]}, {PART_TITLES[part]}]({pictures[experiment, part]})")
        if experiment == "sne":
            parts.append(
                "In two dimensions, coloured by digit. From x_i = i/n in every coordinate the points stay on a line."
                f"\n\n![Embeddings of digits in two dimensions]({pictures['maps']})"
            )
    parts += [_complexity(results, sizes, pictures["complexity"]), _defaults(results)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _head(results, quick):
    lines = [
        "# The paper's experiments, repeated",
        f"{PAPER}. Made by `python -m sk_stormc reproduce all{' --quick' if quick else ''}`, sk_stormc {__version__}, "
        f"in {_time(results.seconds)} of processor time. Costs are oracle calls (IFO): one call is one sampled "
        "component of g, of its Jacobian or of the gradient of f.",
    ]
    if quick:
        lines.append(
            "**This is the quick report: smaller problems, budgets, grids and fewer seeds.** Its verdicts are those of "
            "the small experiments. Without `--quick` the sizes are the paper's."
        )
    return "\n\n".join(lines)


def _claims(results):
    rows = []
    for claim in CLAIMS:
        published, tuned, numbers = claim.decide(results)
        only_tuned = ", holds when tuned" if tuned is True and not published else ""
        rows.append((claim.source, claim.text, f"**{verdict(published, tuned, claim.theory)}**{only_tuned}", numbers))
    return (
        "## What holds\n\n"
        + _markdown(("where", "claim", "verdict", "the numbers"), rows)
        + "\n\nThe numbers of the experiments are the ends of runs, as the rule has them: medians over the seeds, "
        "STORM-C's first, then that of the best of the others.\n\n"
        "### How a verdict is decided\n\n" + RULE + "\n" + CORRECTED
    )


def _reading(sizes):
    rates = sizes["rates"]
    seeds, tuning = sizes["seeds"], sizes["tuning_seeds"]
    lines = [
        "## How methods were run",
        "",
        "- **Published constants**: those of the paper for STORM-C, and of the published scripts for the other "
        "methods, for which the paper has none.",
        f"- **Tuned**: for each method and data set the learning rate is c / L with c from "
        f"{', '.join(map(short, rates))} (L: the largest curvature of Phi), times the variants in the next table, "
        "three a method. The published constants are one more setting. All are run with "
        f"seed {tuning[0]}, the best {KEPT} also with {', '.join(map(str, tuning[1:]))}, and the smallest median gap "
        "at the end of the budget is taken. These seeds are used for nothing else. SNE has a grid of its own, below.",
        f"- Reported are medians over the seeds 0 to {seeds - 1}, and the worst of them. All methods have the same "
        "budget and start.",
        "- In the pictures a line is the median and a band the quartiles over the seeds. Methods have the names of the "
        "library's solvers. STORM-C is Algorithm 1, storm-c-paper.",
    ]
    rows = []
    for experiment in ("portfolio", "streaming", "bellman"):
        alike = {}
        for method, variants in variants_of(experiment).items():
            alike.setdefault("; ".join(variants), []).append(NAMES[method])
        rows += [(TITLES[experiment], ", ".join(names), text) for text, names in alike.items()]
    return "\n".join([*lines, "", _markdown(("experiment", "methods", "variants"), rows)])


def _ends(piece, shown):
    """Calls, median and worst gap, and seconds of the runs of a piece, as cells."""
    scale, curves = piece["scale"] or 1.0, piece["curves"]
    gaps = [np.inf if curve["failed"] else curve["gap"][-1] / scale for curve in curves]
    gaps = [shown.format(gap) if np.isfinite(gap) else "overflow" for gap in (np.median(gaps), np.max(gaps))]
    calls, seconds = np.median([(curve["ifo"][-1], curve["seconds"]) for curve in curves], axis=0)
    return [f"{calls:,.0f}", *gaps, f"{seconds:.2g}"]


def _table(results, experiment, part):
    tuned = part == "tuned"
    header = ["data", "method", "calls", f"median {GAPS[experiment]}", "worst", "seconds a run"] + ["setting"] * tuned
    rows, ends = [], False
    for case, methods in results.part(experiment, part).items():
        for method, piece in methods.items():
            base, mark, extra = method.partition(" (")
            row = [case, NAMES[base] + mark + extra, *_ends(piece, SHOWN[experiment])]
            if tuned:
                row.append(piece["setting"] + (" \\*" if piece["at_end"] else ""))
                ends = ends or piece["at_end"]
            rows.append(row)
    text = _markdown(header, rows)
    if tuned:
        text += "\n\nA setting begins with c." if experiment != "sne" else "\n\nA setting begins with the factor."
        text += " \\*: at an end of the grid; a wider one might do better." if ends else ""
    return text


def _defaults(results):
    rows = []
    for experiment in TITLES:
        for case, methods in results.part(experiment, "defaults").items():
            rows += [
                (TITLES[experiment], case, NAMES[method], *_ends(piece, SHOWN[experiment]))
                for method, piece in methods.items()
            ]
    return (
        "## With this library's defaults\n\n"
        'Nothing of this is in the paper: `minimize(problem, method)` with a budget and nothing else. "storm-c" is the '
        "library's rule with anchors (on streams its single loop, with momentum 1/(t+1)), and L-BFGS shows what a "
        "method without sampling does. Problems have their metrics, SNE begins at principal components, and runs stop "
        "by themselves where their rule says so. Gaps are those of the tables above, and KL for SNE.\n\n"
        + _markdown(("experiment", "data", "method", "calls", "median gap", "worst", "seconds a run"), rows)
    )


def _complexity(results, sizes, picture):
    size, found, rows = sizes["complexity"], slopes(results), []
    for name, row in ((name, row) for method in COMPLEXITY for name, row in results[f"complexity/{method}"].items()):
        s = found[name]
        cells = [f"{eps:.3g}: {ifo:.3g}" for eps, ifo in zip(row["epsilons"], row["ifo"], strict=True)]
        rows.append((name, f"{s.value:.2f}", f"[{s.low:.2f}, {s.high:.2f}]", ", ".join(cells)))
    return (
        "## Complexity\n\n"
        "A bent valley in ten variables that falls for ever, not convex, its constants known by formula. A run's value "
        "is the average of the exact |grad Phi| over its iterates and over "
        f"{size['seeds']} seeds; calls are those of the shortest run whose value is at most eps. Parameters follow eps "
        "by the theory's orders, times constants that are the same for all eps. Those of STORM-C come from a coarse "
        "grid at two values of eps, on other seeds; those of SARAH-C and of the row a_t = 1/(t+1), of which the paper "
        "proves nothing, are not tuned. The exponent is fitted to log calls against log(1/eps), with a 95 % "
        "interval.\n\n"
        + _markdown(("method", "exponent", "interval", "eps: calls"), rows)
        + f"\n\n![Calls against eps, with fitted lines]({picture})"
    )


def _markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _time(seconds):
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
