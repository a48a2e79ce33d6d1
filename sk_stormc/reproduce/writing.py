"""The report's text, in Markdown, and its pictures."""

import numpy as np

from sk_stormc import __version__
from sk_stormc.reproduce.claims import CLAIMS, METHODS, NAMES, PARTS, RULE, TITLES, name_of, verdict
from sk_stormc.reproduce.slopes import draw_slopes
from sk_stormc.reproduce.sne import LABELS, embedding_of
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
_PUBLISHED = {
    "portfolio": (
        "STORM-C: eta = eps = .1, a = .01, B = S = 100. The other methods: steps of 2e-5; SCGD and ASC-PG with batches "
        "of 2000 and beta = .9, VRSC-PG and SARAH-C with checkpoints of 2000, then 20 steps with 5, 5 and 1 samples of "
        "g, its Jacobian and f."
    ),
    "streaming": (
        "The same constants, but for steps of 1e-3 for the other methods. A stream gives g, its Jacobian and f "
        "batches of one size: five rows of f where the published scripts have one."
    ),
    "bellman": (
        "STORM-C: eta = eps = .1, a = .1, B = 20, 20 and 1, S = 100, 100 and 1. The other methods: steps of 5e-4 "
        "(VRSC-PG) or 1e-5; SCGD and ASC-PG with batches of 100, 100 and 1 and beta = .9, VRSC-PG and SARAH-C "
        "with 100 steps of 5, 5 and 1 samples between checkpoints. A checkpoint of the published scripts has "
        "one component of f and is charged 100. Rows with (f 100) really take a hundred."
    ),
    "sne": (
        "From x_i = i/n in every coordinate. STORM-C: eta = eps = .1, a = .01, B = S = 100. The other methods: steps "
        "of 1e-5; SCGD and ASC-PG with batches of 1000 and beta = .9, VRSC-PG and SARAH-C with checkpoints of 1000, "
        "then 10 steps of 5. No metric, and no limit to steps but Algorithm 1's."
    ),
}


