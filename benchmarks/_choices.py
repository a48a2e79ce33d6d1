"""Which estimator, which solver? The guide's tables, whose numbers come from the
results of other benchmarks."""

from operator import itemgetter
from statistics import fmean, median

from benchmarks import _tables

# whose results are used
FROM = ("portfolio", "newer", "desk", "maps", "bellman", "streams", "gallery")
TAILS = ("cvar", "evar")


def tables(folder=_tables.RESULTS):
    """The tables by their names, each with a last line that says where its numbers are
    from."""
    stored = {name: _tables.load(name, folder) for name in FROM}
    results = {name: of["results"] for name, of in stored.items()}
    texts = {}
    for name, (first, make) in {
        "portfolios": ("you want", _portfolios),
        "others": ("you have", _others),
    }.items():
        rows, sources = make(results)
        text = _tables.table(
            rows,
            {first: itemgetter(0), "take": itemgetter(1), "measured": itemgetter(2)},
        )
        dates = ", ".join(
            sorted({stored[source]["run_with"]["date"] for source in sources})
        )
        commands = ", ".join(f"`{source}`" for source in sources)
        texts[f"choices/{name}"] = (
            f"{text}\n\n(numbers of `python -m benchmarks`: {commands}; {dates})\n"
        )
    return texts


def _portfolios(results):
    passes, cpu = results["portfolio"], results["newer"]["cpu"]

    def mean_passes(
        objective, solver
    ):  # to a relative gap of 1e-3, mean over the sets of the medians over the seeds
        entries = [of[solver][0][0] for of in passes[objective].values()]
        return "more than 100" if None in entries else f"{fmean(entries):.1f}"

    def beside(objective, *solvers):
        return ", ".join(
            f"`{solver}` {mean_passes(objective, solver)}" for solver in solvers
        )

    def milliseconds(solver):
        return f"{median(of[solver] for of in cpu.values()):.0f}"

    def seconds(periods):
        found = {
            row["risk"]: row
            for row in results["desk"]
            if row["periods"] == periods and row["risk"] in TAILS
        }
        size = f"{periods:,} x {found['cvar']['assets']}"
        here, there = (
            [f"{found[risk][which]['seconds']:.2g}" for risk in TAILS]
            for which in ("sk_stormc", "skfolio")
        )
        return (
            f"seconds at {size}: CVaR {here[0]}, EVaR {here[1]}; skfolio {there[0]} "
            f"and {there[1]}"
        )

    rows = [
        ["to limit the mean of the worst losses (CVaR, EVaR), thousands of periods",
        "the default", seconds(2500)],
        ["the same, hundreds of periods", "the default", seconds(250)],
        ["a stochastic or first-order method on data in memory, no constraint or "
         "bounds only", '`solver="lbfgs"`',
         f"CPU ms of a fit: `lbfgs` {milliseconds('lbfgs')}, `storm-c` "
         f"{milliseconds('storm-c')}"],
        ["few passes over the data, since they are slow to read",
        '`solver="sketchy-storm"`, or "storm-c"',
         "passes: "
         f"{beside('variance', 'sketchy-storm', 'storm-c', 'sarah-c', 'lbfgs')}"],
        ["the same, to limit losses only (semivariance)", '`solver="sketchy-storm"`',
         "passes: "
         f"{beside('semivariance', 'sketchy-storm', 'storm-c', 'sarah-c', 'lbfgs')}"],
        ["the same, to weigh rare large losses more (entropic risk)",
        '`solver="sketchy-storm"`',
         "passes: "
         f"{beside('entropic', 'sketchy-storm', 'storm-c', 'sarah-c', 'lbfgs')}"],
        ["few passes, and no short positions",
        '`solver="storm-c"`, `constraint="long_only"`',
         f"passes: {beside('long only', 'storm-c', 'sarah-c')}; `lbfgs` cannot"],
        ["few passes, bounds, and weights that sum to one",
        '`solver="storm-c"`, `constraint=` and `budget=`',
         f"passes: {beside('box and budget', 'storm-c', 'sarah-c')}; `lbfgs` cannot"],
        ["few passes over at most 1,024 periods", '`solver="sketchy-storm"`',
         "passes: "
         f"{beside('few periods', 'sketchy-storm', 'storm-c', 'sarah-c', 'lbfgs')}"],
    ]  # fmt: skip
    return rows, ("portfolio", "newer", "desk")


def _others(results):
    def found(part, key, method, **where):
        rows = [row for row in results["maps"][part] if row["method"] == method]
        (row,) = [
            row
            for row in rows
            if all(row[name] == value for name, value in where.items())
        ]
        return median(row[key])

    def five(method):
        seconds, divergence = (
            found("gaussian", key, method, d=5) for key in ("seconds", "kl")
        )
        return f"{seconds:.1f} s, divergence {divergence:.3f}"

    def drawn(method):
        seconds, divergence = (
            found("times_20000", "seconds", method),
            found("augmented_digits_20000", "kl", method),
        )
        return f"{seconds:.1f} s, divergence {divergence:.3f}"

    gap = results["bellman"]["gap"][0]  # a dense model of 400 states
    streamed, whole = results["streams"]["memory"]
    gallery = {
        name: of
        for name, of in results["gallery"].items()
        if "with a preconditioner" not in name
    }
    done = [name for name, of in gallery.items() if not of["storm-c"]["warned"][0]]
    fewer = [
        name
        for name in done
        if gallery[name]["storm-c"]["passes"][0] < gallery[name]["lbfgs"]["passes"][0]
    ]

    rows = [
        ["points to draw in two or three dimensions", "`SNEEmbedding()`",
         f"20,000 points: {drawn('SNEEmbedding')}; scikit-learn's `TSNE` "
         f"{drawn('scikit-learn TSNE')}"],
        ["points to compress to more than three dimensions", "`SNEEmbedding(5)`",
         f"1,797 digits in five dimensions: {five('SNEEmbedding')}; "
         f"L-BFGS on all pairs, best of three, {five('L-BFGS, best of three')}"],
        ["logged transitions, up to 2,000 features", '`BellmanValueEstimator()`',
         f"400 states: exact in {gap['least squares']:.0f} ms; `storm-c` "
         f"{gap['storm-c']['ms']:.0f} ms "
         f"to a relative gap of 1e-3"],
        ["returns that do not fit in memory",
        "`fit` on a memmap, or `partial_fit` for one pass",
         f"{streamed['rows']:,} rows: `partial_fit` {streamed['seconds']:.0f} s, gap "
         f"{streamed['gap']:.0e}; "
         f"`fit` {whole['seconds']:.0f} s, gap {whole['gap']:.0e}"],
        ["an objective of your own, f(g(x)) with averages in both",
        "`minimize(problem)`",
         f"`storm-c` converges untuned on {len(done)} of {len(gallery)} problems of "
         "the literature, "
         f"and takes fewer passes than L-BFGS on {len(fewer)} of them"],
    ]  # fmt: skip
    return rows, ("maps", "bellman", "streams", "gallery")
