"""Accelerated SCGD: the extrapolation of ASC-PG at its own, slower time scales."""

from sk_stormc.solvers.asc_pg import ASCPG

__all__ = ["AcceleratedSCGD"]


class AcceleratedSCGD(ASCPG):
    """Accelerated SCGD (Wang, Fang & Liu 2017): SCGD with g queried at an extrapolated point.

    x_{k+1} = proj(x_k - alpha_k dg(x_k, B_dg)^T grad f(y_k, B_f)), z_{k+1} = (1 - 1/beta_k) x_k + (1/beta_k) x_{k+1},
    y_{k+1} = (1 - beta_k) y_k + beta_k g(z_{k+1}, B_g). The first batch sets y.

    Parameters
    ----------
    learning_rate : float, callable or "auto", default="auto"
        eta (the paper's alpha). "auto" is 0.7 / L (k + 1)^(-5/7), L a charged probe of the curvature of
        minibatches, k the iteration.
    beta : float, callable or "auto", default="auto"
        Weight of the new value, in (0, 1]. "auto" is (k + 1)^(-4/7), or 1 where g is taken on all components
        and the metric is a matrix, such as the inverse Hessian.
    batch_size : int, None, tuple of three or "auto", default="auto"
        (B_g, B_dg, B_f); None means all components. "auto" is all for up to 1024 components, else 16.
    max_iter, max_ifo : int or None, default=None
        Budgets; both None mean 100 passes.
    tol : float, default=1e-4
        Stop when the average of |x~ - x| / eta over a pass has fallen to tol times its first value.

    Notes
    -----
    `ASCPG` is the same iteration, with a proximal step where this paper projects. Both take the problem's penalty here,
    so they differ in their automatic schedules only; with the same learning_rate and beta they are one method. z and y
    are brought up to date at the beginning of an iteration, with its beta: the last batch of g that the paper draws
    would serve no step. For a strongly convex Phi the schedules are alpha_k ~ 1/k and beta_k ~ k^(-4/5).

    References
    ----------
    Wang, Fang & Liu, "Stochastic compositional gradient descent: algorithms for minimizing compositions of
    expected-value functions", Mathematical Programming 161, 2017 (arXiv 1411.3803).

    Examples
    --------
    >>> from sk_stormc import AcceleratedSCGD, minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> minimize(problem, AcceleratedSCGD(max_ifo=60_000), random_state=0).stop_reason
    'max_ifo'
    """

    exponents = (-5 / 7, -4 / 7)
