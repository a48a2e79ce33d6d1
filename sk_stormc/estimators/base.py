"""What the estimators share: a solver by name or instance, and what a run leaves behind."""

from sklearn.base import BaseEstimator

from sk_stormc._validation import check_int, check_number
from sk_stormc.solvers import get_solver

__all__ = ["CompositionalEstimator"]


class CompositionalEstimator(BaseEstimator):
    """Base of the estimators with parameters ``solver``, ``max_iter``, ``tol`` and ``random_state``."""

    def set_params(self, **params):
        """Set parameters; ``solver__...`` turns a solver's name into the solver first.

        Parameters
        ----------
        **params : dict
            ``solver`` is set before ``solver__...``, whatever their order.

        Returns
        -------
        self : object
        """
        if "solver" in params:
            super().set_params(solver=params.pop("solver"))
        if isinstance(self.solver, str) and any(name.startswith("solver__") for name in params):
            self.solver = get_solver(self.solver)
        return super().set_params(**params)

    def _make_solver(self):
        """The solver to run, with all its parameters checked."""
        check_int("max_iter", self.max_iter, low=1, words=(None,))
        check_number("tol", self.tol, low=0, words=(None,))
        solver = get_solver(self.solver)
        own = {"max_iter": self.max_iter, "tol": self.tol}
        solver.set_params(**{name: value for name, value in own.items() if value is not None})
        solver.validate()
        return solver

    def _keep(self, solver, result):
        """Store a result as fitted attributes."""
        self.loss_curve_ = result.loss_curve
        self.ifo_ = result.ifo
        self.n_evaluations_ = result.n_evaluations
        self.n_iter_ = result.n_iter
        self.stop_reason_ = result.stop_reason
        self.solver_ = solver
