"""Pictures of maps, as small files."""

import io

from PIL import Image

from sk_stormc.plotting import plot_embeddings

COLOURS = 64


def draw_maps(path, maps, labels):
    """Maps side by side, coloured by label.

    Parameters
    ----------
    path : Path
    maps : dict of ndarray of shape (n_points, 2)
        By title.
    labels : ndarray of int of shape (n_points,)
    """
    write(path, plot_embeddings(maps, labels), size=0.8, dpi=160)


def write(path, figure, size, dpi):
    """Points of this size, and a palette in place of all colours."""
    for ax in figure.axes:
        ax.collections[0].set_sizes([size])
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi)
    with Image.open(file) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    path.parent.mkdir(parents=True, exist_ok=True)
    few.save(path, optimize=True)
