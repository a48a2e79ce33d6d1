"""The exact methods for portfolios.

`fit` contains the objectives and runs a fit, `newton` solves one problem, `program` formulates it for `interior_point`,
`feasible_set` contains the constraints, and `ratio` transforms the maximisation of a ratio.
"""
