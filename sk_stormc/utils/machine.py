"""What the machine has."""

import math
import os

__all__ = ["machine_memory"]


def machine_memory():
    """The memory of the machine in bytes, or infinity where Python cannot tell, as on
    Windows."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return math.inf
