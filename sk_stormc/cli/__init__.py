"""The command line for files of users: maps of points, weights of portfolios,
values of policies, and comparisons of solvers.

A command is a module with a docstring (its first line is the help text of the command),
``add_arguments(parser)`` and ``report(args)``.
"""

from sk_stormc.cli import comparisons, maps, policy_values, portfolios

__all__ = ["COMMANDS"]

COMMANDS = {
    "map": maps,
    "portfolio": portfolios,
    "values": policy_values,
    "compare": comparisons,
}
