"""Interactive pages: what they have, that texts of the data have no effect, and how
they behave in a browser."""

import html
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from sk_stormc.plotting import EmbeddingDisplay

go = pytest.importorskip("plotly.graph_objects")

N = 120
POINTS = np.random.default_rng(0).normal(size=(N, 5))
EVIL = "<script>window.hacked = 1</script> %{x}"
NAMES = np.array(["a", "b", EVIL, None], dtype=object)[np.arange(N) % 4]
HOVER = pd.DataFrame(
    {
        "row": np.arange(N),
        "<b>text": [
            f"<img src=x onerror=window.hacked=2> %{{x}} {k}" for k in range(N)
        ],
        "day": pd.date_range("2020-01-01", periods=N),
    }
)


@pytest.mark.parametrize(
    ("d", "kind"),
    [(1, go.Scattergl), (2, go.Scattergl), (3, go.Scatter3d), (5, go.Splom)],
)
def test_a_trace_for_each_class(d, kind):
    display = EmbeddingDisplay(POINTS[:, :d], y=NAMES, y_label="<i>kind")
    figure = display.to_plotly(HOVER)
    assert all(isinstance(trace, kind) for trace in figure.data)
    assert figure.layout.legend.title.text == "&lt;i&gt;kind"
    names = [html.unescape(trace.name) for trace in figure.data]
    assert names == [EVIL, "a", "b", "missing"]
    for trace, name in zip(figure.data, (EVIL, "a", "b", None), strict=True):
        rows = np.flatnonzero(name == NAMES)
        texts = trace.customdata
        assert texts[:, 0].tolist() == [str(k) for k in rows]
        assert texts[0, 2] == str(HOVER["day"][rows[0]].date())
        assert "<img" not in "".join(texts[:, 1])
        assert "<b>text" not in trace.hovertemplate
        assert "%{x}" not in trace.hovertemplate


def test_scales_and_new_points():
    Z, y_new = POINTS[:, :2], np.linspace(0, 9, 6)
    display = EmbeddingDisplay(Z, y=POINTS[:, 4], new=Z[:6] + 1, y_new=y_new)
    old, added = display.to_plotly({"index": np.arange(N + 6)}).data
    assert added.marker.size > old.marker.size
    assert old.marker.opacity < 0.4 and added.marker.line.width == 1
    assert added.customdata[:, 0].tolist() == list(range(6))
    assert added.customdata[:, 1].tolist() == [str(N + k) for k in range(6)]
    assert added.customdata[:, 2].tolist() == ["0", "1.8", "3.6", "5.4", "7.2", "9"]
    (dated,) = EmbeddingDisplay(Z, y=HOVER["day"]).to_plotly().data
    assert dated.marker.colorbar.ticktext[0] == "2020-01-01"
    for hover, words in (
        ({"a": [1, 2, 3]}, r"each of the 120 points, got \(3,\) for 'a'"),
        (np.arange(N), "must be a data frame, a Series or a dict of columns"),
    ):
        with pytest.raises(ValueError, match=words):
            EmbeddingDisplay(Z).to_plotly(hover)


def hovered(figure, trace=0, point=0):
    """The text at a point, as plotly fills in the template."""
    trace = figure.data[trace]
    return re.sub(
        r"%{customdata\[(\d+)\]}",
        lambda found: str(trace.customdata[point][int(found[1])]),
        trace.hovertemplate.removesuffix("<extra></extra>"),
    ).split("<br>")


def test_the_row_and_the_value_stand_at_each_point():
    Z = POINTS[:, :2]
    labels = np.where(np.arange(N) % 4, NAMES, "")  # some are missing, some are ""
    figure = EmbeddingDisplay(Z, y=labels).to_plotly()
    assert [trace.name for trace in figure.data] == [
        "", html.escape(EVIL).replace("&#x27;", "'"), "b", "missing"
    ]  # fmt: skip
    assert all(trace.showlegend for trace in figure.data)
    missing = np.flatnonzero(pd.isna(NAMES))
    assert hovered(figure, 3, 5) == ["<b>missing</b>", f"row: {missing[5]}"]
    assert hovered(figure, 0, 1) == ["<b></b>", "row: 4"]
    days = pd.Series(pd.period_range("2020-01", periods=N, freq="M"))
    days[0] = pd.NaT
    figure = EmbeddingDisplay(Z, y=days, y_label="month").to_plotly()
    assert hovered(figure, 0) == ["<b>missing</b>", "row: 0", "month: missing"]
    assert hovered(figure, 1, 1) == ["row: 2", "month: 2020-03-01"]
    assert hovered(EmbeddingDisplay(Z).to_plotly(), 0, 7) == ["row: 7"]
    lasted = pd.to_timedelta(np.arange(N), unit="min")
    figure = EmbeddingDisplay(Z, y=lasted, y_label="time").to_plotly({"t": lasted})
    assert hovered(figure, 0, 90) == ["row: 90", "t: 1:30:00", "time (minutes): 90"]


