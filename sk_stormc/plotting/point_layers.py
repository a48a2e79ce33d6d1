"""The calls of matplotlib's scatter that draw points: a layer of old ones and one of
new ones, in groups by shape."""

import numpy as np
from matplotlib.colors import is_color_like
from matplotlib.markers import MarkerStyle

from sk_stormc.plotting._style import BLUE, visible
from sk_stormc.plotting.point_colors import GREY, colormap_of
from sk_stormc.utils.frames import is_series

# keywords of scatter that may have an entry for each point, and those of them that are
# colours
COLORED = ("c", "color", "facecolor")
PER_POINT = (*COLORED, "s", "alpha", "edgecolor", "linewidth", "urls")
SCALE = ("cmap", "norm", "vmin", "vmax")


class PointLayers:
    """The calls of `scatter` that draw old and new points in their colours."""

    def __init__(self, colors, n_old, palette, kwargs):
        self.colors, self.n_old, self.kwargs = colors, n_old, kwargs
        limits = None if "norm" in kwargs else colors.limits()
        self.scale = {"cmap": colormap_of(palette)}
        if limits is not None:
            self.scale |= dict(zip(("vmin", "vmax"), limits, strict=True))

    def draw(self, ax, Z, crowd=1):
        """Draw the points, and return the collections."""
        n = len(Z)
        size = np.clip(420 / np.sqrt(n), 0.3, 36) / crowd
        opacity = float(np.clip(14 / n**0.32, 0.25, 0.9))
        # a vector file contains many points as pixels
        some = {"s": size, "alpha": opacity, "linewidth": 0, "rasterized": n >= 5000}
        order = np.random.default_rng(0).permutation(n)
        old, new = order[order < self.n_old], order[order >= self.n_old]
        if not new.size:
            return self._draw_some(ax, Z, old, some)
        above = some | {"alpha": 1.0, "s": 2.5 * max(size, 6 / crowd), "zorder": 2}
        above |= {"linewidth": 0.7, "edgecolor": visible("black")}
        return [
            *self._draw_some(ax, Z, old, some | {"alpha": 0.35 * opacity}),
            *self._draw_some(ax, Z, new, above),
        ]

    def _draw_some(self, ax, Z, rows, style):
        drawn = []
        for marker, part, color in self._groups(rows):
            given = {
                name: _of_points(name, value, part, len(Z))
                for name, value in self.kwargs.items()
            }
            if "cmap" not in color and "c" not in given:
                given = {k: value for k, value in given.items() if k not in SCALE}
            own = {} if any(name in given for name in COLORED) else color
            look = style | {"marker": marker} | own | given
            if not MarkerStyle(look["marker"]).is_filled():  # it consists of lines
                for name in {"linewidth", "edgecolor"} - given.keys():
                    look.pop(name, None)
            drawn.append(ax.scatter(*Z[part].T, **look))
        return drawn

    def _groups(self, rows):
        """(marker, rows, colours) of the points that are drawn by one call. Missing
        values are behind the others."""
        colors = self.colors
        if colors.values is not None:
            missing = np.isnan(colors.values[rows])
            if missing.any():
                yield "o", rows[missing], {"c": [GREY]}
            if not missing.all():
                some = rows[~missing]
                yield "o", some, self.scale | {"c": colors.values[some]}
        elif colors.names is None:
            yield "o", rows, {"c": [BLUE]}
        else:
            names, looks = colors.with_missing()
            color, shape = (np.array(part) for part in zip(*looks, strict=True))
            color = np.array([visible(one) for one in color])
            codes = colors.codes[rows]
            for marker in dict.fromkeys(shape):
                some = shape[codes] == marker
                if some.any():
                    yield str(marker), rows[some], {"c": color[codes[some]].tolist()}


def _of_points(name, value, rows, n):
    """The entries of a keyword for some points, or the keyword as it is if it does not
    have one for each."""
    if name not in PER_POINT or np.ndim(value) == 0 or len(value) != n:
        return value
    if name in COLORED[1:] and n in (3, 4) and is_color_like(value):
        return value
    value = value.to_numpy() if is_series(value) else value
    return value[rows] if isinstance(value, np.ndarray) else [value[k] for k in rows]
