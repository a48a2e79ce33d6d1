"""Prices in the user's files: their columns, and how they are told from returns."""

import re
from itertools import compress

import numpy as np

from sk_stormc.cli.data_files import few
from sk_stormc.portfolio.returns import looks_like_prices

CLOSING = ("adj close", "adjusted close", "close")  # the best first
VOLUMES = ("volume", "volumes", "vol")
FIELDS = (*CLOSING, *VOLUMES, "open", "high", "low", "dividends", "stock splits")


def _slow(values):
    """Which columns hardly change between periods, as prices do."""
    values = np.asarray(values, dtype=float)
    columns = range(values.shape[1])
    return np.array([looks_like_prices(values[:, [j]]) for j in columns], dtype=bool)


def refuse_volumes(path, values, names):
    """Raise a ValueError for columns beside prices that change ten times as much."""
    slow = _slow(values)
    if not slow.any() or slow.all():
        return
    steps = np.median(np.abs(np.diff(values, axis=0)), axis=0)
    change = steps / np.maximum(np.median(values, axis=0), np.finfo(float).tiny)
    wild = ~slow & (change > 10 * np.median(change[slow]))
    if wild.any():
        found = few(list(compress(names, wild)))
        raise ValueError(
            f"{path}: expected prices, but {found} change more than ten times as much "
            "as the others, as volumes do: --drop leaves them out"
        )


def _fields(names):
    """The field of a file of prices in each name, such as "close" of "AAPL Close", and
    the rest of the name."""
    found = {}
    for name in names:
        words = " ".join(re.split(r"[\s_.|:-]+", name.lower()))
        for field in FIELDS:
            first = re.fullmatch(rf"{field}( .*)?|(.* )?{field}", words)
            if first:
                found[name] = field, (first[1] or first[2] or "").strip()
                break
    # an asset may be called Low Volatility
    traded = {rest for field, rest in found.values() if field in CLOSING + VOLUMES}
    return {name: pair for name, pair in found.items() if pair[1] in traded}


def closing_prices(frame, reading, options):
    """The columns of a table that are no volumes, nor other prices than the last ones
    of a day."""
    fields = _fields(frame.columns)
    volumes = [name for name, (field, _) in fields.items() if field in VOLUMES]
    if len(volumes) < frame.shape[1]:
        reading.leave_out(volumes, "volumes")
        frame = frame.drop(columns=volumes)
    if not options.prices:
        return frame
    chosen = {}
    for field in CLOSING:
        for name, (own, rest) in fields.items():
            if own == field and name in frame.columns:
                chosen.setdefault(rest, name)
    if not chosen:
        return frame
    others = [
        name for name in fields if name in frame.columns and name not in chosen.values()
    ]
    reading.leave_out(others, "not the adjusted or closing prices")
    return frame.drop(columns=others)


def refuse_prices(path, values, names):
    """Raise a ValueError for prices, or logarithms of prices, if the unit is not
    given."""
    slow = _slow(values)
    if not slow.any():
        return
    # returns have both signs; rates of interest are small beside them
    one_sign = (values >= 0).all(axis=0) | (values <= 0).all(axis=0)
    size, spread = np.abs(np.median(values, axis=0)), values.std(axis=0)
    usual = np.inf if slow.all() else np.median(spread[~slow])
    large = slow & (size > 10 * usual)
    if (slow | one_sign).mean() > 0.5 or large.any():
        volumes = few(list(compress(names, one_sign & ~slow)))
        beside = f". {volumes} may be volumes: --drop leaves them out"
        raise ValueError(
            f"{path}: expected returns, but numbers hardly change between periods, as "
            f"in a file of prices, in {few(list(compress(names, slow)))}: --prices "
            f"converts them{beside * bool(volumes)}. If these are returns, say so by "
            "--unit"
        )
