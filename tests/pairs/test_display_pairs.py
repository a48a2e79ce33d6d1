"""Every argument of a picture of a map meets every other, every kind of labels and every
container: each allowed pair of values occurs in a case."""

import datetime
import html
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import covering_array
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from sk_stormc.plotting import EmbeddingDisplay

pytest.importorskip("plotly")

GREY = "#cccccc"  # of missing values
CLASSES = ("texts", "categories", "booleans")
SCALES = ("numbers", "dates", "durations")
HOVER = {
    "frame": lambda a, b: pd.DataFrame({"a": a, "<b>": b}, index=np.arange(len(a)) + 3),
    "polars": lambda a, b: pl.DataFrame({"a": a, "<b>": b}),
    "dict": lambda a, b: {"a": a.tolist(), "<b>": b},
}
POINTS = {
    "array": np.asarray,
    "float32": np.float32,
    "frame": pd.DataFrame,
    "list": np.ndarray.tolist,
}
PALETTES = {
    "list": lambda names: ["red", "#00ff00", (0, 0, 1), "k"],
    "colormap": lambda names: "plasma",
    "dict": lambda names: {
        name: to_hex((0.1, k / len(names), 0)) for k, name in enumerate(names)
    },
}
FACTORS = {
    "labels": [None, *CLASSES, "integers", *SCALES],
    "missing": [False, True],
    "container": ["list", "array", "series", "polars"],
    "classes": [1, 3, 25],
    "continuous": [False, True],
    "n": [30, 300],
    "n_components": [1, 2, 3, 4],
    "points": list(POINTS),
    "new": [None, "points", "values"],
    "palette": [None, *PALETTES],
    "order": [None, "backwards"],
    "hover": [None, *HOVER],
    "axes": ["own", "given"],
    "permuted": [None, "picture", "page"],
}
FORBIDDEN = [
    *({"labels": kind, "continuous": True} for kind in CLASSES),
    {"labels": None, "new": "values"},
]


def labels_of(case, codes):
    """Labels of classes, -1 for missing ones; the names of the classes, in their order;
    and the numbers that a scale has in place of them, or None."""
    kind, k = case["labels"], case["classes"]
    if kind is None:
        return None, [], None
    names = [f"k{j} <b>%{{x}}" for j in range(k)]
    day, numbers = datetime.date(2024, 2, 27), None
    if kind == "booleans":
        values, names = [False, True, None], ["False", "True"]
        codes = np.where(codes < 0, -1, codes % 2)
    elif kind in CLASSES:
        values = [*names, None]
    else:
        steps = {
            "integers": lambda j: 10 * j,
            "numbers": lambda j: j + 0.5,
            "dates": lambda j: day + datetime.timedelta(j),
            "durations": lambda j: datetime.timedelta(2 + j),
        }
        values = [*map(steps[kind], range(k)), None]
        if kind != "integers" or k > 20 or case["continuous"]:
            first = (day - datetime.date(1970, 1, 1)).days
            of_kind = {"integers": (10, 0), "numbers": (1, 0.5), "dates": (1, first)}
            factor, offset = of_kind.get(kind, (1, 2))
            numbers = np.where(codes < 0, np.nan, codes * factor + offset)
        names = [str(10 * j) for j in range(k)]
    values = [values[code] for code in codes]
    used = {names[code] for code in codes if code >= 0} if numbers is None else ()
    if kind == "categories":
        names = names[::-1]
        if case["container"] == "polars":
            values = pl.Series(values, dtype=pl.Enum([*names, "unused"]))
        else:
            values = pd.Categorical(values, [*names, "unused"])
            if case["container"] == "series":
                values = pd.Series(values, index=np.arange(len(codes)) + 7)
    elif case["container"] == "polars":
        values = pl.Series(values)
    elif case["container"] != "list":
        whole = int if (codes >= 0).all() else float
        types = {"integers": whole, "numbers": float, "dates": "M8[D]"}
        types |= {"durations": "m8[s]"}
        values = np.array(values, types.get(kind, object))
        if case["container"] == "series":
            values = pd.Series(values, index=np.arange(len(codes)) + 7)
    return values, [name for name in names if name in used], numbers


def place(point, d):
    """What tells a point from the others, in the precision of pages; the height of
    points of one component has no meaning."""
    return tuple(np.float32(point[: min(d, 2)]).tolist())


def drawn(display, d):
    """Place and look of each point of a picture: a colour, or the value of a scale."""
    looks = []
    if d == 3:  # before, the last colours are left out
        display.figure_.draw_without_rendering()
    for points in display.scatter_:
        if points.axes is display.axes_[0]:
            offsets = points._offsets3d[:2] if d == 3 else points.get_offsets().T
            places = [place(point, d) for point in np.c_[*offsets]]
            values = points.get_array()
            if values is None:
                colors = points.get_facecolors()[:, :3]
                values = map(to_hex, np.resize(colors, (len(places), 3)))
            else:
                values = values.data.astype(np.float32)  # as those of pages
            looks += zip(places, values, strict=True)
    return looks


