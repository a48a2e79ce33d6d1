"""Rows that come one chunk after the other, as a problem; and rows that stay in their file.

A stream is a problem whose components are never all at hand. Each row is used for f, for the Jacobian of g and for g,
but never for two of them in one iteration.
"""
