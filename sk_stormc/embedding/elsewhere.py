"""Parameters of TSNE, openTSNE and UMAP that have another name here, or do not exist."""

__all__ = ["ELSEWHERE", "refuse_names_from_elsewhere"]

RATE = "set_params(solver__learning_rate=...), which is automatic otherwise"
EARLY = "a fifth of max_iter, but at most 30"
INERTIA = "no such parameter, since it is automatic"
SUMS = "no such choice, since the time is proportional to n_samples; the gradient of solver='lbfgs' is exact"
ELSEWHERE = {
    "angle": SUMS,
    "early_exaggeration_iter": EARLY,
    "initial_momentum": INERTIA,
    "initialization": "init",
    "learning_rate": RATE,
    "method": SUMS,
    "min_grad_norm": "tol",
    "momentum": INERTIA,
    "n_epochs": "max_iter",
    "n_iter": "max_iter",
    "n_iter_without_progress": "tol",
    "n_neighbors": "perplexity, which is about a third of it",
    "negative_gradient_method": SUMS,
    "neighbors_method": "neighbors",
    "theta": SUMS,
}


def refuse_names_from_elsewhere(cls, names):
    """Raise a TypeError that names the equivalents of parameters of other libraries."""
    for name in names:
        if name in ELSEWHERE and name not in cls._get_param_names():
            raise TypeError(f"{cls.__name__} has no parameter {name!r}. In its place there is: {ELSEWHERE[name]}")