def on_page(figure, d):
    """The same of a page; and the names of the classes and the rows by their places."""
    looks, names, rows = [], {}, {}
    for trace in figure.data:
        axes = (
            [one["values"] for one in trace.dimensions] if d > 3 else [trace.x, trace.y]
        )
        places = [place(point, d) for point in np.c_[*axes]]
        color, texts = trace.marker.color, trace.customdata
        colors = len(places) * [to_hex(color)] if isinstance(color, str) else color
        looks += zip(places, colors, strict=True)
        names |= dict.fromkeys(places, html.unescape(trace.name).removesuffix(" (new)"))
        rows |= zip(places, texts[:, -1 if texts.shape[1] == 1 else 1], strict=True)
        assert "<b>%{" not in f"{trace.hovertemplate} {texts[:3].tolist()}"
    return looks, names, rows


def counted(looks, d):
    """How often each place has each look. The colours of a picture of three components
    are in the order of their depth, which places are not."""
    return Counter(look for _, look in looks) if d == 3 else Counter(looks)


def shown(case, order):
    """The display of a case, with its points in an order, and what it should show."""
    rng, d = np.random.default_rng(0), case["n_components"]
    n, n_new = case["n"], 5 if case["new"] else 0
    Z, codes = rng.normal(size=(n + n_new, d)), np.arange(n + n_new) % case["classes"]
    Z[:, 0] = rng.permutation(len(Z)) / 100
    if case["missing"]:
        codes[::7] = -1
    if case["new"] == "points":
        codes[n:] = -1
    every = np.r_[order, n : n + n_new]
    Z, codes = Z[every], codes[every]
    values, names, numbers = labels_of(case, codes)
    palette, ways = PALETTES.get(case["palette"]), POINTS[case["points"]]
    hover = HOVER.get(case["hover"])
    arguments = {
        "y": None if values is None else values[:n],
        "y_new": values[n:] if case["new"] == "values" else None,
        "new": ways(Z[n:]) if case["new"] else None,
        "palette": palette and palette(names),
        "order": [*names[::-1], "unused"] if case["order"] else None,
        "continuous": case["continuous"] and values is not None,
    }
    if case["order"]:
        names = names[::-1]
    display = EmbeddingDisplay(ways(Z[:n]), y_label="<i>$kind$", **arguments)
    hover = hover and hover(every, np.repeat("<b>%{x}", len(every)))
    places = {place(point, d): k for k, point in zip(every, Z, strict=True)}
    return display, hover, places, codes, names, numbers


def plot(display, case):
    """Draw the display, on axes of the caller or in a figure of its own."""
    ax = None
    if case["axes"] == "given":
        projection = "3d" if case["n_components"] == 3 else None
        ax = Figure().add_subplot(projection=projection)
    return display.plot(ax)


@pytest.mark.parametrize(
    "case",
    covering_array(FACTORS, FORBIDDEN),
    ids=lambda case: "-".join(map(str, case.values())),
)
def test_display(case):
    n, d = case["n"], case["n_components"]
    display, hover, places, codes, names, numbers = shown(case, np.arange(n))
    picture, figure = drawn(plot(display, case), d), display.to_plotly(hover)
    page, named, rows = on_page(figure, d)
    assert len(display.axes_) == (6 if d == 4 else 1)
    # each point once in each form, with the same look in both
    assert sorted(at for at, _ in picture) == sorted(at for at, _ in page)
    assert sorted(at for at, _ in page) == sorted(places)
    assert counted(picture, d) == counted(page, d)
    if case["hover"]:
        assert rows == {at: str(k) for at, k in places.items()}
    # missing values are grey, and are said to be missing
    missing, looks = codes < 0, dict(page)
    is_class = case["labels"] is not None and numbers is None
    if case["labels"] is not None:
        assert [looks[at] == GREY for at in places] == missing.tolist()
        assert [named[at] == "missing" for at in places] == missing.tolist()
    # each class once in the legend, in its order; a scale has a bar in its place
    assert (display.legend_ is not None) == is_class
    if is_class:
        texts = [text.get_text() for text in display.legend_.get_texts()]
        assert texts == names + ["missing"] * int(missing.any())
        assert set(named.values()) == set(texts)
        handles = display.legend_.legend_handles
        kinds = [(to_hex(one.get_color()), one.get_marker()) for one in handles]
        assert len(set(kinds)) == len(texts)
        colors = {text: color for text, (color, _) in zip(texts, kinds, strict=True)}
        assert all(looks[at] == colors[named[at]] for at in places)
    elif numbers is not None:
        values = np.array([looks[at] for at in places])[~missing].astype(float)
        np.testing.assert_allclose(values, numbers[~missing], rtol=1e-6)
        low, high = display.colorbar_.mappable.get_clim()
        least, most = np.nanmin(numbers), np.nanmax(numbers)
        scale = display.colorbar_.mappable.cmap
        for marker in (trace.marker for trace in figure.data if trace.marker.showscale):
            assert (marker.cmin, marker.cmax) == (least, most)
            ends = [marker.colorscale[end][1] for end in (0, -1)]
            assert ends == [to_hex(scale(0.0)), to_hex(scale(1.0))]
        # that of equal values is wider
        assert (low, high) == (least, most) if least < most else low < least < high
    if case["permuted"]:
        other, hover, *_ = shown(case, np.random.default_rng(1).permutation(n))
        if case["permuted"] == "page":
            assert counted(on_page(other.to_plotly(hover), d)[0], d) == counted(page, d)
        else:
            assert counted(drawn(plot(other, case), d), d) == counted(picture, d)
