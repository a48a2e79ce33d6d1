"""All of the paper's experiments and one report, in which each claim of the paper is marked by what was measured.

Every experiment is run at the published constants, and with each method tuned on seeds of its own; a table has what the
library's defaults reach. DIR gets report.md with its pictures, and the finished parts of the work, a file each:
interrupted, the same command goes on where it was. Other settings or another version start anew, in a folder of their
own.

The full report takes about 25 minutes of one core, the quick one about 3 minutes.
"""

import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from sk_stormc import __version__
from sk_stormc.reproduce import bellman, portfolio, streaming
from sk_stormc.reproduce.files import directory
from sk_stormc.reproduce.progress import progress_line
from sk_stormc.reproduce.report.claims import CLAIMS, Results, verdict
from sk_stormc.reproduce.report.grids import FULL, QUICK, SNE_VARIANTS, VARIANTS
from sk_stormc.reproduce.report.pictures import draw
from sk_stormc.reproduce.report.plan import DEFAULTS, make_plan
from sk_stormc.reproduce.report.sne import PUBLISHED
from sk_stormc.reproduce.report.store import Store
from sk_stormc.reproduce.report.text import write_report

__all__ = ["DURATIONS", "add_arguments", "make_report", "report"]

DURATIONS = {False: "25 minutes", True: "3 minutes"}  # of one core, by quick


def add_arguments(parser):
    """Add what the command takes."""
    parser.add_argument("--out", type=directory, metavar="DIR", required=True, help="where the report goes")
    parser.add_argument(
        "--quick", action="store_true", help=f"smaller sizes, about {DURATIONS[True]} instead of {DURATIONS[False]}"
    )
    parser.add_argument(
        "--french",
        action="store_true",
        help="stream the paper's six sets of daily returns, downloaded once (in full 20 minutes more)",
    )


def report(args):
    """Run what is not there yet, and write the report."""
    sizes = QUICK if args.quick else FULL
    print(f"About {DURATIONS[args.quick]} of one core from the beginning; Ctrl-C at any time, it goes on from there.")
    try:
        with progress_line() as show:
            path, verdicts = make_report(
                args.out, sizes, quick=args.quick, french=args.french, progress=show, say=print
            )
    except KeyboardInterrupt:
        print(f"Finished parts are in {args.out / 'pieces'}: the same command goes on from there.")
        raise
    width = max(map(len, verdicts.values()))
    for claim, found in verdicts.items():
        print(f"{found:{width}}  {claim}")
    print(f"\nReport written to {path}")


def make_report(out, sizes=FULL, *, quick=False, french=False, progress=None, say=lambda text: None):
    """Run what is not there yet, and write report.md and its pictures."""
    out = Path(out)
    out.mkdir(exist_ok=True)
    french_sets = streaming.french_sets() if french else None
    sources = streaming.markets() if french_sets is None else french_sets
    pieces = make_plan(sizes, sources)
    store = Store(out / "pieces", _settings(sizes, french_sets))
    there = sum(store.find(piece.name) is not None for piece in pieces)
    if store.changes:
        names = ", ".join(store.changes[:5]) + ("" if len(store.changes) <= 5 else ", ...")
        say(f"The results in {store.root} are of other settings ({names}): starting anew in {store.folder.name}.")
    elif there:
        say(f"{there} of {len(pieces)} parts are in {store.folder} already: going on.")
    with warnings.catch_warnings():  # the report says where each run ended
        warnings.simplefilter("ignore", ConvergenceWarning)
        results = Results(store.run(pieces, progress))
    path = out / "report.md"
    days = None if french_sets is None else {name: len(returns) for name, returns in french_sets.items()}
    text = write_report(results, sizes, draw(results, out), quick=quick, days=days)
    path.write_text(text, encoding="utf-8")
    decided = ((claim, claim.decide(results)) for claim in CLAIMS)
    return path, {f"{claim.source}: {claim.text}": verdict(*found[:2], claim.theory) for claim, found in decided}


def _settings(sizes, french_sets):
    """All that results depend on; downloaded data have another fingerprint when they are renewed."""
    data = {name: [*returns.shape, float(returns.sum())] for name, returns in (french_sets or {}).items()}
    return {
        "version": __version__,
        "sizes": sizes,
        "french": data,
        "published": {
            "portfolio": portfolio.METHODS,
            "streaming": streaming.METHODS,
            "bellman": bellman.METHODS,
            "sne": PUBLISHED,
        },
        "grids": {"quadratic": VARIANTS, "sne": SNE_VARIANTS},
        "defaults": DEFAULTS,
    }
