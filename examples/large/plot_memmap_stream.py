"""
Returns that do not fit in memory
=================================

A numpy memmap is an array in a file. ``fit`` makes a few passes over it, block by
block, and never loads the whole file. ``partial_fit`` takes chunks from any source, and
uses each row once. The file of this example has 16 MB. Files of many GB are read in the
same way.
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
# One pass in chunks
# ------------------
# The chunks could also come from a generator, a database or a message queue. The result
# does not depend on their sizes. This example minimises the semivariance. The estimator
# keeps the first 4,096 rows, and approximates the losses of the later rows by sums of
# products of the returns. For the variance such sums are exact.
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
print(f"{whole.solver_}: {whole.n_iter_} rounds, {whole.stop_reason_}")

# %%
# The plot shows the relative difference between the scores of the stream's weights and
# of those of ``fit``. It is small after one pass. If the data are in a file, ``fit`` is
# more accurate.
from matplotlib import pyplot as plt

gap = [1 - stream.score(returns) / whole.score(returns) for stream.weights_ in weights]
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.loglog(seen, gap, "o-", markersize=4)
ax.set(xlabel="rows passed to partial_fit", ylabel="relative gap to the score of fit")
ax.grid(alpha=0.3)
del returns  # closes the file
folder.cleanup()
plt.show()
