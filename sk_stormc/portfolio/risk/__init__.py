"""The problem classes of the risk measures.

Each class registers itself with `PortfolioProblem` when it is imported, which `sk_stormc.portfolio` does.
"""
