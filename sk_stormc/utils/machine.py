"""What the machine has, and sizes that suit it.

The sizes divide work into parts. Other values would change the time of a computation
and the rounding of sums, but nothing else.
"""

import math
import os

# Numbers that fit in the cache of a core. It takes about as long to hand smaller arrays
# to another thread as to compute with them.
CACHE_NUMBERS = 2**17
TASK_NUMBERS = 2**18  # numbers of a thread's task
BLOCK_BYTES = 2**24  # size of a block that is read or computed at a time
# size of a matrix that is kept, if its parts are needed more than once
MATRIX_BYTES = 2**28


def machine_memory():
    """The memory of the machine in bytes, or of this process if that is limited; or
    infinity where Python cannot tell, as on Windows."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return memory if limit == resource.RLIM_INFINITY else min(memory, limit)
    except (ImportError, AttributeError, OSError, ValueError):
        return math.inf
