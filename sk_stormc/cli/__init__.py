"""The command line for files of users: maps of points, weights of portfolios, and
comparisons of solvers.

A command is a module with a docstring (its first line is the help text of the command),
``add_arguments(parser)`` and ``report(args)``.
"""

from sk_stormc.cli import comparisons, maps, portfolios

__all__ = ["COMMANDS"]

COMMANDS = {"map": maps, "portfolio": portfolios, "compare": comparisons}
