"""The output of verbose where a result comes without records on the way."""

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns


def test_verbose_prints_a_line_for_a_result_that_comes_at_once(capsys):
    log = make_bellman_problem(n_states=10, n_features=None, random_state=0).transitions(200, random_state=0)
    value = BellmanValueEstimator(verbose=1).fit(log.X, log.y, next_X=log.next_X)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("BellmanValueEstimator: lstd, n_iter=1, objective ") and line.endswith(", converged")
    assert f"{value.loss_curve_[-1]:.8g} ({value.loss_curve_[0]:.8g} at the start)" in line
    returns = make_gaussian_returns(600, 5, random_state=0)
    for solver, name in (("auto", "moments"), ("scgd", "SCGD")):
        CompositionalPortfolio(solver, verbose=1, random_state=0).partial_fit(returns)
        assert f": {name}, n_iter=" in capsys.readouterr().out
    CompositionalPortfolio(random_state=0).partial_fit(returns)
    assert capsys.readouterr().out == ""
