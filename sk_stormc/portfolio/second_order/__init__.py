"""The exact methods of portfolios.

`fit` has the objectives and runs a fit, `newton` solves one problem, `program` writes it down for `interior_point`,
`limits` has the constraints, and `ratio` is the transformation of a ratio.
"""