def test_columns_of_one_name_are_both_shown():
    hover = pd.DataFrame([[1, 2.5]] * N, columns=["a", "a"])
    figure = EmbeddingDisplay(POINTS[:, :2]).to_plotly(hover)
    assert hovered(figure) == ["row: 0", "a: 1", "a: 2.5"]


def test_names_of_islands_on_a_page():
    Z = np.concatenate([POINTS[:, :2], POINTS[:, 2:4] + 9])
    figure = EmbeddingDisplay(Z, y=np.repeat(["<i>", "b"], N)).to_plotly()
    found = {note.text: (note.x, note.y) for note in figure.layout.annotations}
    assert found.keys() == {"<b>&lt;i&gt;</b>", "<b>b</b>"}
    assert np.linalg.norm(np.subtract(found["<b>b</b>"], 9)) < 1


def test_a_page_needs_no_network(tmp_path):
    path = tmp_path / "map.html"
    EmbeddingDisplay(POINTS[:, :2], y=NAMES).to_html(path, hover=HOVER, title="A <map>")
    page = path.read_text(encoding="utf-8")
    assert EVIL not in page and "<img src=x" not in page
    assert page.count("</script>") == page.count("<script")
    assert not re.search(r"<(script|link)[^>]*(src|href)=", page)
    assert "<title>A &lt;map&gt;</title>" in page
    assert 3e6 < len(page) < 8e6


def test_plotly_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    words = r'interactive pages need plotly: pip install "sk_stormc\[interactive\]"'
    with pytest.raises(ImportError, match=words):
        EmbeddingDisplay(POINTS[:, :2]).to_plotly()


PROBE = """
<script>
const problems = [];
addEventListener("error", event => problems.push(String(event.message)));
console.error = (...words) => problems.push(words.join(" "));
const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));
addEventListener("load", async () => {
  await pause(1500);
  const found = {}, plot = document.querySelector(".js-plotly-plot"), box = plot.getBoundingClientRect();
  const first = plot._fullData[0], { xaxis, yaxis } = plot._fullLayout;
  const at = { bubbles: true, clientX: box.left + xaxis._offset + xaxis.l2p(first.x[0]),
               clientY: box.top + yaxis._offset + yaxis.l2p(first.y[0]) };
  for (const kind of ["mouseover", "mousemove"])
    document.querySelector(".nsewdrag").dispatchEvent(new MouseEvent(kind, at));
  await pause(500);
  found.hover = [...document.querySelectorAll(".hoverlayer .hovertext text")].map(text => text.textContent);
  const canvas = document.querySelector("canvas.gl-canvas-context"), gl = canvas.getContext("webgl", {});
  found.points = plot._fullData.map(trace => trace.x.length);
  found.webgl = gl !== null;
  const entry = document.querySelectorAll(".legendtoggle")[1];
  for (const kind of ["mousedown", "mouseup"]) entry.dispatchEvent(new MouseEvent(kind, { bubbles: true }));
  await pause(800);
  found.visible = plot._fullData.map(trace => trace.visible);
  const legend = document.querySelector(".legend").getBoundingClientRect();
  found.map = [xaxis._length / innerWidth, yaxis._length / innerHeight];
  found.legendIsBelow = legend.top >= box.top + yaxis._offset + yaxis._length;
  const report = document.createElement("pre");
  report.textContent = JSON.stringify({ ...found, hacked: window.hacked || 0, problems });
  report.id = "report";
  document.body.append(report);
});
</script>
"""
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
OPTIONS = (
    "--headless --no-sandbox --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --use-gl=angle "
    "--use-angle=swiftshader --enable-unsafe-swiftshader --ignore-gpu-blocklist "
    "--virtual-time-budget=9000 --dump-dom"
)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
@pytest.mark.parametrize("width", [1440, 500])  # Chromium has no narrower windows
def test_in_a_browser(tmp_path, width):
    path = tmp_path / "map.html"
    EmbeddingDisplay(POINTS[:, :2], y=NAMES).to_html(path, hover=HOVER)
    page = path.read_text(encoding="utf-8").replace("<body>", f"<body>{PROBE}", 1)
    path.write_text(page, encoding="utf-8")
    command = [BROWSER, *OPTIONS.split(), f"--user-data-dir={tmp_path / 'user'}"]
    command += [f"--window-size={width},900", path.as_uri()]
    page = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True
    ).stdout
    report = re.search(r'<pre id="report">(.*?)</pre>', page, re.DOTALL)[1]
    found = json.loads(html.unescape(report))
    assert found["problems"] == [] and not found["hacked"] and found["webgl"]
    assert found["points"] == [30, 30, 30, 30]
    (text,) = found["hover"]
    assert EVIL.replace("%{", "% {") in text and "row: 2" in text
    assert "<b>text: <img src=x onerror=window.hacked=2> %{x} 2" in text
    assert found["visible"] == [True, "legendonly", True, True]
    assert found["legendIsBelow"] == (width < 700)
    assert min(found["map"]) > 0.6
