"""EmbeddingDisplay: values of single points, classes and their order, missing values, several displays on one axes."""

import datetime
import io
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from matplotlib import image
from matplotlib.colors import LogNorm, to_rgb, to_rgba_array
from matplotlib.figure import Figure

from sk_stormc.plotting import EmbeddingDisplay

N = 60
Z = np.random.default_rng(3).normal(size=(N, 5))
GREY = to_rgb("0.8")
NUMBERS = np.linspace(0.1, 1, N)
TWELVE = [f"class {k % 12}" for k in range(N)]  # more than there are colours, so that shapes differ


def axes_of(d):
    return Figure().add_subplot(projection="3d" if d == 3 else None)


def shown(y, Z=Z[:, :2], ax=None, **kwargs):
    return EmbeddingDisplay(Z, y=y).plot(axes_of(Z.shape[1]) if ax is None else ax, **kwargs)


def drawn(display):
    """The picture as an array."""
    buffer = io.BytesIO()
    display.figure_.savefig(buffer, format="png", dpi=50)
    return image.imread(io.BytesIO(buffer.getvalue()))


def repeated(*values):
    return [values[k % len(values)] for k in range(N)]


def legend_of(display):
    return [text.get_text() for text in display.legend_.get_texts()]


def of_points(display, values_of, Z=Z):
    """A property of each point, in the order of the embedding."""
    found = {}
    for points in display.scatter_:
        places = points.get_offsets()
        values = np.asarray(values_of(points))
        values = np.broadcast_to(values, (len(places), *values.shape[1:]))
        found |= {tuple(place): value for place, value in zip(places, values, strict=True)}
    return np.array([found[tuple(place)] for place in Z[:, :2]])


def colors_of(display, Z=Z):
    return of_points(display, lambda points: points.get_facecolors()[:, :3], Z)


COLORS = [f"C{k % 7}" for k in range(N)]
RGBA = to_rgba_array(COLORS)


@pytest.mark.parametrize("y", [None, TWELVE, NUMBERS], ids=["none", "classes", "numbers"])
@pytest.mark.parametrize(
    "name, values, get",
    [
        ("s", 9 * NUMBERS, "sizes"),
        ("s", (9 * NUMBERS).tolist(), "sizes"),
        ("alpha", NUMBERS, "alpha"),
        ("linewidths", NUMBERS, "linewidths"),
        ("lw", NUMBERS, "linewidths"),
        ("edgecolors", COLORS, "edgecolors"),
        ("ec", RGBA, "edgecolors"),
        ("c", COLORS, "facecolors"),
        ("c", NUMBERS, "array"),
        ("color", RGBA, "facecolors"),
        ("facecolors", COLORS, "facecolors"),
        ("urls", COLORS, "urls"),
    ],
)
def test_a_value_for_each_point_belongs_to_its_point(y, name, values, get):
    found = of_points(shown(y, **{"alpha": 1.0, name: values}), lambda points: getattr(points, f"get_{get}")())
    np.testing.assert_array_equal(found, RGBA if "colors" in get else values)


def test_values_in_a_series_belong_to_the_points_by_position():
    pd = pytest.importorskip("pandas")
    sizes = pd.Series(NUMBERS, index=np.roll(np.arange(N), 7))
    np.testing.assert_array_equal(of_points(shown(TWELVE, s=sizes), lambda points: points.get_sizes()), NUMBERS)
    display = shown(pd.Series(TWELVE, index=sizes.index))
    np.testing.assert_array_equal(colors_of(display), colors_of(shown(TWELVE)))


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize("kind", ["s", "c", "edges", "alpha"])
def test_the_picture_does_not_depend_on_the_order_of_the_points(d, kind):
    if d == 3 and kind == "alpha" and matplotlib.__version_info__ < (3, 11):
        pytest.skip("matplotlib sorts alpha by depth since 3.11, and the display refuses it before")
    Z = np.random.default_rng(0).permuted(np.tile(np.arange(12.0), (d, 1)), axis=1).T  # apart from each other
    y, numbers = np.arange(12) % 2, np.linspace(0.1, 1, 12)
    values = {
        "s": {"s": 40 * numbers},
        "c": {"c": numbers, "s": np.full(12, 30)},
        "edges": {"linewidths": 3 * numbers, "edgecolors": np.array(COLORS[:12]), "s": np.full(12, 40)},
        "alpha": {"alpha": numbers, "s": np.full(12, 40)},
    }[kind]
    pictures = []
    for order in (np.arange(12), np.roll(np.arange(12), 5)):
        display = shown(y[order], Z[order], **{name: v[order] for name, v in values.items()}, legend=False)
        for text in display.labels_:  # where points of a class are equally dense, their order determines the place
            text.remove()
        pictures.append(drawn(display))
    np.testing.assert_array_equal(*pictures)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"s": [1, 2]}, "s must be one value or one for each of the 60 points, got 2"),
        ({"linewidths": [1, 2]}, "linewidth must be one value or one for each of the 60 points, got 2"),
        ({"edgecolors": ["red", "blue"]}, "edgecolor must be one value or one for each of the 60 points, got 2"),
        ({"alpha": np.ones(61)}, "alpha must be one value or one for each of the 60 points, got 61"),
    ],
)
def test_too_few_or_too_many_values_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        shown(TWELVE, **kwargs)


