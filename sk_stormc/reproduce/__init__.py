"""The paper's experiments as code: for the command line, the examples and the docs.

An experiment is a module with a docstring (its first line is the command line's help), ``MAX_IFO`` (the
default budget of a run), ``METHODS`` (the parameters of each method), perhaps ``SEEDS`` (their default number, else
3), ``add_arguments(parser)`` (options of its own) and ``report(args)`` (run, print the table, write the picture).
"""

from sk_stormc.reproduce import bellman, complexity, portfolio, sne, streaming

__all__ = ["EXPERIMENTS"]

EXPERIMENTS = {
    "portfolio": portfolio,
    "streaming": streaming,
    "sne": sne,
    "bellman": bellman,
    "complexity": complexity,
}
