"""Policy evaluation: values of states and actions through the Bellman equation, with
linear features.

This package contains the two objectives (the Bellman residual and its projection),
their exact solutions by least squares, streams of transitions, off-policy estimates,
and the estimators `BellmanValueEstimator` (values of states) and `ActionValueEstimator`
(values of actions).
"""
