"""Policy evaluation: values of states and actions through the Bellman equation, with
linear features.

The estimators are `BellmanValueEstimator` (``estimator``) and `ActionValueEstimator`
(``action_values``). `reading` makes transitions of the user's logs. `sums` has the sums
over transitions, the two objectives (the Bellman residual and its projection), and
their exact solutions. `streams` continues them by more transitions, and `off_policy`
estimates the value of a policy from the log of another.
"""