def write_report(results, sizes, *, quick, days, seconds):
    """The whole report; ``days`` are the lengths of downloaded sets of returns, or None."""
    parts = [_head(quick, seconds), _claims(results), _settings(sizes)]
    for experiment, title in TITLES.items():
        parts.append(f"## {title}\n\n{_about(experiment, sizes, days)}")
        for part, words in PART_TITLES.items():
            note = _PUBLISHED[experiment] if part == "published" else _tuned(experiment, sizes)
            parts += [f"### {title}, {words}\n\n{note}", _table(results, experiment, part)]
            parts.append(f"![{title}, {words}]({experiment}_{part}.png)")
    parts.append(
        "SNE in two dimensions, coloured by digit. From x_i = i/n in every coordinate the points stay on a line.\n\n"
        "![Embeddings of digits in two dimensions](sne_maps.png)"
    )
    parts += [_complexity(results, sizes), _defaults(results)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _head(quick, seconds):
    lines = [
        "# The paper's experiments, repeated",
        'Yuan & Hu, "Stochastic Recursive Momentum Method for Non-Convex Compositional Optimization" '
        "(STORM-Compositional, STORM-C). Made by `python -m sk_stormc reproduce all"
        f"{' --quick' if quick else ''}`, sk_stormc {__version__}, in {seconds / 60:.0f} minutes of processor time. "
        "Costs are oracle calls (IFO): one call is one sampled component of g, of its Jacobian or of the gradient of f.",
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
    tuning = sizes["tuning_seeds"]
    return (
        "## How methods were run\n\n"
        "- **Published constants**: those of the paper for STORM-C, and of the published scripts for the other methods, "
        "for which the paper has none.\n"
        f"- **Tuned**: for each method and data set the learning rate is c / L with c from {_listed(sizes['rates'])} "
        "(L: the largest curvature of Phi), times the variants that are named below. The published constants are one "
        f"more setting. All are run with seed {tuning[0]}, the best {KEPT} also with {_listed(tuning[1:])}, and the "
        "smallest median gap at the end of the budget is taken. These seeds are used for nothing else.\n"
        f"- Reported are medians over the seeds 0 to {sizes['seeds'] - 1}, and the worst of them. All methods have the "
        "same budget and start.\n"
        "- In the pictures a line is the median and a band the quartiles over the seeds. STORM-C is Algorithm 1, "
        "storm-c-paper."
    )


def _about(experiment, sizes, days):
    """What an experiment is."""
    size = sizes[experiment]
    if experiment == "portfolio":
        return (
            f"Mean-variance utility of {size['periods']} Gaussian returns of {size['assets']} assets, expectation 4, "
            "covariance identity with one eigenvalue of 4 or of 20, from x_0 = ones. (The published sets of these "
            "names have condition numbers of about 40; these have those they are named after.) Budget: "
            f"{size['max_ifo']:,} calls."
        )
    if experiment == "streaming":
        data = (
            "Two generated markets of 25 assets stand for the paper's six sets of daily returns in percent (which "
            "`--french` downloads): a common factor, and a little of their own. They differ by their scale only. "
            "The largest curvature of Phi is 34, as that of the returns of Global ex US, or 80, as that of Japan."
        )
        if days is not None:
            lengths = ", ".join(f"{name.replace('_', ' ')} {n:,} days" for name, n in days.items())
            data = (
                f"Daily returns of 25 portfolios in six regions, in percent (Kenneth R. French data library; {lengths}), "
                "of which rows are drawn at random for ever."
            )
        return (
            f"{data} Every row is new, each is drawn for g, for its Jacobian and for f, and Phi is the expectation, "
            f"not that of the rows at hand. x_0 = ones. Budget: {size['max_ifo']:,} calls."
        )
    budgets = f"Budget: {size['published_ifo']:,} calls at the published constants, {size['max_ifo']:,} else."
    if experiment == "bellman":
        return (
            f"Mean squared Bellman residual of a random model: {size['states']} states, {size['features']} features, "
            f"gamma = .95, from w = 0. {budgets}"
        )
    return (
        f"The paper's SNE of {size['points']} of scikit-learn's digits (8 x 8), which take the place of 2000 images of "
        f"MNIST, in {size['dimension']} dimensions, perplexity 30. KL is the mean divergence over the points, exact. "
        f"{budgets} Seeds: 0 to {size['seeds'] - 1}."
    )


def _tuned(experiment, sizes):
    """The variants of an experiment's grids, methods of the same variants together."""
    methods_of = {}
    for method in METHODS:
        methods_of.setdefault("; ".join(VARIANTS[experiment][method]), []).append(NAMES[method])
    text = "".join(f"\n- {', '.join(methods)}: {variants}" for variants, methods in methods_of.items())
    if experiment != "sne":
        return f"A setting begins with c. Variants:\n{text}"
    return (
        "From principal components. All methods have the library's steps: the Laplacian metric, a limit to each "
        "point's step, and a rate that falls to 0 with the budget, times a factor of "
        f"{_listed(sizes['sne']['factors'])}, with which a setting begins. Variants:\n{text}"
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
    """Calls, median and worst gap, and seconds of the runs, as cells."""
    gaps = [
        shown.format(gap) if np.isfinite(gap) else "overflow" for gap in (np.median(entry.gaps()), max(entry.gaps()))
    ]
    calls, seconds = np.median([(run.ifo[-1], run.seconds) for run in entry.runs], axis=0)
    return [f"{calls:,.0f}", *gaps, f"{seconds:.2g}"]


def _defaults(results):
    rows = [
        (title, case, NAMES[method], *_ends(entry, SHOWN[experiment]))
        for experiment, title in TITLES.items()
        for case, methods in results.part(experiment, "defaults").items()
        for method, entry in methods.items()
    ]
    return (
        "## With this library's defaults\n\n"
        'Nothing of this is in the paper: `minimize(problem, method)` with a budget and nothing else. "storm-c" is the '
        "library's rule with anchors (on streams its single loop, with momentum 1/(t+1)), and L-BFGS shows what a "
        "method without sampling does. Problems have their metrics, SNE begins at principal components, and runs stop "
        "by themselves where their rule says so. Gaps are those of the tables above, and KL for SNE.\n\n"
        + _markdown(("experiment", "data", "method", "calls", "median gap", "worst", "seconds a run"), rows)
    )


def _complexity(results, sizes):
    rows = []
    for m in results.complexity:
        cells = [f"{eps:.3g}: {ifo:.3g}" for eps, ifo in zip(m.epsilons, m.ifo, strict=True)]
        slope = m.slope
        rows.append((m.row.name, f"{slope.value:.2f}", f"[{slope.low:.2f}, {slope.high:.2f}]", ", ".join(cells)))
    return (
        "## Complexity\n\n"
        "A bent valley in ten variables that falls for ever, not convex, its constants known by formula. A run's value "
        "is the average of the exact |grad Phi| over its iterates and over "
        f"{sizes['complexity']['seeds']} seeds; calls are those of the shortest run whose value is at most eps. "
        "Parameters follow eps by the theory's orders, times constants that are the same for all eps. Those of STORM-C "
        "come from a coarse grid at two values of eps, on other seeds; those of SARAH-C and of the row a_t = 1/(t+1), "
        "of which the paper proves nothing, are not tuned. The exponent is fitted to log calls against log(1/eps), with "
        "a 95 % interval.\n\n"
        + _markdown(("method", "exponent", "interval", "eps: calls"), rows)
        + "\n\n![Calls against eps, with fitted lines](complexity.png)"
    )


def _markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _listed(values):
    return ", ".join(f"{value:.4g}" for value in values)


def draw(results, out):
    """Draw and save all pictures."""
    from sk_stormc.plotting import plot_curves, plot_embeddings  # matplotlib: not for --help

    figures = {}
    for experiment, axes in AXES.items():
        for part in PARTS:
            panels = {
                case: {
                    method: [(run.ifo, run.gap / run.case.scale, run.gradient_norm) for run in entry.runs]
                    for method, entry in methods.items()
                }
                for case, methods in results.part(experiment, part).items()
            }
            figures[f"{experiment}_{part}"] = plot_curves(panels, axes)
    panels = {
        f"{title}\nKL {run.gap[-1] / run.case.scale:.2f}": embedding_of(run) for title, run in results.maps.items()
    }
    figures["sne_maps"] = plot_embeddings(panels, results.labels)
    figures["complexity"] = draw_slopes(results.complexity)
    for name, figure in figures.items():
        figure.savefig(out / f"{name}.png", dpi=110)
