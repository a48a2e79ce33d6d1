"""Prices in the user's files: their columns, their returns, and how they are told from
returns."""

import re

import numpy as np

from sk_stormc.cli.data_files import few
from sk_stormc.datasets.prices import returns_from_prices
from sk_stormc.portfolio.returns import looks_like_prices

CLOSING = ("adj close", "adjusted close", "close")  # the best first
VOLUMES = ("volume", "volumes")
FIELDS = (*CLOSING, *VOLUMES, "open", "high", "low", "dividends", "stock splits")


def convert_prices(data, index, drop_missing):
    """Convert prices to returns, and keep the last prices."""
    from pandas import DataFrame

    prices = DataFrame(data.values, index, data.names)
    try:
        found = returns_from_prices(prices, "drop" if drop_missing else "raise")
    except ValueError as error:
        text = str(error)
        if "missing='drop'" in text:
            text = text[: text.index("missing='drop'")]
            text += "--drop-missing leaves out such periods"
        raise ValueError(f"{data.path}: {text}") from error
    dates = None
    if data.dates is not None:
        kept = set(found.index)
        dates = [date for date, k in zip(data.dates, index, strict=True) if k in kept]
    known = prices.dropna()
    data.last_prices = known.iloc[-1].to_numpy()
    dropped = len(prices) - len(known)
    if dropped:
        data.reading.facts.append(f"{dropped} periods with missing values dropped")
    data.values, data.dates = found.to_numpy(), dates
    data.reading.facts.append("returns of prices")


def _fields(names):
    """The field of a file of prices in each name, such as "close" of "AAPL Close", and
    the rest of the name; "" for other names."""
    found = {}
    for name in names:
        words = re.split(r"[\s_.|:-]+", name.lower())
        for field in FIELDS:
            parts = field.split()
            if words[: len(parts)] == parts or words[-len(parts) :] == parts:
                rest = words[len(parts) :] if words[: len(parts)] == parts else None
                rest = words[: -len(parts)] if rest is None else rest
                found[name] = field, " ".join(rest)
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
    values = np.asarray(values, dtype=float)
    slow = np.array([looks_like_prices(values[:, [j]]) for j in range(len(names))])
    if not slow.any():
        return
    # returns have both signs; rates of interest are small beside them
    one_sign = (values >= 0).all(axis=0) | (values <= 0).all(axis=0)
    size, spread = np.abs(np.median(values, axis=0)), values.std(axis=0)
    usual = np.inf if slow.all() else np.median(spread[~slow])
    large = slow & (size > 10 * usual)
    if (slow | one_sign).mean() > 0.5 or large.any():
        prices = [name for name, is_slow in zip(names, slow, strict=True) if is_slow]
        volumes = [
            name
            for name, k, one in zip(names, slow, one_sign, strict=True)
            if one and not k
        ]
        beside = f". {few(volumes)} may be volumes: --drop leaves them out"
        raise ValueError(
            f"{path}: expected returns, but numbers hardly change between periods, as "
            f"in a file of prices, in {few(prices)}: --prices converts them"
            f"{beside * bool(volumes)}. If these are returns, say so by --unit"
        )
