"""Logs as users give them: states, actions, the order of the rows, their successors,
and the transitions that follow from these.

`log_warnings` and `log_order` ask about logs that are valid but look wrong.
"""
