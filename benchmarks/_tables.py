"""Results as JSON, and the tables that the documentation's pages include."""

import datetime
import importlib.metadata
import json
import math
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np

import sk_stormc
from sk_stormc.compare import tables
from sk_stormc.compare.tables import as_markdown

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
START = re.compile(r"<!-- table: ([\w/.-]+) -->\n")
TABLE = re.compile(
    r"(?P<start><!-- table: (?P<name>[\w/.-]+) -->\n)(?P<text>.*?)<!-- end -->",
    re.DOTALL,
)


def pages():
    """The pages that may include tables."""
    docs = ROOT / "docs"
    return [
        ROOT / "README.md",
        *sorted(docs.glob("*.md")),
        *sorted((docs / "guide").glob("*.md")),
    ]


# Results


def plain(value):
    """Numbers of six digits, lists and dicts, as JSON has them; None in place of what
    is not finite."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | range | np.ndarray):
        return [plain(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def store(name, part, measured, seconds, folder=RESULTS, packages=()):
    """Write ``folder/name.json``; of a part, beside the others that the file has."""
    run, file = run_with(seconds, packages), folder / f"{name}.json"
    if part is None:
        stored = {"benchmark": name, "run_with": run, **measured}
    else:
        stored = (
            load(name, folder)
            if file.exists()
            else {"benchmark": name, "results": {}, "parts": {}}
        )
        stored["results"][part], stored["parts"][part] = measured, run
        stored["run_with"] = run_with(
            sum(of_part["seconds"] for of_part in stored["parts"].values())
        )
    text = json.dumps(plain(stored), indent=1, allow_nan=False)
    # the innermost lists are one line each
    text = re.sub(
        r"\[([^\[\]{}]*)\]",
        lambda m: "[" + re.sub(r"\s*\n\s*", " ", m[1].strip()) + "]",
        text,
    )
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n", encoding="utf-8")


def run_with(seconds, packages=()):
    """Versions, date and duration of a run."""
    versions = {}
    for name in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "sk_stormc": sk_stormc.__version__,
        "numpy": np.__version__,
        **versions,
        "date": datetime.date.today().isoformat(),
        "seconds": round(seconds),
    }


def load(name, folder=RESULTS):
    """What ``store`` wrote."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def made_by_others(version, folder=RESULTS):
    """Results that neither this version nor its development has measured: names of
    benchmarks, or of their parts."""
    runs = {}
    for file in sorted(folder.glob("*.json")):
        stored = load(file.stem, folder)
        parts = {
            f"{file.stem}/{part}": run for part, run in stored.get("parts", {}).items()
        }
        runs |= parts or {file.stem: stored["run_with"]}
    return {
        name: run["sk_stormc"]
        for name, run in runs.items()
        if run["sk_stormc"].partition(".dev")[0] != version
    }


# Tables


def table(rows, columns):
    """Records as Markdown: for each column its header, and a format of the record's
    fields or a function of it."""
    return as_markdown(*tables.table(rows, columns), rule="---")


OUTCOMES = {
    "cases": "{cases}", "right": "{right}", "right, with a warning": "{alarms}",
    "refused": "{refused}",
    "warned": "{warned}", "wrong without a warning": "{silent}",
}  # fmt: skip


def outcome_counts(name, rows, n_fits=1):
    """A record of how many cases are right, refused and so on; most of the fits of an
    alarm have warned."""
    of = Counter(row["outcome"] for row in rows)
    alarms = sum(
        row["outcome"] == "right" and row["warned"] > n_fits / 2 for row in rows
    )
    of_outcomes = {
        outcome: of[outcome] for outcome in ("right", "refused", "warned", "silent")
    }
    return {"name": name, "cases": len(rows), "alarms": alarms} | of_outcomes


def tables_of(module, stored):
    """The tables of a benchmark by their names, "benchmark/table", each with a last
    line that says where it is from."""
    name = stored["benchmark"]
    texts = {}
    for of_table, text in module.tables(stored).items():
        command, with_ = f"python -m benchmarks {name}", stored["run_with"]
        if of_table in stored.get("parts", ()):  # other tables are of several parts
            command, with_ = f"{command} --parts {of_table}", stored["parts"][of_table]
        versions = [f"version {with_['sk_stormc']}"]
        versions += [
            f"{package} {with_[package]}"
            for package in getattr(module, "PACKAGES", ())
            if package in with_
        ]
        texts[f"{name}/{of_table}"] = (
            f"{text}\n\n(`{command}`, {', '.join(versions)}, {with_['date']})\n"
        )
    return texts


def included(page):
    """Names and texts of the tables that a page includes, in their order."""
    text = page.read_text(encoding="utf-8")
    found = [(match["name"], match["text"]) for match in TABLE.finditer(text)]
    if [name for name, _ in found] != START.findall(text):
        raise ValueError(
            f"{page.name}: a table must be followed by <!-- end --> before the next "
            "begins"
        )
    return found


def write_text(name, tables, folder=RESULTS):
    """Write all tables of a benchmark beside its results, as ``folder/name.txt``."""
    text = "\n".join(f"{key}\n\n{text}" for key, text in tables.items())
    (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def put(tables, owner):
    """Put tables into the pages that include them; the pages that have changed."""
    changed = []
    for page in pages():
        for name, _ in included(page):
            if name.split("/")[0] == owner and name not in tables:
                raise ValueError(
                    f"{page.name}: table must be one of {sorted(tables)}, got {name!r}"
                )
        text = page.read_text(encoding="utf-8")
        new = TABLE.sub(
            lambda m: f"{m['start']}{tables.get(m['name'], m['text'])}<!-- end -->",
            text,
        )
        if new != text:
            page.write_text(new, encoding="utf-8")
            changed.append(page)
    return changed
