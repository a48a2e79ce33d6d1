"""The interface of compositional problems, and the parts from which they are built.

A problem has the objective Phi(x) = (1/n) sum_i f_i(x, g(x)) + R(x), with g the mean of
g_j. It gathers batches of components and evaluates them, and does not depend on the
method that minimises it. This package also contains compositions of the user's own
functions, the logarithm of a mean of exponentials, penalties R,
preconditioners, and schedules.
"""
