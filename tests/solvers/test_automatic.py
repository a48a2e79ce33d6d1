"""The automatic rule's anchors: when a stretch ends in one, and which of them are kept."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gallery_problems import rank_digits
from sk_stormc import AutomaticSTORM
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import ALL, Oracle, start
from sk_stormc.problems import PortfolioProblem


def portfolio():
    return PortfolioProblem(make_gaussian_returns(3000, 10, mean=0.3, random_state=0), metric="variance")


PROBLEMS = {"portfolio": portfolio, "average precision": lambda: rank_digits().problem}


def stretches(problem, seed, n_stretches, **params):
    """For each stretch between anchors its iterations: IFO since the anchor, and |F| over the anchor's."""
    oracle, solver, found, now = Oracle(problem, seed), AutomaticSTORM(**params), [], []
    s = solver.init_state(oracle, problem.initial_point(np.random.default_rng(0)))
    begin = oracle.ifo
    while len(found) < n_stretches:
        length = s.residual
        solver.step(oracle, s)
        s.t += 1
        if s.since_anchor == 0:
            found.append(now)
            now, begin = [], oracle.ifo
        else:
            now.append(((oracle.ifo - begin), s.way.length / length))
    return found, solver._price(oracle, s, True)


@pytest.fixture(scope="module", params=PROBLEMS)
def found(request):
    stretched = [stretches(PROBLEMS[request.param](), seed, 12) for seed in range(4)]
    return [stretch for of_seed, _ in stretched for stretch in of_seed], stretched[0][1]


def test_a_stretch_costs_half_an_anchor_or_a_quarter_where_the_gradient_is_a_tenth(found):
    for stretch, anchor in ((stretch, found[1]) for stretch in found[0]):
        for ifo, ratio in stretch[:-1]:
            assert ifo < (0.25 if ratio <= 0.1 else 0.5) * anchor and ratio < 10
        ifo, ratio = stretch[-1]
        assert ifo >= (0.25 if ratio <= 0.1 else 0.5) * anchor or ratio >= 10


@pytest.mark.parametrize("combined, factor, kept", [(False, 1.9, True), (False, 2.1, False), (True, 0.9, True),
                                                    (True, 1.1, False)])
def test_where_phi_cannot_tell_anchors_apart_the_gradient_does(combined, factor, kept):
    # after a combination it must have become shorter: it may lead to where it came from
    problem = portfolio()
    oracle, solver = Oracle(problem, 0), AutomaticSTORM()
    s = solver.init_state(oracle, problem.initial_point(np.random.default_rng(0)))
    before, rate = s.anchors[-1], s.rule.learning_rate
    s.combined, s.now, s.refresh = combined, copy.copy(s.now), True
    s.way = replace(s.way, length=factor * s.residual)
    solver._judge(oracle, s, drift=0.0)
    assert (s.anchors[-1] is not before) == kept
    assert (s.anchors[-1].estimate is s.now)
    # only a step that was not a combination says something of the learning rate
    assert s.rule.learning_rate == (rate if kept or combined else rate / 2)


def test_failures_halve_the_rate_and_enlarge_batches_in_turn():
    problem = portfolio()
    oracle, solver = Oracle(problem, 0), AutomaticSTORM()
    s = solver.init_state(oracle, problem.initial_point(np.random.default_rng(0)))
    rate, size, best = s.rule.learning_rate, s.batch_size[2], s.anchors[-1]
    found = []
    for _ in range(9):
        uphill = best.estimate.x + 0.1 * best.estimate.F
        s.now, s.combined = start(oracle, uphill, ALL), False
        solver._judge(oracle, s, drift=0.0)
        found.append((s.rule.learning_rate / rate, s.batch_size[2]))
        assert s.anchors == [best] and s.now is best.estimate and s.since_anchor == 0
    halved = [2.0 ** -(k // 2 + 1) for k in range(9)]
    sizes = [size * 4 ** ((k + 1) // 2) for k in range(9)]
    sizes = [b if b < problem.n_outer else None for b in sizes]
    # once batches are full there is nothing to enlarge, but the turns stay
    assert found == list(zip(halved, sizes, strict=True))
    assert s.refresh == (s.batch_size[2] is None)
