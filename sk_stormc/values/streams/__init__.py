"""Transitions that arrive in chunks: `partial_fit`, and the stream on which iterative
solvers run.
"""
