"""Preparation of data for maps."""

from sk_stormc.embedding.tables import TableScaler

__all__ = ["TableScaler"]
