"""Exact portfolios of many periods by rounds: passes over rows in blocks, and exact
fits of a table in memory."""
