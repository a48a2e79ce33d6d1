"""What explains the colours of a map: legends, colour bars and names of classes."""

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from scipy.ndimage import uniform_filter


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
            color=color,
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
    if pairs:
        return ax.legend(loc="upper right", **style)
    if not own:
        return ax.legend(loc="best", framealpha=0.85, **style)
    figure = ax.figure
    legend = figure.legend(loc="outside right center", **style)
    figure.draw_without_rendering()
    # the map keeps its size beside a wide legend
    width = legend.get_window_extent().width / figure.dpi
    figure.set_figwidth(figure.get_figwidth() + width)
    return legend


def write_colorbar(ax, axes, scatter, label, are_dates):
    """A colour bar of the last points with a scale, or None if all values are
    missing."""
    scales = [points for points in scatter if points.get_array() is not None]
    if not scales:
        return None
    # the third axis has its label on this side
    pad = 0.14 if ax.name == "3d" else 0.02
    bar = ax.figure.colorbar(
        scales[-1], ax=axes.tolist(), label=label, shrink=0.8, pad=pad
    )
    bar.solids.set(alpha=1)
    if are_dates:
        locator = AutoDateLocator()
        bar.ax.yaxis.set_major_locator(locator)
        bar.ax.yaxis.set_major_formatter(ConciseDateFormatter(locator))
    return bar


def shortened(name, length=28):
    """A name of at most ``length`` characters, of which the middle is left out."""
    if len(name) <= length:
        return name
    return f"{name[: length // 2]}…{name[1 - length // 2 :]}"


def name_classes(ax, Z, colors):
    """Write the name of each class where its points are densest, unless another name is
    there."""
    ax.figure.figure.draw_without_rendering()  # the layout determines the space
    labels, boxes, extent = [], [], np.stack([Z.min(axis=0), Z.max(axis=0)], axis=1)
    counts = np.bincount(colors.codes[colors.codes >= 0], minlength=len(colors.names))
    style = {"ha": "center", "va": "center", "fontweight": "bold"}
    outline = withStroke(linewidth=2.5, foreground="white")
    for k in np.argsort(-counts, kind="stable"):  # the largest first
        place = _heart(Z[colors.codes == k], extent)
        label = ax.text(*place, shortened(colors.names[k]), fontsize="medium", **style)
        label.set(in_layout=False, clip_on=True, path_effects=[outline])
        box = label.get_window_extent()
        if any(box.overlaps(other) for other in boxes):
            label.remove()
        else:
            labels.append(label)
            boxes.append(box)
    return labels


def _heart(points, extent):
    """The point in the middle of the densest part of a class, which may have several
    parts."""
    counts, *edges = np.histogram2d(*points.T, bins=12, range=extent)
    around = uniform_filter(counts, 3, mode="constant")
    best = np.unravel_index(np.argmax(around * (counts > 0)), counts.shape)
    low = [edge[max(k - 1, 0)] for edge, k in zip(edges, best, strict=True)]
    high = [edge[: k + 3][-1] for edge, k in zip(edges, best, strict=True)]
    near = points[((points >= low) & (points <= high)).all(axis=1)]
    return near[np.abs(near - np.median(near, axis=0)).sum(axis=1).argmin()]
