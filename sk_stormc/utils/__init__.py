"""Helpers for all parts of the package that do not depend on optimisation.

They check arguments, raise warnings that refer to the user's line of code, write files
as a whole or not at all, and define names of types.
"""
