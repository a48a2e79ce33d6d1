"""The text of the report, in Markdown."""

import numpy as np

from sk_stormc import __version__
from sk_stormc.compare.tables import as_markdown, table
from sk_stormc.reproduce import complexity
from sk_stormc.reproduce.claims import (
    CLAIMS,
    METHOD_EXPERIMENTS,
    NAMES,
    RULE,
    final_gaps,
    name_of,
)
from sk_stormc.reproduce.tuning import N_FINALISTS

REPORT = """\
# The paper's experiments, repeated

Yuan & Hu, "Stochastic Recursive Momentum Method for Non-Convex Compositional Optimization" \
(STORM-Compositional, STORM-C). Made by `python -m sk_stormc reproduce all{option}`, sk_stormc {version}, \
in {minutes:.0f} minutes of processor time. Costs are oracle calls (IFO): one call is one sampled component of g, of \
its Jacobian or of the gradient of f.

{quick}## What holds

{claims}

The numbers of the experiments are the ends of runs, as the rule has them: medians over the seeds, STORM-C's first, \
then that of the best of the others.

### How a verdict is decided

{rule}
Proposition 3.2 as printed has B_f on both sides of its formula, c where its square belongs, and a closing formula
without the factor (32/3) L_Phi Delta. `sk_stormc.theory.storm_parameters` has the printed form (variant="paper") and
the corrected one.

## How methods were run

- **Published constants**: those of the paper for STORM-C, and of the published scripts for the other methods, for
  which the paper has none.
- **Tuned**: for each method and data set the learning rate is c / L with c from {rates}
  (L: the largest curvature of Phi; for SNE a factor from {factors} takes its place), times the variants
  that are listed. The published constants are one more setting, except for SNE. All are run with seed {first}, the
  best {kept} also with {others}, and the smallest median gap at the end of the budget is taken. These seeds
  are used for nothing else. A setting begins with c, or with the factor.
- Reported are medians over the seeds 0 to {last} (SNE: {last_of_sne}), and the worst of
  them. All methods have the same budget and start.
- In the pictures a line is the median and a band the quartiles over the seeds. STORM-C is Algorithm 1, storm-c-paper.

{experiments}

## Complexity

{about_complexity}

{seeds} seeds. The constants of STORM-C come from a coarse grid at two values of eps, on other
seeds. Those of SARAH-C and of the row a_t = 1/(t+1), of which the paper proves nothing, are not tuned. The exponent is
fitted to log calls against log(1/eps), with a 95 % interval.

{complexity}

![Calls against eps, with fitted lines](complexity.png)
"""
QUICK = """\
**This is the quick report: smaller problems, budgets, grids and fewer seeds.** Its verdicts are those of the small \
experiments. Without `--quick` the sizes are the paper's.

"""
EXPERIMENT = """\
## {title}

{about}

Sizes: {sizes}.

### {title}, at the published constants

{published_methods}

{published}

![{title}, at the published constants]({experiment}_published.png)

### {title}, every method tuned

{tuned_methods}

{tuned}

![{title}, every method tuned]({experiment}_tuned.png)"""


def report_text(results, sizes, decisions, verdicts, *, quick, seconds):
    """The whole report."""
    first, *others = sizes["tuning_seeds"]
    return REPORT.format(
        option=" --quick" * quick,
        version=__version__,
        minutes=seconds / 60,
        quick=QUICK * quick,
        claims=_claims(decisions, verdicts),
        rule=RULE,
        rates=_listed(sizes["rates"]),
        factors=_listed(sizes["sne"]["factors"]),
        first=first,
        kept=N_FINALISTS,
        others=_listed(others),
        last=sizes["seeds"] - 1,
        last_of_sne=sizes["sne"]["seeds"] - 1,
        experiments="\n\n".join(
            _experiment(results, name, sizes[name]) for name in METHOD_EXPERIMENTS
        ),
        about_complexity=(complexity.__doc__ or "").strip(),
        seeds=sizes["complexity"]["seeds"],
        complexity=_complexity(results.complexity),
    )


def _claims(decisions, verdicts):
    rows = []
    for claim, (published, tuned, numbers), text in zip(
        CLAIMS, decisions, verdicts, strict=True
    ):
        only_tuned = ", holds when tuned" if tuned is True and not published else ""
        rows.append((claim.source, claim.text, f"**{text}**{only_tuned}", numbers))
    return as_markdown(("where", "claim", "verdict", "the numbers"), rows)


def _experiment(results, name, sizes):
    """The section of an experiment."""
    experiment = METHOD_EXPERIMENTS[name]
    published = {method: _arguments(experiment.PUBLISHED[method]) for method in NAMES}
    return EXPERIMENT.format(
        title=experiment.LABELS.title,
        about=(getattr(experiment, "ABOUT", experiment.__doc__) or "").strip(),
        sizes=_arguments(sizes),
        experiment=name,
        published_methods=_methods(published),
        published=_table(results, name, "published"),
        tuned_methods=_methods(
            {method: "; ".join(experiment.VARIANTS[method]) for method in NAMES}
        ),
        tuned=_table(results, name, "tuned"),
    )


def _methods(texts):
    """The parameters or variants of each method, grouped if they are equal."""
    methods_of = {}
    for method, text in texts.items():
        methods_of.setdefault(text or "its defaults, the paper's", []).append(
            NAMES[method]
        )
    return "\n".join(
        f"- {', '.join(methods)}: {text}" for text, methods in methods_of.items()
    )


def _arguments(params):
    return ", ".join(
        f"{name}={value:,}" if isinstance(value, int) else f"{name}={value}"
        for name, value in params.items()
    )


def _table(results, experiment, part):
    """The ends of the runs of each method on each case."""
    labels, rows = METHOD_EXPERIMENTS[experiment].LABELS, []
    columns = {
        "data": "{case}",
        "method": "{name}",
        "calls": "{ifo_median:,.0f}",
        f"median {labels.gap}": "{middle}",
        "worst": "{worst}",
        "seconds a run": "{seconds_median:.2g}",
    }
    if part == "tuned":
        columns["setting"] = "{setting}"
    for case, comparison in results.compared[experiment, part].items():
        for row in comparison.table:
            gaps = final_gaps(comparison, row["solver"])
            middle, worst = (
                format(gap, labels.digits) if np.isfinite(gap) else "overflow"
                for gap in (np.median(gaps), max(gaps))
            )
            rows.append(
                {
                    "case": case,
                    "name": name_of(row["solver"]),
                    "middle": middle,
                    "worst": worst,
                    **row,
                }
            )
            if part == "tuned":
                best, _ = results.tuned[case, row["solver"]]
                rows[-1]["setting"] = best.text + " \\*" * best.at_end
    at_end = any(row.get("setting", "").endswith("*") for row in rows)
    return (
        as_markdown(*table(rows, columns))
        + "\n\n\\*: at an end of the grid; a wider one might do better." * at_end
    )


def _complexity(measured):
    """The exponent of each method, and its calls for each eps."""
    columns = {
        "method": "{name}",
        "exponent": "{slope.value:.2f}",
        "interval": "{slope.interval}",
        "eps: calls": lambda m: ", ".join(
            f"{eps:.3g}: {ifo:.3g}"
            for eps, ifo in zip(m["epsilons"], m["ifo"], strict=True)
        ),
    }
    return as_markdown(*table(map(vars, measured), columns))


def _listed(values):
    return ", ".join(f"{value:.4g}" for value in values)
