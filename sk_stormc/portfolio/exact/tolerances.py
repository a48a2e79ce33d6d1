"""Tolerances that the exact methods share. Each is relative to the size of what it is
about."""

__all__ = [
    "ACCURACY",
    "CONSTRAINT_TOLERANCE",
    "PROGRAM_TOLERANCE",
    "RELATIVE_ROUNDING",
]

# rounding error of a sum of products, relative to the size of its terms; without it,
# weights that meet a limit exactly would count as beyond it
RELATIVE_ROUNDING = 1e-12
# tolerance to which a program is solved: complementarity, residuals and multipliers of
# a program in units of order one. A multiplier, a gap or a violation below it is 0. The
# interior-point method stalls at a smaller one.
PROGRAM_TOLERANCE = 1e-9
# tolerance of HiGHS and SCIP for constraints on weights of order one. A weight is at a
# limit if it is nearer.
CONSTRAINT_TOLERANCE = 1e-7
# smallest relative error of an objective that searches beyond a single program reach
ACCURACY = 1e-7
