"""Addresses in other packages' documentation, of the names that this one refers to; no
network is needed."""

import zlib

PACKAGES = {  # the site, and the path of a name's page
    "numpy": ("https://numpy.org/doc/stable/", "reference/generated/{}.html"),
    "scipy": ("https://docs.scipy.org/doc/scipy/", "reference/generated/{}.html"),
    "sklearn": ("https://scikit-learn.org/stable/", "modules/generated/{}.html"),
    "pandas": ("https://pandas.pydata.org/docs/", "reference/api/{}.html"),
    "gymnasium": ("https://gymnasium.farama.org/", "api/env/"),
    "matplotlib": ("https://matplotlib.org/stable/", "api/_as_gen/{}.html"),
}
NAMES = {
    "class": """
        numpy.ndarray numpy.errstate numpy.random.Generator
        scipy.optimize.OptimizeResult sklearn.callback.ProgressBar
        sklearn.callback.ScoringMonitor sklearn.frozen.FrozenEstimator
        sklearn.manifold.TSNE sklearn.neighbors.KNeighborsTransformer
        sklearn.neighbors.NearestNeighbors sklearn.utils.Bunch pandas.DataFrame
        pandas.Series gymnasium.Env
    """,
    "function": """
        numpy.load numpy.log numpy.maximum numpy.minimum scipy.optimize.minimize
        sklearn.datasets.get_data_home sklearn.utils.check_random_state
    """,
    "method": "matplotlib.axes.Axes.scatter",
}


def write_inventories(folder):
    """Write a file for each package; the value of `intersphinx_mapping`."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for package, (site, page) in PACKAGES.items():
        lines = [
            f"{name} py:{kind} 1 {page.format(name)}#$ -\n"
            for kind, names in NAMES.items()
            for name in names.split()
            if name.startswith(f"{package}.")
        ]
        head = f"# Sphinx inventory version 2\n# Project: {package}\n# Version: \n"
        text = (
            f"{head}# The remainder of this file is compressed using zlib.\n".encode()
        )
        file = folder / f"{package}.inv"
        file.write_bytes(text + zlib.compress("".join(lines).encode()))
        mapping[package] = (site, str(file))
    return mapping
