"""The paper's experiments as code: for the command line, the examples and the docs.

An experiment is a module with a docstring (its first line is the help text of the
command), ``METHODS`` (the parameters of each method), optionally ``SEEDS`` (their
default number, otherwise 3), ``add_arguments(parser)`` (its own options) and
``report(args)`` (run, print the table, save the figure). The default budgets of a run
are `sk_stormc.reproduce.experiment.MAX_IFO`.

An experiment that compares methods has ``cases``, which are run by
`sk_stormc.reproduce.experiment.run`, and for the report of all experiments
``PUBLISHED`` (the parameters of the five published methods), ``VARIANTS`` (their grids)
and ``LABELS``.
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
