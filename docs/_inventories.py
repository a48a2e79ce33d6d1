"""Addresses in other packages' documentation, of the names that this one refers to; no network is needed."""

import zlib

PACKAGES = {  # the site, the path of a name's page, and the names by their kind
    "numpy": ("https://numpy.org/doc/stable/", "reference/generated/{}.html"),
    "scipy": ("https://docs.scipy.org/doc/scipy/", "reference/generated/{}.html"),
    "sklearn": ("https://scikit-learn.org/stable/", "modules/generated/{}.html"),
    "pandas": ("https://pandas.pydata.org/docs/", "reference/api/{}.html"),
    "gymnasium": ("https://gymnasium.farama.org/", "api/env/"),
    "matplotlib": ("https://matplotlib.org/stable/", "api/_as_gen/{}.html"),
}
NAMES = """
numpy.ndarray numpy.load:function numpy.log:function numpy.maximum:function numpy.minimum:function
numpy.errstate numpy.random.Generator
scipy.optimize.OptimizeResult scipy.optimize.minimize:function
sklearn.callback.ProgressBar sklearn.callback.ScoringMonitor sklearn.datasets.get_data_home:function
sklearn.frozen.FrozenEstimator sklearn.manifold.TSNE sklearn.neighbors.KNeighborsTransformer
sklearn.neighbors.NearestNeighbors sklearn.utils.Bunch sklearn.utils.check_random_state:function
pandas.DataFrame pandas.Series
gymnasium.Env
matplotlib.axes.Axes.scatter:method
""".split()


def write_inventories(folder):
    """Write a file for each package; the value of `intersphinx_mapping`."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for package, (site, page) in PACKAGES.items():
        lines = []
        for entry in NAMES:
            name, _, kind = entry.partition(":")
            if name.startswith(f"{package}."):
                lines.append(f"{name} py:{kind or 'class'} 1 {page.format(name)}#$ -\n")
        head = f"# Sphinx inventory version 2\n# Project: {package}\n# Version: \n"
        text = f"{head}# The remainder of this file is compressed using zlib.\n".encode()
        file = folder / f"{package}.inv"
        file.write_bytes(text + zlib.compress("".join(lines).encode()))
        mapping[package] = (site, str(file))
    return mapping
