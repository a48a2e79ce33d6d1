"""The report's text about what was run."""

from sk_stormc.reproduce.report.grids import variants_of

__all__ = ["NAMES", "about", "note", "short"]

NAMES = {
    "scgd": "SCGD",
    "asc-pg": "ASC-PG",
    "vrsc-pg": "VRSC-PG",
    "sarah-c": "SARAH-C",
    "storm-c-paper": "STORM-C",
    "storm-c": "STORM-C, automatic",
    "lbfgs": "L-BFGS",
}


def about(experiment, sizes, days):
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
            "Daily returns of 25 portfolios in six regions, in percent (Kenneth R. French data library; "
            + ", ".join(f"{name.replace('_', ' ')} {n:,} days" for name, n in days.items())
            + "), of which rows are drawn at random for ever."
            if days is not None
            else "Two generated markets of 25 assets stand for the paper's six sets of daily returns in percent (which "
            "`--french` downloads): a common factor, and a little of their own. They differ by their scale only. "
            "The largest curvature of Phi is 34, as that of the returns of Global ex US, or 80, as that of Japan."
        )
        return (
            f"{data} Every row is new, each is drawn for g, for its Jacobian and for f, and Phi is the expectation, "
            f"not that of the rows at hand. x_0 = ones. Budget: {size['max_ifo']:,} calls."
        )
    if experiment == "bellman":
        return (
            f"Mean squared Bellman residual of a random model: {size['states']} states, {size['features']} features, "
            f"gamma = .95, from w = 0. {_budgets(size)}"
        )
    return (
        f"The paper's SNE of {size['points']} of scikit-learn's digits (8 x 8), which take the place of 2000 images of "
        f"MNIST, in {size['dimension']} dimensions, perplexity 30. KL is the mean divergence over the points, exact. "
        f"{_budgets(size)} Seeds: 0 to {size['seeds'] - 1}."
    )


def _budgets(size):
    """The sentence about the budgets of an experiment whose published constants have one of their own."""
    return f"Budget: {size['published_ifo']:,} calls at the published constants, {size['max_ifo']:,} else."


_NOTES = {
    ("portfolio", "published"): (
        "STORM-C: eta = eps = .1, a = .01, B = S = 100. The other methods: steps of 2e-5; SCGD and ASC-PG with "
        "batches of 2000 and beta = .9, VRSC-PG and SARAH-C with checkpoints of 2000, then 20 steps with 5, 5 and "
        "1 samples of g, its Jacobian and f."
    ),
    ("streaming", "published"): (
        "The same constants, but for steps of 1e-3 for the other methods. A stream gives g, its Jacobian and f "
        "batches of one size: five rows of f where the published scripts have one."
    ),
    ("bellman", "published"): (
        "STORM-C: eta = eps = .1, a = .1, B = 20, 20 and 1, S = 100, 100 and 1. The other methods: steps of 5e-4 "
        "(VRSC-PG) or 1e-5; SCGD and ASC-PG with batches of 100, 100 and 1 and beta = .9, VRSC-PG and SARAH-C "
        "with 100 steps of 5, 5 and 1 samples between checkpoints. A checkpoint of the published scripts has "
        "one component of f and is charged 100. Rows with (f 100) really take a hundred."
    ),
}


def note(experiment, part, sizes):
    """What is to be said of a part of an experiment, or ""."""
    if experiment == "sne" and part == "published":
        return (
            "From x_i = i/n in every coordinate. STORM-C: eta = eps = .1, a = .01, B = S = 100; "
            f"{(sizes['sne']['published_ifo'] - 300) // 300} iterations. The other methods: steps of 1e-5; SCGD and "
            "ASC-PG with batches of 1000 and beta = .9, VRSC-PG and SARAH-C with checkpoints of 1000, then 10 steps of "
            "5. No metric, and no limit to steps but Algorithm 1's."
        )
    if experiment == "sne" and part == "tuned":
        variants = "; ".join(f"{NAMES[method]} {' or '.join(texts)}" for method, texts in variants_of("sne").items())
        return (
            "From principal components. All methods have the library's steps: the Laplacian metric, a limit to each "
            "point's step, and a rate that falls to 0 with the budget, times a factor of "
            f"{', '.join(map(short, sizes['sne']['factors']))}. Variants: {variants}."
        )
    return _NOTES.get((experiment, part), "")


def short(value):
    """A number in few digits."""
    return f"{value:.4g}"
