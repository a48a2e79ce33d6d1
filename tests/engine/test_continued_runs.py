"""What a run that continues from a state accepts: the parameters, the start and the
seed of that run, other budgets."""

import pickle

import numpy as np
import pytest

from sk_stormc import CompositionalPortfolio, STORMCompositional, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem

RETURNS = make_gaussian_returns(1500, 4, mean=0.3, random_state=3)
PROBLEM = PortfolioProblem(RETURNS)
START = np.array([0.5, -0.5, 1.0, 0.0])
GIVEN = {"learning_rate": 0.05, "batch_size": 8, "momentum": 0.1}


def first_part(**changes):
    arguments = (
        {"x0": START, "random_state": 7, "max_iter": 5, "tol": 0} | GIVEN | changes
    )
    return minimize(PROBLEM, STORMCompositional(), **arguments).state


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learning_rate": 0.1}, r"learning_rate must stay 0\.05 .*got 0\.1"),
        ({"batch_size": (8, 8, 8)}, r"batch_size must stay 8 .*got \(8, 8, 8\)"),
        ({"momentum": 0.2}, r"momentum must stay 0\.1 .*got 0\.2"),
        ({"output": "random"}, "output must stay 'last' .*got 'random'"),
        ({"random_state": 8}, "random_state must .* 7 .*got 8"),
        (
            {"random_state": np.random.RandomState(7)},
            "random_state must .* 7 .*got RandomState",
        ),
        ({"x0": [0.5, -0.5, 2.0, 0.0]}, r"x0 must .* 1\.0 at 2, got 2\.0"),
    ],
)
def test_what_differs_from_the_run_of_the_state_is_refused(changes, words):
    state = first_part()
    with pytest.raises(ValueError, match=words):
        minimize(
            PROBLEM,
            STORMCompositional(),
            state=state,
            max_iter=9,
            tol=0,
            **(GIVEN | changes),
        )


def test_budgets_and_tol_may_change_and_what_is_the_same_may_be_given_again():
    whole = minimize(
        PROBLEM, STORMCompositional(), START, random_state=7, max_iter=9, tol=0, **GIVEN
    )
    state = pickle.loads(pickle.dumps(first_part(tol=0.5)))
    same = {"x0": START, "random_state": np.int64(7), "batch_size": np.int32(8)}
    for budget in ({"max_iter": 9}, {"max_ifo": int(whole.ifo[-1])}):
        again = minimize(
            PROBLEM, STORMCompositional(), state=state, tol=0, **(GIVEN | same | budget)
        )
        np.testing.assert_array_equal(again.x, whole.x)


def test_a_stream_that_goes_on_keeps_the_parameters_of_its_solver():
    model = CompositionalPortfolio(
        STORMCompositional(learning_rate=0.01, batch_size=8), random_state=0
    )
    model.partial_fit(RETURNS[:700])
    weights = model.weights_
    with pytest.raises(
        ValueError,
        match=r"learning_rate must stay 0\.01 .* got 0\.02: other parameters need a "
        r"new",
    ):
        model.set_params(solver__learning_rate=0.02).partial_fit(RETURNS[700:])
    np.testing.assert_array_equal(model.weights_, weights)
    model.set_params(solver__learning_rate=0.01, solver__tol=1e-3).partial_fit(
        RETURNS[700:]
    )
    assert (model.weights_ != weights).any()


def test_a_seed_that_was_no_integer_cannot_be_given_again():
    state = first_part(random_state=np.random.RandomState(7))
    with pytest.raises(ValueError, match="an integer was not given, got 7"):
        arguments = GIVEN | {"state": state, "random_state": 7, "max_iter": 9, "tol": 0}
        minimize(PROBLEM, STORMCompositional(), **arguments)
