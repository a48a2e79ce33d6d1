"""Comparisons that print as tables and can be plotted: of solvers, and of policies.

Solvers are compared by times and oracle calls, on a problem or within an estimator, for
several seeds. All runs are measured in the same way, by the same clock and the same
counts. Policies are compared by their values, estimated from the same episodes.
"""

from sk_stormc.compare.comparison import ComparedRun, SolverComparison
from sk_stormc.compare.policies import compare_policies
from sk_stormc.compare.policy_comparison import PolicyComparison
from sk_stormc.compare.solvers import compare_solvers

__all__ = [
    "ComparedRun",
    "PolicyComparison",
    "SolverComparison",
    "compare_policies",
    "compare_solvers",
]
