"""What is minimised: the contract of a compositional problem, and the parts that problems are made of.

Phi(x) = (1/n) sum_i f_i(x, g(x)) + R(x), with g the mean of g_j. A problem gathers batches of components and evaluates
them. It knows nothing of how it is minimised. Beside the contract are compositions of the user's own functions, the
logarithm of a mean of exponentials, penalties R, metrics that steps are measured in, and schedules.
"""
