"""The text of the report, in Markdown, and its figures."""

import numpy as np

from sk_stormc import __version__
from sk_stormc.reproduce import EXPERIMENTS
from sk_stormc.reproduce.claims import CLAIMS, METHODS, NAMES, PARTS, RULE, TITLES, name_of, verdict
from sk_stormc.reproduce.complexity import draw_slopes
from sk_stormc.reproduce.runner import curves
from sk_stormc.reproduce.sne import LABELS
from sk_stormc.reproduce.tuning import KEPT, VARIANTS

__all__ = ["draw", "write_report"]

PART_TITLES = {"published": "at the published constants", "tuned": "every method tuned"}
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
_GRADIENT = "exact gradient  $|\\nabla\\Phi|$"
AXES = {
    "portfolio": ["gap  $(\\Phi(x) - \\Phi^*) / |\\Phi^*|$", _GRADIENT],
    "streaming": ["gap  $(\\Phi(x) - \\Phi^*) / |\\Phi^*|$", _GRADIENT],
    "bellman": ["gap / gap at the start", _GRADIENT],
    "sne": LABELS,
}
_SNE = """The paper's SNE of scikit-learn's digits (8 x 8), which take the place of 2000 images of MNIST, perplexity 30.
KL is the mean divergence over the points, exact. At the published constants runs begin at x_i = i/n in every
coordinate, without metric and limit to steps but Algorithm 1's; else at principal components, with the Laplacian
metric, a limit to each point's step, and a rate that falls to 0 with the budget, times a factor."""


def write_report(results, sizes, published, *, quick, seconds):
    """The whole report. ``published`` contains the published parameters of the methods, by experiment."""
    parts = [_head(quick, seconds), _claims(results), _settings(sizes)]
    for experiment, title in TITLES.items():
        about = _SNE if experiment == "sne" else EXPERIMENTS[experiment].__doc__.strip()
        parts.append(f"## {title}\n\n{about}\n\nSizes: {_arguments(sizes[experiment])}.")
        notes = {"published": published[experiment], "tuned": VARIANTS[experiment]}
        for part, words in PART_TITLES.items():
            parts += [f"### {title}, {words}", _methods(notes[part]), _table(results, experiment, part)]
            parts.append(f"![{title}, {words}]({experiment}_{part}.png)")
    parts.append(_complexity(results, sizes))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _head(quick, seconds):
    lines = [
        "# The paper's experiments, repeated",
        'Yuan & Hu, "Stochastic Recursive Momentum Method for Non-Convex Compositional Optimization" '
        f"(STORM-Compositional, STORM-C). Made by `python -m sk_stormc reproduce all{' --quick' if quick else ''}`, "
        f"sk_stormc {__version__}, in {seconds / 60:.0f} minutes of processor time. Costs are oracle calls (IFO): one "
        "call is one sampled component of g, of its Jacobian or of the gradient of f.",
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
    table = _markdown(("where", "claim", "verdict", "the numbers"), rows)
    return (
        f"## What holds\n\n{table}\n\nThe numbers of the experiments are the ends of runs, as the rule has them: "
        "medians over the seeds, STORM-C's first, then that of the best of the others.\n\n"
        f"### How a verdict is decided\n\n{RULE}\n{CORRECTED}"
    )


def _settings(sizes):
    first, *others = sizes["tuning_seeds"]
    rates, factors = _listed(sizes["rates"]), _listed(sizes["sne"]["factors"])
    return f"""
## How methods were run

- **Published constants**: those of the paper for STORM-C, and of the published scripts for the other methods, for
  which the paper has none.
- **Tuned**: for each method and data set the learning rate is c / L with c from {rates}
  (L: the largest curvature of Phi; for SNE a factor from {factors} takes its place), times the variants
  that are listed. The published constants are one more setting, except for SNE. All are run with seed {first}, the
  best {KEPT} also with {_listed(others)}, and the smallest median gap at the end of the budget is taken. These seeds
  are used for nothing else. A setting begins with c, or with the factor.
- Reported are medians over the seeds 0 to {sizes["seeds"] - 1} (SNE: {sizes["sne"]["seeds"] - 1}), and the worst of
  them. All methods have the same budget and start.
- In the pictures a line is the median and a band the quartiles over the seeds. STORM-C is Algorithm 1, storm-c-paper.
"""


def _methods(params):
    """The parameters or variants of each method, grouped if they are equal."""
    methods_of = {}
    for method in METHODS:
        one = params[method]
        text = "; ".join(one) if any(isinstance(value, dict) for value in one.values()) else _arguments(one)
        methods_of.setdefault(text or "its defaults, the paper's", []).append(NAMES[method])
    return "\n".join(f"- {', '.join(methods)}: {text}" for text, methods in methods_of.items())


def _arguments(params):
    return ", ".join(
        f"{name}={value:,}" if isinstance(value, int) else f"{name}={value}" for name, value in params.items()
    )


def _table(results, experiment, part):
    tuned = part == "tuned"
    header = ["data", "method", "calls", f"median {GAPS[experiment]}", "worst", "seconds a run"] + ["setting"] * tuned
    rows, any_end = [], False
    for case, methods in results.part(experiment, part).items():
        for method, entry in methods.items():
            setting = [entry.setting + " \\*" * entry.at_end] * tuned
            rows.append([case, name_of(method), *_ends(entry, SHOWN[experiment]), *setting])
            any_end = any_end or entry.at_end
    return _markdown(header, rows) + "\n\n\\*: at an end of the grid; a wider one might do better." * any_end


def _ends(entry, shown):
    """IFO, median and worst gap, and seconds of the runs, as cells."""
    gaps = [
        shown.format(gap) if np.isfinite(gap) else "overflow" for gap in (np.median(entry.gaps()), max(entry.gaps()))
    ]
    calls, seconds = np.median([(run.ifo[-1], run.seconds) for run in entry.runs], axis=0)
    return [f"{calls:,.0f}", *gaps, f"{seconds:.2g}"]


def _complexity(results, sizes):
    rows = []
    for m in results.complexity:
        cells = [f"{eps:.3g}: {ifo:.3g}" for eps, ifo in zip(m.epsilons, m.ifo, strict=True)]
        rows.append((m.row.name, f"{m.slope.value:.2f}", f"[{m.slope.low:.2f}, {m.slope.high:.2f}]", ", ".join(cells)))
    return f"""
## Complexity

{EXPERIMENTS["complexity"].__doc__.strip()}

{sizes["complexity"]["seeds"]} seeds. The constants of STORM-C come from a coarse grid at two values of eps, on other
seeds. Those of SARAH-C and of the row a_t = 1/(t+1), of which the paper proves nothing, are not tuned. The exponent is
fitted to log calls against log(1/eps), with a 95 % interval.

{_markdown(("method", "exponent", "interval", "eps: calls"), rows)}

![Calls against eps, with fitted lines](complexity.png)
"""


def _markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _listed(values):
    return ", ".join(f"{value:.4g}" for value in values)


def draw(results, out):
    """Draw and save all figures."""
    from sk_stormc.plotting import plot_curves  # imports matplotlib, which --help does not need

    figures = {}
    for experiment, axes in AXES.items():
        for part in PARTS:
            by_case = {
                case: {method: entry.runs for method, entry in methods.items()}
                for case, methods in results.part(experiment, part).items()
            }
            figures[f"{experiment}_{part}"] = plot_curves(curves(by_case, relative=True), axes)
    figures["complexity"] = draw_slopes(results.complexity)
    for name, figure in figures.items():
        figure.savefig(out / f"{name}.png", dpi=110)
