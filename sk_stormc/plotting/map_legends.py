"""What explains the colours of a map: legends, colour bars and names of classes."""

import numpy as np
from matplotlib import rcParams
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from scipy.ndimage import convolve

from sk_stormc.plotting._style import shortened, visible, write_literally


def write_legend(ax, looks, title, pairs, own):
    """A legend of the colour and shape of each class: in the empty triangle of a figure
    of pairs, beside the axes of an own figure, or in the axes."""
    handles = [
        Line2D(
            [],
            [],
            linestyle="",
            marker=marker,
            markersize=6,
            color=visible(color),
            label=shortened(name),
        )
        for name, (color, marker) in looks.items()
    ]
    style = {
        "handles": handles,
        "title": title or None,
        "fontsize": "small",
        "ncols": -(-len(handles) // 20),
        "handletextpad": 0.2,
    }
    figure, beside = ax.figure, own and not pairs
    if beside:
        legend = figure.legend(loc="outside right center", **style)
    else:
        place = {"loc": "upper right"} if pairs else {"loc": "best", "framealpha": 0.85}
        legend = ax.legend(**place, **style)
    write_literally(legend)
    if not beside:
        return legend
    figure.draw_without_rendering()
    # the map keeps its size beside a wide legend
    width = legend.get_window_extent().width / figure.dpi
    figure.set_figwidth(figure.get_figwidth() + width)
    return legend


def write_colorbar(ax, axes, scatter, label, colors):
    """A colour bar of the last points with a scale, or None if all values are
    missing."""
    scales = [points for points in scatter if points.get_array() is not None]
    if not scales:
        return None
    # the third axis has its label on this side
    pad = 0.14 if ax.name == "3d" else 0.02
    bar = ax.figure.colorbar(
        scales[-1], ax=axes.tolist(), label=colors.title(label), shrink=0.8, pad=pad
    )
    bar.solids.set(alpha=1)
    write_literally(bar.ax.yaxis.label)
    if colors.scale == "dates":
        locator = AutoDateLocator()
        bar.ax.yaxis.set_major_locator(locator)
        bar.ax.yaxis.set_major_formatter(ConciseDateFormatter(locator))
    return bar


def name_classes(ax, Z, colors):
    """Write the name of each class where its points are densest, unless another name is
    there."""
    ax.figure.figure.draw_without_rendering()  # the layout determines the space
    labels, boxes = [], []
    style = {"ha": "center", "va": "center", "fontweight": "bold", "parse_math": False}
    outline = withStroke(linewidth=2.5, foreground=rcParams["axes.facecolor"])
    for name, place in islands_of(Z, colors):
        label = ax.text(*place, shortened(name), fontsize="medium", **style)
        label.set(in_layout=False, clip_on=True, path_effects=[outline])
        box = label.get_window_extent().padded(3)
        if any(box.overlaps(other) for other in boxes):
            label.remove()
        else:
            labels.append(label)
            boxes.append(box)
    return labels


def islands_of(Z, colors):
    """The name of each class and the middle of its largest island, the largest class
    first. A class has an island where most of the points are its own."""
    extent = np.stack([Z.min(axis=0), Z.max(axis=0)], axis=1)
    of_all = _around(Z, extent)[1]
    sizes = np.bincount(colors.codes[colors.codes >= 0], minlength=len(colors.names))
    for k in np.argsort(-sizes, kind="stable"):
        points = Z[colors.codes == k]
        if not len(points):
            continue
        counts, of_class, edges = _around(points, extent)
        share = of_class / np.maximum(of_all, 1)
        # by more than the standard error of a sample twice
        error = np.sqrt(share * (1 - share) / np.maximum(of_all, 1))
        is_island = (counts > 0) & (share - 2 * error > 0.5)
        if is_island.any():
            cell = np.unravel_index(np.argmax(of_class * is_island), counts.shape)
            low = [edge[max(j - 1, 0)] for edge, j in zip(edges, cell, strict=True)]
            high = [edge[: j + 3][-1] for edge, j in zip(edges, cell, strict=True)]
            near = points[((points >= low) & (points <= high)).all(axis=1)]
            middle = np.abs(near - np.median(near, axis=0)).sum(axis=1).argmin()
            yield colors.names[k], near[middle]


def _around(points, extent):
    """Numbers of points in the cells of a grid, those in each cell and the cells around
    it, and the edges of the cells."""
    counts, *edges = np.histogram2d(*points.T, bins=12, range=extent)
    return counts, convolve(counts, np.ones((3, 3)), mode="constant"), edges
