"""What the table of policies compares with is right."""

import numpy as np
import pytest
from sklearn.preprocessing import OneHotEncoder

pytest.importorskip("gymnasium")
from benchmarks import _bellman_control as control


def test_losses_of_a_chain_and_the_policy_that_has_none():
    chain = control.Chain(6, (0, 5), 3000, OneHotEncoder(sparse_output=False))
    log = chain.log(0)
    assert chain.judge(lambda X: (X[:, 0] > 2).astype(int)) == pytest.approx(0, abs=1e-9)
    assert chain.judge(lambda X: np.zeros(len(X), int)) > 0.1
    plain, q = control.plain_lspi(chain, log), control.ours(chain, log)
    states = np.arange(6.0)[:, None]
    np.testing.assert_array_equal(plain(states), q.policy(states))
    assert chain.judge(q.policy) == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_losses_of_the_lake():
    lake = control.Lake()
    q = control.ours(lake, lake.log(0))
    assert 0 <= lake.judge(q.policy) < 0.1 < lake.judge(lambda X: np.zeros(len(X), int))


def test_the_table_has_the_worst_log():
    rows = [
        {"case": case, "n_rows": 10, "n_logs": 2, "ours": [0.1, 0.3], "plain": [0.2, 0.2], "policies": [3, 5],
         "warned": 1, "ours seconds": 0.1, "plain seconds": 0.2}
        for case in ("a loss", "steps")
    ]  # fmt: skip
    text = control.table(rows)
    assert "0.200 (0.300)" in text and "0.2 (0.1)" in text
