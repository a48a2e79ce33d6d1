"""Displays of maps: classes, their order and looks, missing values, values for each
point, and new points."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import LogNorm, to_hex, to_rgba
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sk_stormc import SNEEmbedding
from sk_stormc.plotting import EmbeddingDisplay

N = 60
POINTS = np.random.default_rng(0).normal(size=(N, 3))
PLACE = POINTS[:, :2]
KIND = np.arange(N) % 3

pytestmark = pytest.mark.filterwarnings("error::UserWarning")


def shown(y, ax=None, **params):
    kwargs = {
        name: params.pop(name)
        for name in list(params)
        if name not in ("palette", "order", "new", "y_new")
    }
    return EmbeddingDisplay(PLACE, y=y, **params).plot(
        ax or Figure().add_subplot(), **kwargs
    )


def entries(display):
    return [text.get_text() for text in display.legend_.get_texts()]


def faces(display, places=PLACE):
    """The colour of each point, by its place."""
    found = {}
    for points in display.scatter_:
        points.update_scalarmappable()
        colors = points.get_facecolors()
        offsets = points.get_offsets().data
        for place, color in zip(
            offsets, np.broadcast_to(colors, (len(offsets), 4)), strict=True
        ):
            found[tuple(place)] = to_hex(color)
    return np.array([found[tuple(place)] for place in places])


def of_each(display, name):
    """A property of each point, by its place."""
    found = {}
    for points in display.scatter_:
        values = getattr(points, f"get_{name}")()
        offsets = points.get_offsets().data
        values = np.resize(values, (len(offsets), *np.shape(values)[1:]))
        found.update(
            {tuple(place): value for place, value in zip(offsets, values, strict=True)}
        )
    return np.array([found[tuple(place)] for place in PLACE])


K = [f"k{k}" for k in KIND]
TWO = ["k1", "k2", "missing"]
CLASSES = {  # y, and the entries of the legend
    "nullable integers": (
        pd.array(np.where(KIND == 1, None, KIND), dtype="Int64"),
        ["0", "2", "missing"],
    ),
    "texts with NaN": (pd.Series(K, dtype=object).where(KIND > 0), TWO),
    "texts with NA": (pd.Series(K, dtype="string").where(KIND > 0), TWO),
    "texts of NumPy": (
        np.array([None, "k1", "k2"], np.dtypes.StringDType(na_object=None))[KIND],
        TWO,
    ),
    "large whole numbers": (KIND + 1234567.0, ["1234567", "1234568", "1234569"]),
    "nothing": ([None] * N, ["missing"]),
}


@pytest.mark.parametrize("case", CLASSES)
def test_classes_and_their_order(case):
    y, expected = CLASSES[case]
    display = shown(y)
    assert entries(display) == expected and display.colorbar_ is None
    assert len(set(faces(display))) == len(expected)
    assert "missing" not in [label.get_text() for label in display.labels_]


def test_dates_are_a_scale():
    days = pd.Series(pd.date_range("2020-01-01", periods=N)).where(KIND != 2)
    display = shown(days)
    display.figure_.draw_without_rendering()
    ticks = [label.get_text() for label in display.colorbar_.ax.get_yticklabels()]
    assert any("2020" in text or "Feb" in text for text in ticks)
    # few integers are classes, unless there are others or a scale is asked for
    years, new = 2019 + KIND, PLACE[:3]
    display = shown(years, new=new, y_new=[2019, 2030.5, 2019])
    assert display.legend_ is None
    assert display.colorbar_.mappable.get_clim() == (2019, 2030.5)
    estimator = SimpleNamespace(embedding_=PLACE)
    drawn = EmbeddingDisplay.from_estimator(estimator, years, continuous=True)
    assert drawn.colorbar_ is not None


def test_values_for_each_point_go_to_their_points():
    s, alpha = np.linspace(5, 60, N), np.linspace(0.2, 1, N)
    width, edges = np.linspace(0, 2, N), np.where(KIND == 1, "#ff0000", "#0000ff")
    y = [None if k % 7 == 0 else f"k{k % 3}" for k in range(N)]
    series = pd.Series(width, index=range(5, N + 5))
    full = shown(y, s=s, alpha=alpha, linewidths=series, edgecolors=list(edges))
    np.testing.assert_allclose(of_each(full, "sizes"), s)
    np.testing.assert_allclose(of_each(full, "facecolors")[:, 3], alpha)
    for display in (full, shown(y, lw=width, ec=list(edges))):
        np.testing.assert_allclose(of_each(display, "linewidths"), width)
        found = [to_hex(color) for color in of_each(display, "edgecolors")]
        assert found == edges.tolist()
    many = shown([f"c{k % 30}" for k in range(N)], s=s)  # of several shapes
    assert len(many.scatter_) > 1
    np.testing.assert_allclose(of_each(many, "sizes"), s)


def test_own_colours_replace_those_of_y():
    own = ["#ff0000" if k else "#00ff00" for k in KIND]
    for name in ("c", "color", "facecolors"):
        display = shown(KIND, **{name: own})
        assert (
            faces(display).tolist() == own
            and display.legend_ is display.colorbar_ is None
        )
    numbers = shown(None, c=np.arange(N), cmap="gray")
    assert (np.diff([to_rgba(color)[0] for color in faces(numbers)]) >= 0).all()
    assert (faces(shown(None, color="red")) == "#ff0000").all()
    with pytest.raises(ValueError):
        shown(None, c=["red"] * 5)


def test_norms_and_limits():
    values = np.exp(POINTS[:, 2])
    display = shown(values, norm=LogNorm())
    assert (
        isinstance(display.scatter_[-1].norm, LogNorm) and display.colorbar_ is not None
    )
    assert shown(values, vmin=-1, vmax=9).scatter_[-1].get_clim() == (-1, 9)
    values[0] = np.inf
    assert shown(values).scatter_[-1].get_clim() == (values[1:].min(), values[1:].max())
    values[1] = np.nan
    missing, _ = shown(values).scatter_  # infinite values are not
    assert len(missing.get_offsets()) == 1
    assert shown(np.full(N, np.nan) + 0.5 * (KIND == 9)).colorbar_ is None


def test_two_scales_on_the_same_axes_have_a_bar_each():
    ax, values = Figure().add_subplot(), POINTS[:, 2]
    for factor in (1, 100):
        y, label = factor * values, f"times {factor}"
        bar = EmbeddingDisplay(PLACE, y=y, y_label=label).plot(ax).colorbar_
        assert bar.mappable.get_clim() == (y.min(), y.max())
        assert bar.ax.get_ylabel() == label
    assert len(ax.figure.axes) == 3


def test_classes_keep_their_colours_on_the_same_axes():
    ax = Figure().add_subplot()
    first = shown(["a", "b", "c"] * (N // 3), ax)
    colors = dict(zip(entries(first), faces(first)[:3], strict=True))
    again = EmbeddingDisplay(PLACE[:4] + 9, y=["c", "d", "b", "c"]).plot(ax)
    c, d, b, _ = faces(again, PLACE[:4] + 9)
    assert (c, b) == (colors["c"], colors["b"]) and d not in colors.values()
    assert entries(again) == ["a", "b", "c", "d"]


def test_palettes_and_orders():
    names = np.array(["x", "y", "z"])[KIND]
    own = shown(names, palette={"x": "red", "y": (0, 1, 0), "z": "C0", "w": "k"})
    assert faces(own)[:2].tolist() == ["#ff0000", "#00ff00"]
    two = shown(names, palette=["red", "blue"])  # the third class has another shape
    assert len(two.scatter_) == 2 and set(faces(two)) == {"#ff0000", "#0000ff"}
    for palette in ("tab20", "viridis"):
        assert len(set(faces(shown(names, palette=palette)))) == 3
    ordered = shown(names, order=["z", "other", "y", "x"])
    assert entries(ordered) == ["z", "y", "x"]
    assert faces(ordered)[2] == faces(shown(names))[0]
    reds = faces(shown(POINTS[:, 2], palette=["white", "red"]))
    ends = reds[POINTS[:, 2].argmax()], reds[POINTS[:, 2].argmin()]
    assert ends == ("#ff0000", "#ffffff")
    looks = shown([f"c{k}" for k in range(N)]).legend_.legend_handles
    assert len({handle.get_color() for handle in looks[:20]}) == 20
    assert len({(handle.get_color(), handle.get_marker()) for handle in looks}) == N
    assert shown(names, labels=False).labels_ == [] and len(shown(names).labels_) == 3
    # by the values of the classes
    palette = {0.0: "red", 1.0: "blue", 2.0: "green"}
    display = shown(KIND.astype(float), palette=palette, order=[2.0, 1.0, 0.0])
    assert entries(display) == ["2", "1", "0"]
    assert faces(display).tolist() == [to_hex(palette[value]) for value in KIND]


TWENTY_FIVE = [f"{k % 25}" for k in range(N)]


@pytest.mark.parametrize(
    ("y", "params", "words"),
    [
        (KIND, {"palette": {"0": "red"}}, "for each class, got none for 1, 2"),
        (KIND, {"palette": ["no colour"]}, "that matplotlib knows, got 'no colour'"),
        (KIND, {"palette": "no colormap"}, "name of a colormap, got 'no colormap'"),
        (KIND, {"palette": []}, "palette must have at least one colour"),
        (
            TWENTY_FIVE,
            {"palette": ["r", "g", "b"]},
            "more than 3 colours for 25 classes",
        ),
        (KIND, {"order": ["0", "2"]}, "order must have all classes, got none of '1'"),
        (KIND, {"y_new": [1]}, "y_new must be None without new points"),
        (
            KIND,
            {"new": PLACE[:2], "y_new": [1]},
            r"y_new must be of shape \(2,\), one for each point, got \(1,\)",
        ),
        (
            KIND,
            {"new": POINTS[:2]},
            "new must have the 2 components of embedding, got 3",
        ),
        (
            KIND,
            {"new": PLACE[:2], "y_new": pd.to_datetime(["2020", "2021"])},
            "y_new must be classes, numbers or dates if y are",
        ),
        (np.full(N, 1j), {}, "y must be numbers, dates or names of .*, got complex"),
        (np.ma.masked_equal(KIND, 1), {}, "y must have all its values, got 20"),
        (KIND.astype(str), {"continuous": True}, "must be False for classes"),
    ],
)
def test_what_does_not_fit(y, params, words):
    with pytest.raises(ValueError, match=words):
        EmbeddingDisplay(PLACE, y=y, **params).plot()


def test_too_many_classes():
    many, names = np.zeros((200, 2)), [f"{k}" for k in range(200)]
    with pytest.raises(ValueError, match="at most 160 classes, got 200"):
        EmbeddingDisplay(many, y=names).plot()


def test_new_points_of_an_estimator():
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(StandardScaler(), SNEEmbedding(perplexity=5, max_iter=90))
    display = EmbeddingDisplay.from_estimator(
        model.fit(X[:60]), y[:60], X_new=X[60:70], y_new=y[60:70]
    )
    faint, new = display.scatter_
    expected = np.sort(model.transform(X[60:70]), axis=0)
    np.testing.assert_allclose(np.sort(new.get_offsets(), axis=0), expected)
    assert new.get_sizes().min() > faint.get_sizes().max()
    assert faint.get_facecolors()[:, 3].max() < 0.4
    assert new.get_facecolors()[:, 3].min() == 1
    assert (new.get_edgecolors() == [0, 0, 0, 1]).all()
    place, y_new = PLACE[:5] + 1, [9.0, 1, 2, 3, 4]
    both = EmbeddingDisplay(PLACE, y=POINTS[:, 2], new=place, y_new=y_new).plot()
    limits = POINTS[:, 2].min(), 9.0
    assert {points.get_clim() for points in both.scatter_} == {limits}


def test_a_wide_legend_does_not_shrink_the_map():
    widths = []
    for name in ("c", "a long name of a class, number"):
        display = EmbeddingDisplay(PLACE, y=[f"{name} {k % 30}" for k in range(N)])
        display.plot().figure_.draw_without_rendering()
        widths.append(display.ax_.get_window_extent().width)
    assert widths[1] > 0.9 * widths[0]
    text = entries(display)[0]
    assert text.endswith(" 0") and "…" in text and len(text) <= 28


def test_labels_of_three_axes_do_not_overlap():
    display = EmbeddingDisplay(POINTS, y=KIND).plot()
    display.figure_.draw_without_rendering()
    boxes = [
        axis.label.get_window_extent()
        for axis in (display.ax_.xaxis, display.ax_.yaxis, display.ax_.zaxis)
    ]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def test_dates_with_a_time_zone_are_local_times_without_a_warning():
    days = pd.date_range("2024-05-01", periods=N, tz="Europe/Berlin")
    berlin, local = (
        shown(pd.Series(dates)).scatter_[0].get_clim()
        for dates in (days, days.tz_localize(None))
    )
    assert berlin == local


@pytest.mark.parametrize("new", [None, PLACE[:5]])
def test_markers_that_consist_of_lines_are_visible(new):
    display = shown(None, marker="x", new=new)
    for points in display.scatter_:
        assert points.get_linewidths().min() > 0
    thick = shown(KIND, marker="x", linewidths=3)
    assert thick.scatter_[0].get_linewidths().tolist() == [3]


def test_only_classes_with_an_island_have_a_name():
    rng = np.random.default_rng(0)
    Z = np.concatenate([rng.normal(size=(150, 2)) + 9 * k for k in range(3)])
    y = np.repeat(["a", "b", "c"], 150)
    names = [text.get_text() for text in EmbeddingDisplay(Z, y=y).plot().labels_]
    assert sorted(names) == ["a", "b", "c"]
    for seed in range(5):
        mixed = np.random.default_rng(seed).permutation(y)
        assert EmbeddingDisplay(Z, y=mixed).plot().labels_ == []
    mixed = np.where(y == "a", y, np.random.default_rng(0).choice(["b", "c"], 450))
    (label,) = EmbeddingDisplay(Z, y=mixed).plot().labels_
    assert label.get_text() == "a" and np.linalg.norm(label.get_position()) < 1


def test_dollar_signs_are_not_formulas(tmp_path):
    names = ["$5-$10", r"$\foo$", "plain"]
    Z = np.repeat([[0.0, 0], [5, 0], [0, 5]], 9, axis=0)
    display = EmbeddingDisplay(Z, y=np.repeat(names, 9), y_label=r"$\bar$").plot()
    legend = display.legend_
    texts = [*display.labels_, *legend.get_texts(), legend.get_title()]
    assert sorted(text.get_text() for text in texts) == sorted(names * 2 + [r"$\bar$"])
    assert not any(text.get_parse_math() for text in texts)
    display.figure_.draw_without_rendering()  # a ValueError at a false formula
    display = EmbeddingDisplay(Z, y=np.arange(27) / 7, y_label=r"$\bar$").plot()
    display.figure_.draw_without_rendering()
    assert display.colorbar_.ax.get_ylabel() == r"$\bar$"


def test_periods_and_durations_are_scales():
    months = pd.period_range("2020-01", periods=N, freq="M")
    days = months.to_timestamp()
    for y in (months, pd.Series(months)):
        (points,) = EmbeddingDisplay(PLACE, y=y).plot().scatter_
        (expected,) = EmbeddingDisplay(PLACE, y=days).plot().scatter_
        np.testing.assert_array_equal(points.get_array(), expected.get_array())
    for y in (days - days[0], pd.Series(days - days[0]), list(days - days[0])):
        bar = EmbeddingDisplay(PLACE, y=y, y_label="age").plot().colorbar_
        assert bar.ax.get_ylabel() == "age (days)"
        assert bar.mappable.get_clim() == (0, (days[-1] - days[0]).days)
    seconds = np.arange(N).astype("m8[s]")
    assert EmbeddingDisplay(PLACE, y=seconds).plot().colorbar_.ax.get_ylabel() in (
        "(seconds)",
        "(minutes)",
    )
