"""The problem classes of the risk measures.

Each registers itself with `PortfolioProblem` when it is imported, which `sk_stormc.portfolio` does.
"""
