"""The report's text: Markdown, made of what the pieces found."""

import numpy as np

from sk_stormc import __version__
from sk_stormc.reproduce.report.claims import CLAIMS, RULE, TITLES, slopes, verdict
from sk_stormc.reproduce.report.grids import PARTS, variants_of
from sk_stormc.reproduce.report.notes import NAMES, about, note, short
from sk_stormc.reproduce.tuning import KEPT

__all__ = ["write_report"]

PAPER = (
    'Yuan & Hu, "Stochastic Recursive Momentum Method for Non-Convex Compositional Optimization" '
    "(STORM-Compositional, STORM-C)"
)
PART_TITLES = {
    "published": "at the published constants",
    "tuned": "every method tuned",
    "defaults": "with this library's defaults",
}
CORRECTED = """\
Proposition 3.2 as printed has B_f on both sides of its formula, because K_0 has a factor 1 / B_f and the bound on F has
the same factor again. In the corrected form K_0 is without it. The constant c stands squared, since it bounds |G_t| and
the lemma on F has squares, and the closing formula has the factor (32/3) L_Phi Delta that T / eps^-2 is. Both forms are
in `sk_stormc.theory.storm_parameters`, as variant="paper" and variant="corrected".
"""
GAPS = {
    "portfolio": "(Phi - Phi\\*) / |Phi\\*|",
    "streaming": "(Phi - Phi\\*) / |Phi\\*|",
    "bellman": "(Phi - Phi\\*) / (Phi(w_0) - Phi\\*)",
    "sne": "KL",
}


