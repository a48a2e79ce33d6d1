"""Interactive pages of embeddings by plotly, which is imported when it is used."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
from matplotlib.colors import to_hex

from sk_stormc.plotting._style import BLUE
from sk_stormc.plotting.point_colors import GREY, MISSING, colormap_of
from sk_stormc.plotting.points import spread_out
from sk_stormc.utils.frames import column, columns_of, is_series, is_table
from sk_stormc.utils.validation import short

SYMBOLS = {  # of matplotlib's shapes
    "o": "circle",
    "^": "triangle-up",
    "s": "square",
    "D": "diamond",
    "v": "triangle-down",
    "*": "star",
    "P": "cross",
    "p": "pentagon",
}
IN_SPACE = {
    "triangle-up": "cross",
    "triangle-down": "x",
    "star": "diamond-open",
    "pentagon": "square-open",
}


def interactive_figure(display: Any, hover: Any = None) -> Any:
    """The points of an `EmbeddingDisplay` as a figure of plotly."""
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise ImportError(
            'interactive pages need plotly: pip install "sk_stormc[interactive]"'
        ) from error
    Z, n_old, colors = display.checked()
    columns = _hover_columns(hover, len(Z))
    d = Z.shape[1]
    Z, figure = spread_out(Z), go.Figure()
    everyone = np.arange(len(Z))
    for is_new, rows in enumerate((everyone[:n_old], everyone[n_old:])):
        for name, symbol, some, marker in _groups(
            colors, rows, display.palette, display.y_label
        ):
            if some.size:
                style = _style(len(Z), is_new, n_old < len(Z), symbol, d)
                group = name + " (new)" * (is_new and bool(name))
                texts = _texts(columns, some, name)
                figure.add_trace(_trace(go, Z[some], marker | style, group, texts))
    _lay_out(figure, d, display.y_label, colors)
    return figure


def html_page(displays: dict[str, Any], hover: Any = None, title: str = "") -> str:
    """The text of an interactive page of displays of embeddings, of which a menu
    chooses one."""
    figures = {
        name: interactive_figure(display, hover) for name, display in displays.items()
    }
    figure = next(iter(figures.values()))
    if len(figures) > 1:
        figure = _with_menu(figures)
    if title:
        text = {"text": html.escape(title)}
        figure.update_layout(title=text, margin={"t": 60})
    return figure.to_html(
        default_height="97vh", config={"displaylogo": False, "scrollZoom": True}
    )


def _with_menu(figures):
    """One figure of several, and a menu that chooses which of them is shown."""
    import plotly.graph_objects as go

    traces = [(name, trace) for name, one in figures.items() for trace in one.data]
    first = next(iter(figures))
    figure = go.Figure(layout=figures[first].layout)
    for name, trace in traces:
        figure.add_trace(trace)
        figure.data[-1].visible = name == first
    buttons = [
        {
            "label": html.escape(name),
            "method": "update",
            "args": [
                {"visible": [owner == name for owner, _ in traces]},
                {"legend.title.text": html.escape(name)},
            ],
        }
        for name in figures
    ]
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"}
    return figure.update_layout(updatemenus=[menu], margin={"t": 60})


def _groups(colors, rows, palette, label):
    """(name, symbol, rows, colours) of the points of one entry of the legend."""
    if colors.values is not None:
        missing = ~np.isfinite(colors.values[rows])
        yield MISSING, "circle", rows[missing], {"color": GREY}
        some, limits = rows[~missing], colors.limits()
        if limits is not None:
            colormap = colormap_of(palette)
            scale = [
                [at, to_hex(colormap(at))] for at in np.linspace(0, 1, 17).tolist()
            ]
            bar = {"title": {"text": html.escape(label)}}
            if colors.are_dates:
                at = np.linspace(*limits, 5)
                bar["tickvals"] = at.tolist()
                bar["ticktext"] = [str(np.datetime64(int(day), "D")) for day in at]
            values = {
                "color": colors.values[some].astype(np.float32),
                "cmin": float(limits[0]),
                "cmax": float(limits[1]),
                "colorscale": scale,
                "colorbar": bar,
                "showscale": True,
            }
            yield "", "circle", some, values
    elif colors.names is None:
        yield "", "circle", rows, {"color": BLUE}
    else:
        names, looks = colors.with_missing()
        for k, (color, shape) in enumerate(looks):
            of_class = colors.codes[rows] == (k if k < len(colors.names) else -1)
            yield names[k], SYMBOLS[shape], rows[of_class], {"color": color}


def _style(n, is_new, beside_new, symbol, d):
    """Symbol, size, opacity and outline of points."""
    size = float(np.clip(120 / n**0.35, 2.5, 9))
    opacity = float(np.clip(14 / n**0.32, 0.35, 0.9))
    if d == 3:  # symbols in space are larger, and fewer
        symbol, size = IN_SPACE.get(symbol, symbol), 0.5 * size
    look = {"symbol": symbol, "size": size, "opacity": opacity}
    if is_new:
        outline = {"width": 1, "color": "black"}
        look |= {"size": max(1.6 * size, 7), "opacity": 1.0, "line": outline}
    elif beside_new:
        look["opacity"] = 0.4 * opacity
    return look


def _trace(go, Z, marker, name, texts):
    """The points of one entry of the legend."""
    template, customdata = texts
    components = Z.astype(np.float32).T
    common = {"marker": marker, "name": html.escape(name), "showlegend": bool(name)}
    common |= {"customdata": customdata, "hovertemplate": f"{template}<extra></extra>"}
    if len(components) <= 3:
        kind = go.Scattergl if len(components) == 2 else go.Scatter3d
        places = dict(zip("xyz", components, strict=False))
        return kind(mode="markers", **places, **common)
    axes = [
        {"label": f"component {k}", "values": component}
        for k, component in enumerate(components, 1)
    ]
    return go.Splom(
        dimensions=axes, showupperhalf=False, diagonal={"visible": False}, **common
    )


def _hover_columns(hover, n):
    """The columns that are shown, as texts without markup, by name."""
    if hover is None:
        return {}
    if is_table(hover):
        named = {
            str(name): column(hover, k) for k, name in enumerate(columns_of(hover))
        }
    elif is_series(hover):
        named = {str(getattr(hover, "name", None) or "value"): hover}
    elif isinstance(hover, dict):
        named = {str(name): values for name, values in hover.items()}
    else:
        raise ValueError(
            "hover must be a data frame, a Series or a dict of columns, got "
            f"{short(hover)}"
        )
    texts = {}
    for name, values in named.items():
        values = values.to_numpy() if is_series(values) else np.asarray(values)
        if values.shape != (n,):
            raise ValueError(
                f"hover must have a value for each of the {n} points, got "
                f"{values.shape} for {name!r}"
            )
        texts[html.escape(name)] = np.array(
            [_text(value) for value in values], dtype=object
        )
    return texts


def _text(value):
    """A value as text without markup."""
    if isinstance(value, (float, np.floating)):
        return f"{value:.6g}"
    if isinstance(value, np.datetime64):
        # of nanoseconds, and of microseconds with pandas 3
        return re.sub(r"T00:00:00(\.0*)?$", "", str(value))
    return html.escape(str(value))


def _texts(columns, rows, name):
    """The template of the text of a point, and the columns for it."""
    # plotly would replace %{...} in names
    name, *titles = (
        text.replace("%{", "% {") for text in (html.escape(name), *columns)
    )
    lines = [f"<b>{name}</b>"] if name else []
    lines += [f"{title}: %{{customdata[{k}]}}" for k, title in enumerate(titles)]
    shown = [texts[rows] for texts in columns.values()]
    customdata = np.column_stack(shown) if shown else None
    return "<br>".join(lines) or "%{pointNumber}", customdata


def _lay_out(figure, d, label, colors):
    """Axes without ticks, because only proximity is meaningful, and the legend."""
    bare = {"showticklabels": False, "showgrid": False, "zeroline": False, "ticks": ""}
    axes = {
        f"{axis}axis": bare | {"title": f"component {k + 1}"}
        for k, axis in enumerate("xyz"[:d])
    }
    if d == 3:
        figure.update_layout(scene=axes | {"aspectmode": "data"})
    elif d == 2:
        axes["yaxis"]["scaleanchor"] = "x"
    elif d == 1:
        axes["yaxis"] = bare | {"title": "(the height has no meaning)"}
    if d < 3:
        figure.update_layout(**axes)
    legend = {"title": {"text": html.escape(label)}, "itemsizing": "constant"}
    figure.update_layout(
        template="plotly_white",
        legend=legend,
        hovermode="closest",
        margin={"l": 20, "r": 20, "t": 20, "b": 20},
    )
