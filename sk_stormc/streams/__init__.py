"""Problems whose rows arrive in chunks, and rows that are read from their file.

A stream is a problem whose components are never all available at the same time. Each
row is used for f, for the Jacobian of g and for g, but never for two of them in the
same iteration.
"""
