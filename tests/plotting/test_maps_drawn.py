"""Displays of maps: classes, their order and looks, missing values, values for each
point, and new points."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
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


SIZES = ["small", "medium", "large"]
CLASSES = {  # y, and the entries of the legend
    "categorical": (
        pd.Categorical(np.array(SIZES)[KIND], categories=[*SIZES, "unused"]),
        SIZES,
    ),
    "ordered Series": (
        pd.Series(np.array(SIZES)[KIND], index=np.arange(N) + 7).astype(
            pd.CategoricalDtype(SIZES[::-1], ordered=True)
        ),
        SIZES[::-1],
    ),
    "Enum of polars": (
        pl.Series(np.array(SIZES)[KIND].tolist(), dtype=pl.Enum(SIZES)),
        SIZES,
    ),
    "nullable integers": (
        pd.array(np.where(KIND == 1, None, KIND), dtype="Int64"),
        ["0", "2", "missing"],
    ),
    "integers with NaN": (np.where(KIND == 1, np.nan, KIND), ["0", "2", "missing"]),
    "texts with None": (
        [None if k == 0 else f"k{k}" for k in KIND],
        ["k1", "k2", "missing"],
    ),
    "texts with NaN": (
        pd.Series([np.nan if k == 0 else f"k{k}" for k in KIND], dtype=object),
        ["k1", "k2", "missing"],
    ),
    "texts with NA": (
        pd.Series([pd.NA if k == 0 else f"k{k}" for k in KIND], dtype="string"),
        ["k1", "k2", "missing"],
    ),
    "texts of polars": (
        pl.Series([None if k == 0 else f"k{k}" for k in KIND]),
        ["k1", "k2", "missing"],
    ),
    "booleans with None": (
        [None if k == 0 else bool(k == 1) for k in KIND],
        ["False", "True", "missing"],
    ),
    "numbers in texts": ([f"t{k}" for k in (10, 2, 1)] * (N // 3), ["t1", "t2", "t10"]),
    "nothing": ([None] * N, ["missing"]),
    "one class": (["a"] * N, ["a"]),
}


@pytest.mark.parametrize("case", CLASSES)
def test_classes_and_their_order(case):
    y, expected = CLASSES[case]
    display = shown(y)
    assert entries(display) == expected and display.colorbar_ is None
    assert len(set(faces(display))) == len(expected)
    if expected[-1] == "missing":
        assert display.legend_.legend_handles[-1].get_color() == "#cccccc"
        assert "missing" not in [label.get_text() for label in display.labels_]


def test_dates_are_a_scale():
    days = pd.Series(pd.date_range("2020-01-01", periods=N)).where(KIND != 2)
    display = shown(days)
    missing, dated = display.scatter_
    assert len(missing.get_offsets()) == N // 3 and display.legend_ is None
    first, last = np.array(dated.get_clim(), int).astype("M8[D]")
    assert [str(first), str(last)] == ["2020-01-01", str(days.max().date())]
    display.figure_.draw_without_rendering()
    assert any(
        "2020" in label.get_text() or "Feb" in label.get_text()
        for label in display.colorbar_.ax.get_yticklabels()
    )


def test_few_integers_are_a_scale_if_asked():
    years, new = 2019 + KIND, PLACE[:3]
    assert shown(years).colorbar_ is None
    display = EmbeddingDisplay(
        PLACE, y=years, continuous=True, new=new, y_new=[2019, 2030, 2019]
    ).plot()
    assert display.legend_ is None
    assert display.colorbar_.mappable.get_clim() == (2019, 2030)
    estimator = SimpleNamespace(embedding_=PLACE)
    drawn = EmbeddingDisplay.from_estimator(estimator, years, continuous=True)
    assert drawn.colorbar_ is not None
    with pytest.raises(ValueError, match="continuous must be False for classes"):
        EmbeddingDisplay(PLACE, y=KIND.astype(str), continuous=True).plot()


def test_values_for_each_point_go_to_their_points():
    s, alpha, width = (
        np.linspace(5, 60, N),
        np.linspace(0.2, 1, N),
        np.linspace(0, 2, N),
    )
    edges = np.where(KIND == 1, "#ff0000", "#0000ff")
    y = [None if k % 7 == 0 else f"k{k % 3}" for k in range(N)]
    display = shown(
        y,
        s=s,
        alpha=alpha,
        linewidths=pd.Series(width, index=range(5, N + 5)),
        edgecolors=list(edges),
    )
    np.testing.assert_allclose(of_each(display, "sizes"), s)
    np.testing.assert_allclose(of_each(display, "linewidths"), width)
    np.testing.assert_allclose(of_each(display, "facecolors")[:, 3], alpha)
    assert [to_hex(color) for color in of_each(display, "edgecolors")] == edges.tolist()
    by_alias = shown(y, lw=width, ec=list(edges))
    np.testing.assert_allclose(of_each(by_alias, "linewidths"), width)
    assert [
        to_hex(color) for color in of_each(by_alias, "edgecolors")
    ] == edges.tolist()
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
    assert shown(np.full(N, np.nan) + 0.5 * (KIND == 9)).colorbar_ is None


def test_two_scales_on_the_same_axes_have_a_bar_each():
    figure = Figure()
    ax = figure.add_subplot()
    first, second = (
        EmbeddingDisplay(
            PLACE, y=factor * POINTS[:, 2], y_label=f"times {factor}"
        ).plot(ax)
        for factor in (1, 100)
    )
    for display, factor in ((first, 1), (second, 100)):
        limits = factor * POINTS[:, 2].min(), factor * POINTS[:, 2].max()
        assert (
            display.scatter_[0].get_clim()
            == display.colorbar_.mappable.get_clim()
            == limits
        )
        assert display.colorbar_.ax.get_ylabel() == f"times {factor}"
    assert len(figure.axes) == 3


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
    assert faces(
        shown(names, palette={"x": "red", "y": (0, 1, 0), "z": "C0", "w": "k"})
    )[:2].tolist() == [
        "#ff0000",
        "#00ff00",
    ]
    assert faces(shown(names, palette=["#111111", "#222222", "#333333"]))[
        :3
    ].tolist() == [
        "#111111",
        "#222222",
        "#333333",
    ]
    two = shown(names, palette=["red", "blue"])  # the third class has another shape
    assert len(two.scatter_) == 2 and set(faces(two)) == {"#ff0000", "#0000ff"}
    assert (
        len(set(faces(shown(names, palette="tab20"))))
        == len(set(faces(shown(names, palette="viridis"))))
        == 3
    )
    ordered = shown(names, order=["z", "other", "y", "x"])
    assert entries(ordered) == ["z", "y", "x"]
    assert faces(ordered)[2] == faces(shown(names))[0]
    reds = faces(shown(POINTS[:, 2], palette=["white", "red"]))
    assert (
        reds[POINTS[:, 2].argmax()] == "#ff0000"
        and reds[POINTS[:, 2].argmin()] == "#ffffff"
    )
    looks = shown([f"c{k}" for k in range(N)]).legend_.legend_handles
    assert len({handle.get_color() for handle in looks[:20]}) == 20
    assert len({(handle.get_color(), handle.get_marker()) for handle in looks}) == N
    assert shown(names, labels=False).labels_ == [] and len(shown(names).labels_) == 3


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"palette": {"0": "red"}},
            "palette must have a colour for each class, got none for 1, 2",
        ),
        (
            {"palette": ["no colour"]},
            "palette must have colours that matplotlib knows, got 'no colour'",
        ),
        ({"palette": "no colormap"}, "the name of a colormap, got 'no colormap'"),
        ({"palette": []}, "palette must have at least one colour"),
        ({"order": ["0", "2"]}, "order must have all classes, got none of '1'"),
        ({"y_new": [1]}, "y_new must be None without new points"),
        (
            {"new": PLACE[:2], "y_new": [1]},
            r"y_new must be of shape \(2,\), one for each point, got \(1,\)",
        ),
        ({"new": POINTS[:2]}, "new must have the 2 components of embedding, got 3"),
        (
            {"new": PLACE[:2], "y_new": pd.to_datetime(["2020", "2021"])},
            "y_new must be classes, numbers or dates if y are",
        ),
    ],
)
def test_what_does_not_fit(params, words):
    with pytest.raises(ValueError, match=words):
        shown(KIND, **params)
    with pytest.raises(
        ValueError, match="y must be numbers, dates or names of classes, got complex"
    ):
        shown(np.full(N, 1j))
    with pytest.raises(ValueError, match="at most 160 classes, got 200"):
        EmbeddingDisplay(
            np.random.default_rng(0).normal(size=(200, 2)),
            y=[f"{k}" for k in range(200)],
        ).plot()


def test_new_points_of_an_estimator():
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(StandardScaler(), SNEEmbedding(perplexity=5)).fit(X[:100])
    display = EmbeddingDisplay.from_estimator(
        model, y[:100], X_new=X[100:110], y_new=y[100:110]
    )
    faint, new = display.scatter_
    np.testing.assert_allclose(
        np.sort(new.get_offsets(), axis=0), np.sort(model.transform(X[100:110]), axis=0)
    )
    assert (
        new.get_sizes().min() > faint.get_sizes().max()
        and faint.get_facecolors()[:, 3].max() < 0.4
    )
    assert (
        new.get_facecolors()[:, 3].min() == 1
        and (new.get_edgecolors() == [0, 0, 0, 1]).all()
    )
    both = EmbeddingDisplay(
        PLACE, y=POINTS[:, 2], new=PLACE[:5] + 1, y_new=[9.0, 1, 2, 3, 4]
    ).plot()
    assert {points.get_clim() for points in both.scatter_} == {
        (POINTS[:, 2].min(), 9.0)
    }
    grey = EmbeddingDisplay(PLACE, y=KIND, new=PLACE[:5] + 1).plot()
    assert entries(grey) == ["0", "1", "2", "missing"]


def test_a_wide_legend_does_not_shrink_the_map():
    narrow, wide = (
        EmbeddingDisplay(PLACE, y=[f"{name} {k % 30}" for k in range(N)]).plot()
        for name in ("c", "a long name of a class, number")
    )
    for display in (narrow, wide):
        display.figure_.draw_without_rendering()
    widths = [display.ax_.get_window_extent().width for display in (narrow, wide)]
    assert widths[1] > 0.9 * widths[0]
    assert (
        entries(wide)[0].endswith(" 0")
        and "…" in entries(wide)[0]
        and len(entries(wide)[0]) <= 28
    )


def test_labels_of_three_axes_do_not_overlap():
    display = EmbeddingDisplay(POINTS, y=KIND).plot()
    display.figure_.draw_without_rendering()
    boxes = [
        axis.label.get_window_extent()
        for axis in (display.ax_.xaxis, display.ax_.yaxis, display.ax_.zaxis)
    ]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def test_classes_of_large_whole_numbers_have_names_of_their_own():
    display = shown(KIND + 1234567.0)
    assert entries(display) == ["1234567", "1234568", "1234569"]
    assert len(set(map(to_hex, faces(display)))) == 3


def test_palettes_and_orders_name_classes_by_their_values():
    palette = {0.0: "red", 1.0: "blue", 2.0: "green"}
    display = shown(KIND.astype(float), palette=palette, order=[2.0, 1.0, 0.0])
    assert entries(display) == ["2", "1", "0"]
    expected = [to_hex(palette[value]) for value in KIND]
    assert list(map(to_hex, faces(display))) == expected


def test_dates_with_a_time_zone_are_local_times_without_a_warning():
    days = pd.date_range("2024-05-01", periods=N, tz="Europe/Berlin")
    scale = [
        shown(pd.Series(dates)).scatter_[0].norm
        for dates in (days, days.tz_localize(None))
    ]
    assert scale[0].vmin == scale[1].vmin and scale[0].vmax == scale[1].vmax


def test_masked_values_are_an_error():
    with pytest.raises(ValueError, match="y must have all its values, got 20"):
        shown(np.ma.masked_array(KIND, KIND == 1))


def test_strings_of_variable_width_are_classes():
    kinds = np.array(["a", None, "b"], np.dtypes.StringDType(na_object=None))
    assert entries(shown(kinds[KIND])) == ["a", "b", "missing"]


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
    texts = [
        *display.labels_,
        *display.legend_.get_texts(),
        display.legend_.get_title(),
    ]
    assert sorted(text.get_text() for text in texts) == sorted(names * 2 + [r"$\bar$"])
    assert not any(text.get_parse_math() for text in texts)
    display.figure_.savefig(tmp_path / "map.png")  # a ValueError at a false formula
    display = EmbeddingDisplay(Z, y=np.arange(27) / 7, y_label=r"$\bar$").plot()
    display.figure_.savefig(tmp_path / "map.png")
    assert display.colorbar_.ax.get_ylabel() == r"$\bar$"


def test_infinite_values_are_not_missing():
    values = np.arange(N, dtype=float) + 0.5
    values[:2] = np.inf, -np.inf
    (points,) = EmbeddingDisplay(PLACE, y=values).plot().scatter_
    assert points.get_clim() == (2.5, N - 0.5)
    values[2] = np.nan
    missing, _ = EmbeddingDisplay(PLACE, y=values).plot().scatter_
    assert len(missing.get_offsets()) == 1


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
