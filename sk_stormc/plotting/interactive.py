"""Interactive pages of embeddings by plotly, which is imported when it is used."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
from matplotlib.colors import to_hex

from sk_stormc.plotting._style import BLUE
from sk_stormc.plotting.point_colors import GREY, MISSING, colormap_of
from sk_stormc.utils.frames import column, columns_of, is_series, is_table
from sk_stormc.utils.validation import short

__all__ = ["interactive_figure"]

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
    if d == 1:
        Z = np.column_stack([Z[:, 0], np.arange(len(Z)) * 0.6180339887 % 1])
    figure = go.Figure()
    old, new = np.arange(n_old), np.arange(n_old, len(Z))
    for rows, is_new in ((old, False), (new, True)):
        for name, symbol, some, marker in _groups(
            colors, rows, display.palette, display.y_label
        ):
            if len(some):
                style = _style(len(Z), is_new, new.size > 0, symbol, d)
                group = name + " (new)" * (is_new and bool(name))
                figure.add_trace(
                    _trace(
                        go, Z[some], marker | style, group, _texts(columns, some, name)
                    )
                )
    _lay_out(figure, d, display.y_label, colors)
    return figure


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
                bar |= {
                    "tickvals": at.tolist(),
                    "ticktext": [str(np.datetime64(int(day), "D")) for day in at],
                }
            values = {
                "color": colors.values[some].astype(np.float32),
                "cmin": float(limits[0]),
                "cmax": float(limits[1]),
            }
            yield (
                "",
                "circle",
                some,
                values | {"colorscale": scale, "colorbar": bar, "showscale": True},
            )
    elif colors.names is None:
        yield "", "circle", rows, {"color": BLUE}
    else:
        for code, (name, (color, shape)) in enumerate(
            zip(*colors.with_missing(), strict=True)
        ):
            code = -1 if code == len(colors.names) else code
            yield (
                name,
                SYMBOLS[shape],
                rows[colors.codes[rows] == code],
                {"color": color},
            )


def _style(n, is_new, beside_new, symbol, d):
    """Symbol, size, opacity and outline of points."""
    size = float(np.clip(120 / n**0.35, 2.5, 9))
    opacity = float(np.clip(14 / n**0.32, 0.35, 0.9))
    if d == 3:  # symbols in space are larger, and fewer
        symbol, size = IN_SPACE.get(symbol, symbol), 0.5 * size
    if is_new:
        return {
            "symbol": symbol,
            "size": max(1.6 * size, 7),
            "opacity": 1.0,
            "line": {"width": 1, "color": "black"},
        }
    return {
        "symbol": symbol,
        "size": size,
        "opacity": 0.4 * opacity if beside_new else opacity,
    }


def _trace(go, Z, marker, name, texts):
    """The points of one entry of the legend."""
    Z, (template, customdata) = Z.astype(np.float32), texts
    common = {"marker": marker, "name": html.escape(name), "showlegend": bool(name)}
    common |= {"customdata": customdata, "hovertemplate": f"{template}<extra></extra>"}
    if Z.shape[1] == 2:
        return go.Scattergl(x=Z[:, 0], y=Z[:, 1], mode="markers", **common)
    if Z.shape[1] == 3:
        return go.Scatter3d(x=Z[:, 0], y=Z[:, 1], z=Z[:, 2], mode="markers", **common)
    axes = [
        {"label": f"component {k + 1}", "values": component}
        for k, component in enumerate(Z.T)
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
    customdata = (
        np.column_stack([texts[rows] for texts in columns.values()])
        if columns
        else None
    )
    return "<br>".join(lines) or "%{pointNumber}", customdata


def _lay_out(figure, d, label, colors):
    """Axes without ticks, because only proximity is meaningful, and the legend."""
    bare = {"showticklabels": False, "showgrid": False, "zeroline": False, "ticks": ""}
    axes = {
        f"{axis}axis": {**bare, "title": f"component {k + 1}"}
        for k, axis in enumerate("xyz"[:d])
    }
    if d == 3:
        figure.update_layout(scene={**axes, "aspectmode": "data"})
    elif d == 2:
        axes["yaxis"] |= {"scaleanchor": "x"}
        figure.update_layout(**axes)
    elif d == 1:
        figure.update_layout(
            **axes, yaxis={**bare, "title": "(the height has no meaning)"}
        )
    legend = {"title": {"text": html.escape(label)}, "itemsizing": "constant"}
    figure.update_layout(
        template="plotly_white",
        legend=legend,
        hovermode="closest",
        margin={"l": 20, "r": 20, "t": 20, "b": 20},
    )
