"""The values that a problem's advice has for the parameters of methods."""

from sk_stormc.core.source import source_of

__all__ = ["advised"]


def advised(problem, name):
    """The value that a problem's advice has for a parameter of a method, or "auto" if it has none."""
    advice, source = problem.advice, source_of(problem)
    if name == "batch_size" or (name == "init_batch_size" and not advice.tracking):
        return advice.batch_size
    if name in ("learning_rate", "normalization", "precision"):
        value = getattr(advice, name)
        return "auto" if value is None else value
    if name == "momentum" and (source.cumulative or not advice.tracking):
        return 1.0
    if name == "beta" and not advice.tracking:
        return 1.0
    return "auto"