def test_line_styles_of_points_are_refused_in_three_dimensions():
    with pytest.raises(ValueError, match="linestyle must be one value for all points of three components"):
        shown(TWELVE, Z[:, :3], linestyles=repeated("-", "--"))


@pytest.mark.filterwarnings("error:No data for colormapping", "error:You passed both")
@pytest.mark.parametrize("name", ["c", "color", "facecolors"])
def test_colours_of_the_caller_replace_those_by_y(name):
    display = shown(repeated("a", "b"), **{name: "red"})
    np.testing.assert_array_equal(colors_of(display), np.tile([1.0, 0, 0], (N, 1)))
    assert display.legend_ is None and {text.get_text() for text in display.labels_} == {"a", "b"}


def test_the_legend_has_the_marker_of_the_points():
    assert {handle.get_marker() for handle in shown(TWELVE, marker="x").legend_.legend_handles} == {"x"}


# --- numbers -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error:No data for colormapping", "error:You passed both")
@pytest.mark.parametrize("d", [2, 3, 4])
def test_numbers_on_a_logarithmic_scale(d):
    y = 10.0 ** np.arange(-10, 50)
    y[3], y[7] = np.nan, -1.0
    display = shown(y, Z[:, :d], norm=LogNorm(), cmap="magma")
    display.figure_.draw_without_rendering()
    assert display.colorbar_.mappable.get_clim() == (y[y > 0].min(), y[-1])
    assert len(display.scatter_) == 2 * len(display.axes_)
    for missing, numbers in zip(display.scatter_[::2], display.scatter_[1::2], strict=True):
        assert len(missing.get_offsets()) == 1 and len(numbers.get_offsets()) == N - 1
        colors = np.round(numbers.get_facecolors()[:, :3], 6)
        assert (np.round(missing.get_facecolors()[:, :3], 6) == np.round(GREY, 6)).all()
        assert (colors == np.round(GREY, 6)).all(axis=1).sum() == 1  # the one that has no logarithm


@pytest.mark.parametrize("d", [2, 3])
def test_numbers_as_c_that_are_missing_are_grey(d):
    c = NUMBERS.copy()
    c[:4] = np.nan
    missing, numbers = shown(None, Z[:, :d], c=c).scatter_
    assert len(missing.get_offsets()) == 4 and numbers.get_clim() == (c[4], c[-1])


# --- classes -------------------------------------------------------------------------------------------


def masked(values):
    return np.ma.array([9 if v is None else v for v in values], mask=[v is None for v in values])


def in_pandas(kind, **options):
    def make(values):
        pd = pytest.importorskip("pandas")
        values = [pd.NA if v is None else v for v in values]
        return pd.Series(pd.array(values, dtype=kind), index=np.arange(N)[::-1], **options)

    return make


def in_polars(values):
    return pytest.importorskip("polars").Series(values)


def with_nat(values):
    return [pytest.importorskip("pandas").NaT if v is None else v for v in values]


@pytest.mark.parametrize(
    "kind, values, expected",
    [
        (list, ("b", None, "a"), "ab"),
        (lambda y: [np.nan if v is None else v for v in y], ("b", None, "a"), "ab"),
        (lambda y: np.array(y, object), ("b", None, "a"), "ab"),
        (with_nat, ("b", None, "a"), "ab"),
        (in_pandas("string"), ("b", None, "a"), "ab"),
        (in_polars, ("b", None, "a"), "ab"),
        (in_pandas("boolean"), (True, None, False), ["False", "True"]),
        (list, (True, None, False), ["False", "True"]),
        (in_pandas("Int64"), (10, None, 2), ["2", "10"]),
        (in_polars, (10, None, 2), ["2", "10"]),
        (lambda y: np.array(y, float), (10, None, 2), ["2", "10"]),  # None becomes NaN
        (masked, (10, None, 2), ["2", "10"]),
        (list, (None,), []),
        (lambda y: np.array(y, float), (None,), []),
    ],
)
def test_missing_classes_are_grey_and_last(kind, values, expected):
    values = repeated(*values)
    display = shown(kind(values))
    assert legend_of(display) == [*expected, "missing"] and display.colorbar_ is None
    grey = np.isclose(colors_of(display), GREY).all(axis=1)
    np.testing.assert_array_equal(grey, [v is None for v in values])
    assert {text.get_text() for text in display.labels_} <= set(expected)


