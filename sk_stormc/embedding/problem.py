"""Stochastic neighbour embedding: the paper's compositional SNE, and t-SNE in the same
form."""

import copy
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.embedding.affinities import check_affinities
from sk_stormc.embedding.defaults import (
    CG_ITERATIONS,
    COMPONENT_FLOOR,
    MAX_EXACT_POINTS,
    MAX_FULL_BATCH,
    REPORTED_COLUMNS,
    advice,
    regularization,
)
from sk_stormc.embedding.dense import check_memory, dense_jacobian
from sk_stormc.embedding.kernel_sums import (
    ColumnBatch,
    ColumnSource,
    FarField,
    Gaussian,
    NearField,
    StudentT,
    check_degrees_of_freedom,
    negentropy,
)
from sk_stormc.embedding.mesh import Mesh
from sk_stormc.embedding.preconditioner import Graph, GraphLaplacian
from sk_stormc.embedding.sums_over_pairs import student_t_sums
from sk_stormc.utils.machine import BLOCK_BYTES
from sk_stormc.utils.parameters import check_bool, check_choice, check_int, check_number
from sk_stormc.utils.types import ArrayLike, Kernel, SparseMatrix


class SNEProblem(CompositionalProblem):
    r"""Embed points by minimising KL(P || Q), with the normalisers of Q as the inner
    value.

    .. math::

        \Phi(x) = \sum_{i, j} p_{ij} \bigl( \alpha \, \varphi(D_{ij}) + \log u_i \bigr),
        \qquad D_{ij} = |x_i - x_j|^2

    This is the divergence up to a constant. The kernel determines p, phi and u:

    - "gaussian" is the paper's SNE. It has the conditional probabilities p_{j|i},
      phi(D) = D, and for each point u_i = sum_{j != i} exp(-D_ij).
    - "student-t" is t-SNE. It has the joint probabilities, phi(D) = log(1 + D), and one
      u = sum_{i != j} 1 / (1 + D_ij) for all points. With a degrees of freedom, phi(D)
      = a log(1 + D / a), and u is a sum of (1 + D / a)^-a.

    The inner component g_j is n times column j of the kernel matrix, without the
    diagonal (the paper includes its 1 and subtracts it again). The outer component f_j
    is n times column j of P. In a sampled batch, pairs that are edges of P's graph are
    summed exactly, and the sampled columns estimate the sum over all other pairs
    (``near_field``). A full batch sums over all pairs directly. For "student-t" in one
    or two dimensions and more than 1024 points, it uses a mesh instead
    (embedding/mesh.py) if that costs less; the cost is proportional to n plus the map's
    area. Steps are preconditioned by the graph Laplacian of the attraction
    (embedding/preconditioner.py).

    Parameters
    ----------
    affinities : sparse matrix of shape (n_points, n_points)
        The conditional probabilities P = (p_{j|i}): rows sum to 1, the diagonal is
        empty (`sk_stormc.affinities.perplexity_affinities`). "student-t" symmetrises
        and scales them. With ``joint`` all entries of P together sum to 1.
    n_components : int, default=2
        Dimension d of the embedding. The variable x is the flattened array of shape
        (n_points, d).
    kernel : {"gaussian", "student-t"}, default="gaussian"
        Kernel of the embedding.
    exaggeration : float, default=1.0
        Factor alpha >= 1 of the attraction. If it is above 1, the learning rate is
        constant, as for an early stage that is followed by another `solve`. Recorded
        values of Phi do not include this factor.
    n_iter : int or None, default=None
        Horizon of the automatic learning rate. None means 110 to 140, depending on the
        number of points, the kernel and the dimension (see the problem's
        ``advice.max_iter``).
    dof : float, default=1.0
        Degrees of freedom a of "student-t".
    joint : bool, default=False
        Whether P contains joint probabilities, for "student-t" only.
    near_field : bool, default=True
        Whether the edges are summed exactly. False samples all pairs, as the paper
        does.
    jacobian : {"operator", "dense"}, default="operator"
        With "operator" J is only multiplied by vectors, on the batch with which it was
        sampled. With "dense" J is an array that step 9 of Algorithm 1 can track, of
        shape (n_points, n_points d) for "gaussian". A dense J of more than a quarter of
        the memory raises an error.
    dtype : dtype, default=numpy.float32
        Dtype of the embedding in a run.

    Raises
    ------
    ValueError
        If affinities are not square, have a diagonal or rows that do not sum to 1, a
        parameter is out of range, or a dense Jacobian is too large for this machine.

    Notes
    -----
    The mesh's Z has a relative error of about 1e-3. For "gaussian", normalisers that
    are estimated from sampled columns are at least .03. Without a mesh, and with more
    than 2048 points, the normalisers of the recorded Phi are estimated from 2048 evenly
    spaced columns. `divergence` is more accurate.

    References
    ----------
    Yuan & Hu, section on SNE, with the Jacobian corrected (docs/paper.md); van der
    Maaten & Hinton, "Visualizing data using t-SNE", 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc import minimize
    >>> from sk_stormc.affinities import perplexity_affinities
    >>> from sk_stormc.problems import SNEProblem
    >>> points = np.random.default_rng(0).normal(size=(100, 5))
    >>> problem = SNEProblem(
    ...     perplexity_affinities(points, perplexity=10), n_components=2
    ... )
    >>> result = minimize(problem, random_state=0)
    >>> result.x.reshape(100, 2).shape, bool(result.fun < result.loss_curve[0])
    ((100, 2), True)
    """

    _kept = _all = None  # caches of `in_run`; a problem outside of a run has none

    def __init__(
        self,
        affinities: ArrayLike | SparseMatrix,
        n_components: int = 2,
        *,
        kernel: Kernel = "gaussian",
        exaggeration: float = 1.0,
        n_iter: int | None = None,
        dof: float = 1.0,
        joint: bool = False,
        near_field: Any = True,
        jacobian: Literal["operator", "dense"] = "operator",
        dtype: Any = np.float32,
    ) -> None:
        check_int("n_components", n_components, low=1)
        check_choice("kernel", kernel, ("gaussian", "student-t"))
        check_number("exaggeration", exaggeration, low=1)
        check_int("n_iter", n_iter, low=1, words=(None,))
        check_degrees_of_freedom(dof, kernel)
        check_bool("joint", joint)
        if joint and kernel == "gaussian":
            raise ValueError(
                "joint must be False for kernel='gaussian', whose rows sum to 1 each; "
                "got True"
            )
        check_bool("near_field", near_field)
        check_choice("jacobian", jacobian, ("operator", "dense"))
        check_choice(
            "dtype", getattr(dtype, "__name__", str(dtype)), ("float32", "float64")
        )
        P = check_affinities(affinities, joint)
        n, d = P.shape[0], n_components
        self.kernel, self.per_point = kernel, kernel == "gaussian"
        self.exaggeration, self.dof = float(exaggeration), float(dof)
        self.near_field, self.dtype = bool(near_field), np.dtype(dtype)
        self._kernel = Gaussian() if self.per_point else StudentT(self.dof)
        self.n_inner = self.n_outer = self.n_blocks = n
        self.n_components, self.n_variables = d, n * d
        dense = jacobian == "dense"
        self.jacobian_kind = "sampled" if dense else jacobian
        if dense:
            numbers = n * d * (n if self.per_point else 1)
            check_memory(numbers * self.dtype.itemsize, n, d)

        self.P = P if self.per_point or joint else P / n  # joint probabilities sum to 1
        mesh = self._fine = None  # which is for the reported divergence
        if kernel == "student-t" and d <= 2 and n > MAX_FULL_BATCH and not dense:
            mesh = self._fine = Mesh(spacing=0.25, dof=self.dof)
            if self.dtype == np.float32:
                mesh = Mesh(dof=self.dof)
        self.graph = Graph(self.P, sparsified=not self.per_point)
        self.edges = self.graph.edges
        # cost of the edges, which are evaluated in each sampled batch, in components of
        # n evaluations
        self.n_near = -(-2 * len(self.edges.weight) // n) if self.near_field else 0
        self._far_field = FarField(
            self.edges, self.near_field, self.per_point, mesh, self.dof
        )
        self.meshed = self._fine is not None
        self.inner_floor = 1e-15  # its inverse square is still a float32
        self._set_steps(n_iter, 1.0 if self.exaggeration > 1 else None)

    def stage(self, n_iter, exaggeration=1.0, held=None, further=False):
        """Return the same problem with another horizon and exaggeration. Both share the
        graph.

        Parameters
        ----------
        n_iter : int
            Horizon of the stage.
        exaggeration : float, default=1.0
        held : float, default=None
            A constant regularisation of the preconditioner, in units of the weight of a
            point, with a constant learning rate, as for an early stage. None means that
            both follow their schedules.
        further : bool, default=False
            Whether the stage continues from a finished map. The regularisation then
            stays at its final value.

        Returns
        -------
        SNEProblem
        """
        other = copy.copy(self)
        other.exaggeration = float(exaggeration)
        other._set_steps(n_iter, held, further)
        return other

    def in_run(self):
        """Return the same problem, with caches for one run.

        Returns
        -------
        SNEProblem
        """
        other = copy.copy(self)
        other._kept, other._all = self.new_near(), ColumnBatch(None)
        if isinstance(self.preconditioner, GraphLaplacian):
            other.preconditioner = copy.copy(self.preconditioner)
            other.preconditioner.near = other._kept
        return other

    def new_near(self):
        """Return a new near field with an empty cache.

        Returns
        -------
        NearField
        """
        return NearField(self.edges, self._kernel, self.exaggeration)

    @property
    def iteration_ifo(self):
        """Oracle calls (IFO) of an iteration with the problem's advice."""
        batch = self.advice.batch_size[0]
        return self.n_inner + 2 * (
            self.n_inner if batch is None else batch + self.n_near
        )

    def _set_steps(self, n_iter, held=None, further=False):
        n, d = self.n_inner, self.n_components
        # weight of P per point: 1, or 1 / n for joint probabilities
        total = self.edges.weight.sum() / n
        constant, near, meshed = held is not None, self.n_near, self.meshed
        self.advice = advice(self.kernel, n, d, constant, n_iter, near, meshed, further)
        mu = regularization(self.kernel, held, self.advice.max_iter, total, further)
        self.preconditioner = GraphLaplacian(
            self, mu, CG_ITERATIONS[self.kernel], floor=COMPONENT_FLOOR * total
        )

    def initial_point(self, rng):
        """Normal random points with a standard deviation of 1 for "gaussian" and 1e-4
        for "student-t"."""
        x = rng.standard_normal(self.n_variables) * (1.0 if self.per_point else 1e-4)
        return x.astype(self.dtype)

    @property
    def source(self):
        """The source of columns, with the cost of the near field."""
        return ColumnSource(self.n_inner, self.n_near)

    def inner_batch(self, draws):
        """Columns of the kernel matrix."""
        return self._all if draws is None and self._all else ColumnBatch(draws)

    def outer_batch(self, draws):
        """Columns of P as (rows, columns, weighted probabilities). None means all
        columns."""
        if draws is None:
            return None
        part = self.P[:, draws].tocoo()
        return part.row, draws[part.col], part.data * (self.n_outer / len(draws))

    # the kernel's sums over the pairs at x

    def _points(self, x):
        return x.reshape(self.n_inner, self.n_components)

    def _remembering(self):
        return self if self._kept else self.in_run()

    def _near(self):
        return self._kept or self.new_near()

    def inner(self, x, batch):
        """The inner value u: the normalisers Z_i of the points, or the normaliser Z of
        all pairs."""
        far, (*_, complete) = self._far_field.at(x, batch)
        u = self._all_pairs(x, far, complete)
        if self.per_point and self.near_field and not complete:
            # with smaller estimates, maps with few neighbours diverge
            return np.maximum(u, u.dtype.type(0.03))
        return u

    def _all_pairs(self, x, far, complete):
        """The inner value u from the sums over the far field, plus the near field if
        they do not include it."""
        if self.near_field and not complete:
            k = self._kernel.value(self._near().at(x)[1])
            far = far + (
                self.edges.sums(k) if self.per_point else 2 * float(k.sum(dtype=float))
            )
        return far if self.per_point else np.array([far], x.dtype)

    def jacobian(self, x, batch):
        """The Jacobian of the batch: an array if "dense", and otherwise a tuple that
        `vjp` takes."""
        if self.jacobian_kind == "operator":
            return self._far_field.at(x, batch)[1]
        return dense_jacobian(
            self._points(x),
            batch.chosen,
            self._far_field.left_out.toarray(),
            self.near_field,
            self._kernel,
            self.per_point,
        )

    def vjp(self, J, v):
        """J.T v = -2 sum_j (v_l + v_j) (-k') (x_l - x_j) for each point l, or an
        estimate of it from a batch."""
        if self.jacobian_kind != "operator":
            return super().vjp(J, v)
        F = self._far_field.forces(J, v)
        if self.near_field and not J[-1]:
            rows, w = self._near().at(J[0])
            slopes = -2 * self.edges.ends(v) if self.per_point else -4 * v[0]
            F += self.edges.forces(self._kernel.repulsion(w) * slopes, rows)[1].T
        return F.ravel()

    def outer_gradient(self, x, u, batch):
        """f_x = alpha sum_j 2 s_ij phi' (x_i - x_j), s = P + P.T; f_u = 1 / u, since
        P's rows sum to 1."""
        if batch is not None:
            return self._sampled_outer_gradient(x, u, batch)
        return self._near().forces(x)[2].T.ravel(), 1 / u

    def _sampled_outer_gradient(self, x, u, batch):
        (i, j, p), points = batch, self._points(x)
        difference = points[i] - points[j]
        w = self._kernel.base(np.einsum("ij,ij->i", difference, difference))
        c = self._kernel.attraction(2 * self.exaggeration * p, w)
        f_x = np.zeros(points.shape)
        np.add.at(f_x, i, c[:, None] * difference)
        np.subtract.at(f_x, j, c[:, None] * difference)
        mass = np.bincount(i, p, self.n_outer) if self.per_point else p.sum()
        return f_x.ravel().astype(x.dtype), (mass / u).astype(x.dtype)

    def outer(self, x, u):
        """f(x, u), exact."""
        return self.exaggeration * self._attraction(x) + self._log_sum(u)

    def _log_sum(self, u):
        return float(np.log(np.maximum(u, self.inner_floor), dtype=float).sum())

    def _attraction(self, x):
        """sum_ij p_ij phi(D_ij)."""
        rows, w = self._near().at(x)
        if not self.per_point:
            return -self.dof * self.edges.log_sum(w)
        return float(self.edges.weight @ self.edges.squares(rows, np.empty_like(w)))

    def gradient(self, x):
        """Return the full gradient of Phi. It is exact, or computed on the mesh if
        there is one.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        return super(SNEProblem, self._remembering()).gradient(x)

    def objective(self, x):
        """Phi(x). Z is computed on the mesh. Without a mesh, normalisers are estimated
        from at most 2048 columns."""
        return self._phi(x, self.exaggeration)

    def reported(self, x):
        """The recorded value: Phi(x) without exaggeration, so that the values of all
        stages can be compared."""
        return self._phi(x)

    def _phi(self, x, exaggeration=1.0, fine=False):
        """Phi(x) with an exaggeration, from normalisers for reports, or finer ones."""
        own = self._remembering()
        u = own._normalisers(x, fine)
        return exaggeration * own._attraction(x) + own._log_sum(u)

    def _normalisers(self, x, fine):
        """The normalisers u for reports: from a mesh, or without one, for many points,
        from 2048 columns."""
        n, points, far = self.n_inner, self._points(x), self._far_field
        if fine and self._fine is not far.mesh:
            return np.array([student_t_sums(points, self._fine, self.dof)[0]])
        exact = MAX_EXACT_POINTS if fine else REPORTED_COLUMNS
        if self._fine is None and n > exact and self.near_field:
            times = n / REPORTED_COLUMNS
            chosen = ((np.arange(REPORTED_COLUMNS) + 0.5) * times).astype(int)
            blocks = np.array_split(chosen, -(-4 * n * len(chosen) // BLOCK_BYTES))
            sums = sum(far.columns(points, block, far.left_out)[0] for block in blocks)
            return self._all_pairs(x, x.dtype.type(times) * sums, complete=False)
        return self.inner(x, self.inner_batch(None))  # cached for the next iteration

    def divergence(self, x):
        """Return KL(P || Q) for an embedding, without exaggeration.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        float
            (1/n) sum_i KL(P_i || Q_i) for "gaussian", and the KL divergence of the
            joint probabilities for "student-t".

        Notes
        -----
        The result is more accurate than the recorded Phi: Z is computed on a finer
        mesh. Without a mesh, and with at most 10,000 points, the normalisers are sums
        over all pairs.
        """
        return self.divergence_of(self._phi(x, fine=True))

    def divergence_of(self, fun):
        """Return KL(P || Q) from the value of Phi without exaggeration.

        Parameters
        ----------
        fun : float or ndarray

        Returns
        -------
        float or ndarray
        """
        return (fun + self._negentropy) / (self.n_inner if self.per_point else 1)

    @cached_property
    def _negentropy(self):
        """sum p log p."""
        if self.per_point:
            return negentropy(self.P.data)
        return 2 * negentropy(self.edges.weight / 2)


def recorded_divergence(problem, x):
    """KL(P || Q) of a map as records have it, without exaggeration."""
    return problem.divergence_of(problem.reported(x.ravel()))
