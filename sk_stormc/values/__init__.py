"""Values of states: policy evaluation through the Bellman equation, with linear features.

This package has the two objectives (the Bellman residual and its projection), their exact solutions by least squares,
streams of transitions, models and environments, off-policy estimates, and the estimators `BellmanValueEstimator`
(values of states) and `ActionValueEstimator` (values of actions).
"""
