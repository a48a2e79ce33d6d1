"""Values of states: policy evaluation through the Bellman equation, with linear features.

The wing has the two objectives (the Bellman residual and its projection), their exact solutions by least squares,
streams of transitions, models and environments, and the estimator `BellmanValueEstimator`.
"""
