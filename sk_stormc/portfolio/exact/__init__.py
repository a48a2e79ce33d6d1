"""The exact methods for portfolios.

`fit` contains the objectives and runs a fit, `program` scales one and solves it by
`interior_point`, `feasible_set` contains the constraints, and `ratio` transforms the
maximisation of a ratio.
"""
