"""Off-policy evaluation: the value of a policy from episodes of another, by products of
importance ratios, with or without a model of the values of actions.
"""