def write_report(results, sizes, pictures, *, quick, days=None):
    """The whole report.

    Parameters
    ----------
    results : Results
    sizes : dict
        `FULL` or `QUICK`.
    pictures : dict of str
        File names by (experiment, part), and by "complexity" and "maps".
    quick : bool
    days : dict of int, default=None
        Periods of the sets of daily returns by region, where streams are made of them.

    Returns
    -------
    str
    """
    parts = [_head(results, sizes, quick), _claims(results), _reading(sizes)]
    for experiment in TITLES:
        parts.append(f"## {TITLES[experiment]}\n\n{about(experiment, sizes, days)}")
        for part in PARTS:
            parts.append(f"### {TITLES[experiment]}, {PART_TITLES[part]}\n\n{note(experiment, part, sizes)}")
            parts.append(_table(results, experiment, part))
            parts.append(f"![{TITLES[experiment]}, {PART_TITLES[part]}]({pictures[experiment, part]})")
        if experiment == "sne":
            parts.append(
                "The same in two dimensions, coloured by digit. From x_i = i/n in every coordinate the points stay on "
                f"a line for ever.\n\n![Embeddings of digits in two dimensions]({pictures['maps']})"
            )
    parts.append(_complexity(results, sizes, pictures["complexity"]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _head(results, sizes, quick):
    lines = [
        "# The paper's experiments, repeated",
        f"{PAPER}. Made by `python -m sk_stormc reproduce all{' --quick' if quick else ''}`, sk_stormc {__version__}, "
        f"in {_time(results.seconds)} of processor time.",
    ]
    if quick:
        lines.append(
            "**This is the quick report: smaller problems, budgets, grids and fewer seeds.** Its verdicts are those of "
            "the small experiments. Without `--quick` the sizes are the paper's."
        )
    lines.append(
        "STORM-C minimises a composition f(g(x)) of two means from samples of both. It is compared with SCGD and "
        "ASC-PG, which average inner values, and with VRSC-PG and SARAH-C, which take large batches now and then "
        "and correct in between. Costs are counted in oracle calls (IFO): one call is one sampled component of g, of "
        "its Jacobian or of the gradient of f."
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
        + "\n\nThe numbers of the experiments say how far from the minimum runs ended, as a part of what there was to "
        "gain (the rule below has its definition): 0 is the minimum. They are medians over the seeds, STORM-C's first, "
        "then that of the best of the others.\n\n"
        "### How a verdict is decided\n\n" + RULE + "\n### The proposition corrected\n\n" + CORRECTED
    )


def _reading(sizes):
    rates = sizes["rates"]
    seeds, tuning = sizes["seeds"], sizes["tuning_seeds"]
    lines = [
        "## How methods were run",
        "- **Published constants**: those of the paper for STORM-C, and of the published scripts for the other "
        "methods, for which the paper has none.",
        f"- **Tuned**: for each method and data set the learning rate is c / L with c from "
        f"{', '.join(map(short, rates))} (L: the largest curvature of Phi), times the variants in the next table, "
        "three a method. The published constants are one more setting. All are run with "
        f"seed {tuning[0]}, the best {KEPT} also with {', '.join(map(str, tuning[1:]))}, and the smallest median gap "
        "at the end of the budget is taken. These seeds are used for nothing else. STORM-C is Algorithm 1 throughout. "
        "SNE has a grid of its own, below.",
        "- **Defaults**: `minimize(problem, method)` and nothing else but the budget. STORM-C is then the library's "
        "rule with anchors, which is not in the paper (on streams its single loop, with momentum 1/(t+1)); L-BFGS "
        "shows what a method without sampling does. Runs stop by themselves where their rule says so.",
        f"- Reported are medians over the seeds 0 to {seeds - 1}, and the worst of them. All methods have the same "
        "budget and start.",
        "- In the pictures a line is the median and a band the quartiles over the seeds, and methods have the names of "
        "the library's solvers: storm-c-paper is Algorithm 1, storm-c the library's own rule.",
    ]
    rows = []
    for experiment in ("portfolio", "streaming", "bellman"):
        alike = {}
        for method, variants in variants_of(experiment).items():
            alike.setdefault("; ".join(variants), []).append(NAMES[method])
        rows += [(TITLES[experiment], ", ".join(names), text) for text, names in alike.items()]
    return "\n".join([lines[0], "", *lines[1:], "", _markdown(("experiment", "methods", "variants"), rows)])


def _table(results, experiment, part):
    tuned = part == "tuned"
    header = ["data", "method", "calls", f"median {GAPS[experiment]}", "worst", "seconds a run"] + ["setting"] * tuned
    rows, ends = [], False
    for case, methods in results.part(experiment, part).items():
        for method, piece in methods.items():
            scale = piece["scale"] or 1.0
            gaps = [np.inf if curve["failed"] else curve["gap"][-1] / scale for curve in piece["curves"]]
            calls = np.median([curve["ifo"][-1] for curve in piece["curves"]])
            seconds = np.median([curve["seconds"] for curve in piece["curves"]])
            base, mark, extra = method.partition(" (")
            shown = "{:.4f}" if experiment == "sne" else "{:.2e}"
            shown = [shown.format(gap) if np.isfinite(gap) else "overflow" for gap in (np.median(gaps), np.max(gaps))]
            row = [case, NAMES[base] + mark + extra, f"{calls:,.0f}", *shown]
            row.append(f"{seconds:.2g}")
            if tuned:
                row.append(piece["setting"] + (" \\*" if piece["at_end"] else ""))
                ends = ends or piece["at_end"]
            rows.append(row)
    text = _markdown(header, rows)
    if tuned:
        text += "\n\nA setting begins with c." if experiment != "sne" else "\n\nA setting begins with the factor."
        text += " \\*: at an end of the grid; a wider one might do better." if ends else ""
    return text


def _complexity(results, sizes, picture):
    size, found = sizes["complexity"], slopes(results)
    rows = []
    for method in ("storm-c", "sarah-c", "scgd"):
        for name, row in results[f"complexity/{method}"].items():
            s = found[name]
            cells = [f"{eps:.3g}: {ifo:.3g}" for eps, ifo in zip(row["epsilons"], row["ifo"], strict=True)]
            name = name.replace(method, NAMES["storm-c-paper" if method == "storm-c" else method])
            rows.append((name, f"{s.value:.2f}", f"[{s.low:.2f}, {s.high:.2f}]", ", ".join(cells)))
    return (
        "## Complexity\n\n"
        "A bent valley in ten variables that falls for ever, not convex, its constants known by formula. A run's value "
        "is the average of the exact |grad Phi| over its iterates and over "
        f"{size['seeds']} seeds; calls are those of the shortest run whose value is at most eps. Parameters follow eps "
        "by the theory's orders, times constants that are the same for all eps. Those of STORM-C and SCGD come from a "
        "coarse grid at two values of eps, on other seeds. The exponent is fitted to log calls against log(1/eps), "
        "with a 95 % interval.\n\n"
        + _markdown(("method", "exponent", "interval", "eps: calls"), rows)
        + f"\n\n![Calls against eps, with fitted lines]({picture})"
    )


def _markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _time(seconds):
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
