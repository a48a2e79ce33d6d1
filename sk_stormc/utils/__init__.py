"""Helpers that all parts of the package use and that are not about optimisation.

Here are checks of arguments, warnings that point at the user's line, files that are written whole or not at all, and
names of types.
"""
