"""
Returns that do not fit in memory
=================================

A numpy memmap is an array in a file. ``fit`` reads batches of its rows, by "storm-c", and never holds all of it.
``partial_fit`` takes chunks as they come, each row once, from wherever they are. The file here has 16 MB, and could
have as many GB.
"""

# %%
# A file
# ------
import tempfile
from pathlib import Path

import numpy as np

from sk_stormc import CompositionalPortfolio

folder = tempfile.TemporaryDirectory()
n_periods, n_assets, chunk = 200_000, 20, 10_000
rng = np.random.default_rng(0)
mixing = rng.normal(size=(n_assets, n_assets)) / np.sqrt(n_assets)
file = Path(folder.name) / "returns.npy"
returns = np.lib.format.open_memmap(file, "w+", np.float32, (n_periods, n_assets))
for first in range(0, n_periods, chunk):
    returns[first : first + chunk] = rng.standard_t(5, (chunk, n_assets)) @ mixing + 0.1
returns.flush()
print(f"{file.stat().st_size / 1e6:.0f} MB")

# %%
# One pass, chunk by chunk
# ------------------------
# The chunks could come from a generator, a data base or a message queue. How large they are makes no difference to the
# result. Semivariance is minimised here. For the variance sums of products of the returns are exact. For semivariance
# the rows after the first 4,096 are kept as such sums too, which approximate it around the weights of their time.
settings = {
    "risk_measure": "semivariance",
    "constraint": "long_only",
    "random_state": 0,
}
stream, seen, weights = CompositionalPortfolio(**settings), [], []
returns = np.load(file, mmap_mode="r")
for first in range(0, n_periods, chunk):
    stream.partial_fit(returns[first : first + chunk])
    seen.append(first + chunk)
    weights.append(stream.weights_)

# %%
# Many passes over the file
# -------------------------
whole = CompositionalPortfolio(**settings).fit(returns)
print(
    f"fit by {type(whole.solver_).__name__}: {whole.ifo_[-1] / (3 * n_periods):.1f} passes, {whole.stop_reason_}"
)

# %%
# How much worse the stream's weights are, as a part of the utility of those of ``fit``. After one pass it is little.
# Where the data are in a file, more passes are the way to be exact.
from matplotlib import pyplot as plt

gap = [1 - stream.score(returns) / whole.score(returns) for stream.weights_ in weights]
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.loglog(seen, gap, "o-", markersize=4)
ax.set(
    xlabel="rows seen by partial_fit", ylabel="gap to the objective of fit, relative"
)
ax.grid(alpha=0.3)
del returns  # closes the file
folder.cleanup()
plt.show()
