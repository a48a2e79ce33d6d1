"""The exact methods for portfolios.

`objectives` contains the objectives, `program` scales one and solves it by
`interior_point`, `feasible_set` contains the constraints, and `ratio` transforms the
maximisation of a ratio.
"""
