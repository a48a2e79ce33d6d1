"""Sums over transitions, in memory (`lstd`) or in blocks (`log_blocks`), and what is
computed from them: exact solutions (`least_squares`, `lspi`), compositional problems
(`problems`, `projected`), and standard errors (`uncertainty`).
"""