@pytest.mark.parametrize("d", [1, 3, 4])
def test_missing_classes_in_other_dimensions(d):
    display = shown(repeated("b", None, "a"), Z[:, :d])
    assert legend_of(display) == ["a", "b", "missing"] and len(display.scatter_) == 2 * len(display.axes_)
    for points in display.scatter_[::2]:
        assert len(points.get_offsets()) == N // 3
        np.testing.assert_allclose(points.get_facecolors()[0, :3], GREY)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_categorical_has_classes_in_the_order_of_its_categories(ordered):
    pd = pytest.importorskip("pandas")
    categories = ["low", "mid", "unused", "high"]
    y = pd.Categorical(repeated("high", "low", None, "mid"), categories=categories, ordered=ordered)
    display = shown(pd.Series(y, index=np.arange(N)[::-1]))
    assert legend_of(display) == ["low", "mid", "high", "missing"]
    in_order = colors_of(shown(repeated("c", "a", None, "b")))
    np.testing.assert_array_equal(colors_of(display), in_order)


def test_a_categorical_of_numbers_is_not_a_scale():
    pd = pytest.importorskip("pandas")
    display = shown(pd.Categorical(np.arange(N) % 30, categories=np.arange(30)[::-1]))
    assert display.colorbar_ is None and legend_of(display) == [str(k) for k in range(30)][::-1]


def test_an_enum_of_polars_has_an_order():
    pl = pytest.importorskip("polars")
    y = pl.Series(repeated("high", "low", None), dtype=pl.Enum(["low", "mid", "high"]))
    assert legend_of(shown(y)) == ["low", "high", "missing"]


@pytest.mark.parametrize(
    "values, expected",
    [
        (("x",), ["x"]),
        ((1234567.0, 1234568.0), ["1234567", "1234568"]),
        ((datetime.date(2020, 3, 1), datetime.date(2020, 1, 1)), ["2020-01-01", "2020-03-01"]),
    ],
)
def test_names_of_classes(values, expected):
    assert legend_of(shown(repeated(*values))) == expected


def test_the_title_of_the_legend_is_the_name_of_the_series():
    pd = pytest.importorskip("pandas")
    y = pd.Series(pd.Categorical(repeated("b", "a"), categories=["b", "a"]), name="group")
    display = EmbeddingDisplay.from_estimator(SimpleNamespace(embedding_=Z[:, :3]), y, ax=axes_of(3))
    assert legend_of(display) == ["b", "a"] and display.legend_.get_title().get_text() == "group"


# --- several displays on one axes ----------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_classes_keep_their_colours_on_the_same_axes(d):
    old = shown(repeated("b", "a", "c"), Z[:, :d])
    before = {h.get_label(): h.get_color() for h in named_handles(old)}
    n_axes = len(old.figure_.axes)
    new = shown(repeated("c", "b", "z", None), Z[:, :d] + 0.01, ax=old.ax_)
    after = {h.get_label(): h.get_color() for h in named_handles(new)}
    assert list(after) == ["a", "b", "c", "z", "missing"]
    assert before.items() <= after.items() and len(set(after.values())) == 5
    assert len(new.figure_.axes) == n_axes and len(new.figure_.legends) == 0
    if d == 2:
        expected = [to_rgb(after[name or "missing"]) for name in repeated("c", "b", "z", None)]
        np.testing.assert_allclose(colors_of(new, Z + 0.01), expected)
        assert {text.get_text() for text in new.ax_.texts} == {"a", "b", "c", "z"} and len(new.ax_.texts) == 4


def named_handles(display):
    for handle, name in zip(display.legend_.legend_handles, legend_of(display), strict=True):
        handle.set_label(name)
    return display.legend_.legend_handles


def test_a_legend_beside_the_axes_is_replaced():
    from matplotlib import pyplot as plt

    old = EmbeddingDisplay(Z[:, :2], y=repeated("b", "a"), y_label="group").plot()
    new = EmbeddingDisplay(Z[:, :2], y=repeated("b", "z")).plot(old.ax_)
    assert old.figure_.legends == [new.legend_] and legend_of(new) == ["a", "b", "z"]
    assert new.legend_.get_title().get_text() == "group"
    plt.close(old.figure_)


def test_cleared_axes_begin_anew():
    old = shown(repeated("a", "b"))
    old.ax_.clear()
    np.testing.assert_array_equal(colors_of(shown(repeated("b"), ax=old.ax_))[0], colors_of(shown(repeated("a")))[0])


def test_new_classes_do_not_exceed_the_styles():
    old = shown([f"a{k}" for k in range(N)])
    new = shown([f"b{k % 20}" for k in range(N)], ax=old.ax_)
    assert len({(h.get_color(), h.get_marker()) for h in new.legend_.legend_handles}) == 80
    with pytest.raises(ValueError, match="y must have at most 80 classes, got 81 with those on ax"):
        shown(["c"] * N, ax=old.ax_)
