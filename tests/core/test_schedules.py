"""Values of schedules."""

import pytest

from sk_stormc.schedules import Geometric, Slowed, decay_to, power


def test_values():
    geometric, decay = (
        Geometric(4.0, 0.25, horizon=2),
        decay_to(1.0, 5.0, horizon=8, hold=0.5),
    )
    assert [geometric(t) for t in (0, 1, 2, 9)] == [4.0, 1.0, 0.25, 0.25]
    assert [decay(t) for t in (0, 4, 5, 6, 7, 8, 20)] == [
        5.0,
        5.0,
        4.0,
        3.0,
        2.0,
        1.0,
        1.0,
    ]


def test_factors_and_ends_are_positive():
    with pytest.raises(ValueError, match="times must be"):
        Slowed(power(-0.5), 0.0)
    for name in ("start", "end"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            Geometric(**({"start": 1.0, "end": 0.1, "horizon": 4} | {name: 0.0}))
