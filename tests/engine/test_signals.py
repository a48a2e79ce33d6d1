"""Ctrl-C by itself: the first is noted, the second stops an iteration, unless the run is on its way out."""

import signal
from types import SimpleNamespace

import pytest

from sk_stormc.engine.interrupts import Interrupts


def interrupts(reason=None):
    loop, oracle = SimpleNamespace(reason=reason), SimpleNamespace(ifo=0, streaming=False)
    return Interrupts(loop, oracle, None, None)


def test_the_first_is_noted_and_the_second_raised():
    noted = interrupts()
    with pytest.raises(KeyboardInterrupt), noted.listening():
        signal.raise_signal(signal.SIGINT)
        assert noted.pressed == 1
        signal.raise_signal(signal.SIGINT)
    assert noted.pressed == 2
    with pytest.raises(KeyboardInterrupt):  # Python's own answer is back
        signal.raise_signal(signal.SIGINT)


def test_a_run_on_its_way_out_is_not_disturbed():
    noted = interrupts(reason="max_iter")
    with noted.listening():
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
    assert noted.pressed == 3
