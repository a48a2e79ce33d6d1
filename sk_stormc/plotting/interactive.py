"""Interactive pages of embeddings by plotly, which is imported when it is used."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
from matplotlib.colors import to_hex

from sk_stormc.plotting._style import BLUE, MAX_NAMES, shortened
from sk_stormc.plotting.map_legends import islands_of
from sk_stormc.plotting.point_colors import GREY, MISSING, colormap_of
from sk_stormc.plotting.points import spread_out
from sk_stormc.utils.frames import column, columns_of, is_series, is_table
from sk_stormc.utils.parameters import short

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


# a legend beside a map would take most of the width of a phone
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light">
<title>{title}</title>
<style>body {{ margin: 0; background: white }}</style>
</head>
<body>
{figure}
<script>
const plot = document.querySelector(".js-plotly-plot");
let isNarrow = null;
function arrange() {{
  if (isNarrow === innerWidth < 700) return;
  isNarrow = innerWidth < 700;
  Plotly.relayout(plot, isNarrow
    ? {{ "legend.orientation": "h", "legend.x": 0, "legend.y": -0.06 }}
    : {{ "legend.orientation": "v", "legend.x": 1.02, "legend.y": 1 }});
}}
arrange();
addEventListener("resize", arrange);
</script>
</body>
</html>
"""


def html_page(displays: dict[str, Any], hover: Any = None, title: str = "") -> str:
    """The text of an interactive page of displays of embeddings, which needs no
    network. A menu chooses one of several."""
    figures = {
        name: interactive_figure(display, hover) for name, display in displays.items()
    }
    figure = next(iter(figures.values()))
    if len(figures) > 1:
        figure = _with_menu(figures)
    if title:
        heading = {"text": html.escape(title)}
        figure.update_layout(title=heading, margin={"t": 60})
    content = figure.to_html(
        full_html=False,
        default_height="97vh",
        config={"displaylogo": False, "scrollZoom": True, "responsive": True},
    )
    return PAGE.format(title=html.escape(title or "Map of points"), figure=content)


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
    if "row" not in (title for title, _ in columns):
        number = np.arange(len(Z))
        rows = np.where(number < n_old, number, number - n_old).astype(np.int32)
        columns.insert(0, ("row", rows))
    d = Z.shape[1]
    Z, figure = spread_out(Z), go.Figure()
    everyone = np.arange(len(Z))
    for is_new, rows in enumerate((everyone[:n_old], everyone[n_old:])):
        for name, symbol, some, marker in _groups(
            colors, rows, display.palette, display.y_label
        ):
            if some.size:
                style = _style(len(Z), is_new, n_old < len(Z), symbol, d)
                group = name if name is None else name + " (new)" * is_new
                shown = columns + _scale_columns(colors, display.y_label)
                texts = _texts(shown, some, name)
                figure.add_trace(_trace(go, Z[some], marker | style, group, texts))
    _lay_out(figure, d, display.y_label)
    if d == 2 and colors.names is not None and len(colors.names) <= MAX_NAMES:
        for name, (x, y) in islands_of(Z, colors):
            figure.add_annotation(
                x=x,
                y=y,
                text=f"<b>{html.escape(shortened(name))}</b>",
                showarrow=False,
                bgcolor="rgba(255, 255, 255, 0.5)",
            )
    return figure


def _scale_columns(colors, label):
    """The column of the values of a scale, which are shown at the points."""
    if colors.values is None:
        return []
    texts = [
        MISSING if np.isnan(value) else colors.text_of(value)
        for value in colors.values.tolist()
    ]
    title = html.escape(colors.title(label) or "value")
    return [(title, np.array(texts, dtype=object))]


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
                {
                    "legend.title.text": one.layout.legend.title.text or "",
                    "annotations": [
                        note.to_plotly_json() for note in one.layout.annotations
                    ],
                },
            ],
        }
        for name, one in figures.items()
    ]
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"}
    return figure.update_layout(updatemenus=[menu], margin={"t": 60})


def _groups(colors, rows, palette, label):
    """(name, symbol, rows, colours) of the points of one entry of the legend."""
    if colors.values is not None:
        missing = np.isnan(colors.values[rows])
        yield MISSING, "circle", rows[missing], {"color": GREY}
        some, limits = rows[~missing], colors.limits()
        if limits is not None:
            colormap = colormap_of(palette)
            scale = [
                [at, to_hex(colormap(at))] for at in np.linspace(0, 1, 17).tolist()
            ]
            # above the map, where it fits on a phone too
            bar = {"title": {"text": html.escape(colors.title(label))}}
            bar |= {"orientation": "h", "thickness": 14, "y": 1.0}
            if colors.scale == "dates":
                at = np.linspace(*limits, 5).tolist()
                bar |= {"tickvals": at, "ticktext": list(map(colors.text_of, at))}
            values = {
                "color": colors.values[some].astype(np.float32),
                "cmin": float(limits[0]),
                "cmax": float(limits[1]),
                "colorscale": scale,
                "colorbar": bar,
                "showscale": True,
            }
            yield None, "circle", some, values
    elif colors.names is None:
        yield None, "circle", rows, {"color": BLUE}
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
    in_legend = name is not None
    common = {
        "marker": marker,
        "name": html.escape(name or ""),
        "showlegend": in_legend,
    }
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
    """The columns that are shown: pairs of a title and texts, without markup."""
    if hover is None:
        return []
    if is_table(hover):
        named = [(name, column(hover, k)) for k, name in enumerate(columns_of(hover))]
    elif is_series(hover):
        named = [(getattr(hover, "name", None) or "value", hover)]
    elif isinstance(hover, dict):
        named = list(hover.items())
    else:
        raise ValueError(
            "hover must be a data frame, a Series or a dict of columns, got "
            f"{short(hover)}"
        )
    columns = []
    for name, values in named:
        values = values.to_numpy() if is_series(values) else np.asarray(values)
        if values.shape != (n,):
            raise ValueError(
                f"hover must have a value for each of the {n} points, got "
                f"{values.shape} for {str(name)!r}"
            )
        texts = np.array([_text(value) for value in values], dtype=object)
        columns.append((html.escape(str(name)), texts))
    return columns


def _text(value):
    """A value as text without markup."""
    if isinstance(value, (float, np.floating)):
        return f"{value:.6g}"
    if isinstance(value, np.datetime64):
        # of nanoseconds, and of microseconds with pandas 3
        return re.sub(r"T00:00:00(\.0*)?$", "", str(value))
    if isinstance(value, np.timedelta64) and not np.isnat(value):
        value = value.astype("m8[us]").item()
    return html.escape(str(value))


def _texts(columns, rows, name):
    """The template of the text of a point, and the columns for it."""
    heading = [] if name is None else [f"<b>{_literally(html.escape(name))}</b>"]
    lines = [
        f"{_literally(title)}: %{{customdata[{k}]}}"
        for k, (title, _) in enumerate(columns)
    ]
    customdata = np.column_stack([values[rows] for _, values in columns])
    return "<br>".join(heading + lines), customdata


def _literally(text):
    """A text in which plotly does not replace %{...}."""
    return text.replace("%{", "% {")


def _lay_out(figure, d, label):
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
