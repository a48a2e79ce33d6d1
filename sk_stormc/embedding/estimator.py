"""The estimator `SNEEmbedding`: stochastic neighbour embedding with scikit-learn's
interface."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Literal, Self, overload

import numpy as np
from scipy.sparse.csgraph import reverse_cuthill_mckee
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sk_stormc.embedding.affinities import check_perplexity
from sk_stormc.embedding.convergence import warn_if_not_converged
from sk_stormc.embedding.defaults import draws_nothing, horizon
from sk_stormc.embedding.descent import Descent
from sk_stormc.embedding.initialization import check_init, make_start
from sk_stormc.embedding.kernel_sums import check_degrees_of_freedom
from sk_stormc.embedding.neighborhoods import (
    Neighborhoods,
    refuse_dask,
    refuse_pair,
    warn_of_memory,
)
from sk_stormc.embedding.neighbors.checks import (
    FEATURELESS,
    as_points,
    check_kind_of_metric,
    check_missing,
    warn_of_features,
)
from sk_stormc.embedding.neighbors.graph import first_of_rows
from sk_stormc.embedding.problem import SNEProblem
from sk_stormc.embedding.solver_runs import run_stages
from sk_stormc.embedding.stages import (
    Lines,
    Stage,
    further_stages,
    growing,
    new_stages,
)
from sk_stormc.embedding.transform import (
    place,
    transform_lazily,
    warn_of_far_samples,
)
from sk_stormc.engine import CompositionalSolver
from sk_stormc.engine.results import SolverResult
from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.fitting.runs import Fit, with_fit
from sk_stormc.solvers import LBFGS, StopReason, get_solver
from sk_stormc.solvers.lbfgs import LBFGS_PASSES
from sk_stormc.utils.blocks import is_dask
from sk_stormc.utils.descriptions import check_unchanged, describe
from sk_stormc.utils.parameters import (
    check_bool,
    check_choice,
    check_int,
    check_number,
    check_verbose,
    is_word,
    naming,
    short,
)
from sk_stormc.utils.rows import check_numeric
from sk_stormc.utils.threads import in_threads, threads
from sk_stormc.utils.types import (
    ArrayLike,
    Auto,
    Features,
    FloatArray,
    Kernel,
    Neighbors,
    RandomState,
    SolverName,
)

# default exaggeration of the early stage; without it, divergences of "student-t" are up
# to 5 % higher
EARLY_EXAGGERATION = {"gaussian": 1.0, "student-t": 6.0}
# parameters that `optimize` may not change
SAME = ("n_components", "perplexity", "kernel", "dof", "metric")
# extended from stage to stage
CURVES = ("loss_curve", "ifo", "record_iterations", "n_evaluations", "n_iter")


class SNEEmbedding(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    CompositionalEstimator,
):
    """Embed points in few dimensions so that neighbours stay close: SNE and t-SNE, by
    compositional optimisation.

    The embedding minimises the Kullback-Leibler divergence KL(P || Q). P are the
    affinities of the data at a given perplexity, and Q are those of the embedding. Each
    iteration computes the terms of pairs that are neighbours in the data exactly. The
    sums over the other pairs are computed on a mesh for "student-t" in one and two
    dimensions, and otherwise estimated from a sample of pairs. The cost is therefore
    proportional to the number of points.

    Parameters
    ----------
    n_components : int, default=2
        Dimension of the embedding.
    perplexity : float or sequence of float, default=30.0
        Effective number of neighbours, at least 1. With a sequence, the affinities of
        all its perplexities are averaged, so that a map shows small and large
        structures (openTSNE's `Multiscale`). A perplexity that is too large for the
        data is lowered with a UserWarning, to a third of the smallest number of
        neighbours that a sample has. That number is n_samples - 1, or the length of the
        shortest row of a graph. Values of a sequence that are lowered to the same
        number count once. ``perplexity_`` stores the result.
    kernel : {"auto", "student-t", "gaussian"}, default="auto"
        Kernel of the embedding. "student-t" gives t-SNE. "gaussian" gives the paper's
        SNE, which crowds points together in two dimensions. "auto" is "student-t" up to
        three dimensions, and "gaussian" above.
    dof : float, default=1.0
        Degrees of freedom of "student-t", at most 10,000, which is nearly the Gaussian
        kernel. As in openTSNE, the kernel of a distance d is (1 + d^2 / dof)^-dof.
        (scikit-learn's kernel has the power (dof + 1) / 2 instead. The two agree for
        dof = 1.) Values below 1 split clusters into finer ones. With values below 0.5
        the best map can be so wide that the steps do not reach its width; the fit then
        warns.
    solver : str or CompositionalSolver, default="auto"
        "auto" is a preconditioned gradient descent with momentum, whose sums over all
        pairs of points are exact, or computed on a mesh. It draws nothing, so that all
        seeds give the same map. For "gaussian", and for more than 1024 points in three
        or more dimensions, it is "storm-c", which samples pairs. The other values are
        solvers of compositional problems: "storm-c", "storm-c-paper", "sarah-c",
        "civr", "vrsc-pg", "scvr", "scgd", "acc-scgd", "asc-pg" and "lbfgs", or an
        instance. "storm-c-paper" uses the paper's unscaled steps, which hardly move the
        points. "lbfgs" uses the exact gradient and is suitable for up to a few thousand
        points. ``set_params(solver__...)`` replaces "auto" by "storm-c".
    init : {"auto", "pca", "spectral", "random"} or ndarray, default="auto"
        Initial positions of the points, as an array of shape (n_samples, n_components),
        or a way to compute them. "pca" uses principal components. "spectral" uses the
        leading nontrivial eigenvectors of the random walk on the neighbour graph, of
        each connected component by itself. It keeps closed curves whole that "pca" may
        cut, because they lie on top of other components in the principal components,
        such as two linked rings.
        "auto" is "pca" for features, and "spectral" for metric="precomputed", for which
        "pca" is not possible. "random" is Gaussian noise with a standard deviation of 1
        for "gaussian" and of 1e-4 for "student-t". All other initializations, including
        arrays, are centred and rescaled: the standard deviation of the widest column
        becomes 3 for "gaussian" and 1e-4 for "student-t", because other widths lead to
        worse minima. A constant column is replaced by noise of a tenth of that width.
        With early_exaggeration=1 an array keeps its width, so that
        ``init=old.transform(X) / 30`` keeps the layout of a map with new samples.
    metric : str or callable, default="euclidean"
        Metric of the data, as in `sklearn.neighbors.NearestNeighbors`, except
        "nan_euclidean", since missing values are not supported. For a sparse X, only
        some metrics are supported; the error message describes how to use the others.
        "mahalanobis" requires metric_params={"VI": ...} or {"V": ...}. With
        "precomputed", X contains distances, which are not squared, or a sparse graph of
        them. Negative distances due to rounding are replaced by zero.
        `sklearn.neighbors.KNeighborsTransformer` creates such a graph with
        mode="distance". A row of a graph may list any number of neighbours; three times
        the perplexity is best. It may or may not include the sample itself. If it lists
        more neighbours than needed, the nearest are used. Stored zeros are distances of
        0. With "affinities", X contains the affinities themselves, dense or sparse,
        none negative. For "student-t" they are symmetrised and scaled to a sum of 1,
        and for "gaussian" each row is scaled. The perplexity is then not used, and
        `transform` is not available.
    metric_params : dict, default=None
        Further arguments of the metric.
    neighbors : {"auto", "exact", "approximate"}, default="auto"
        Method of finding the nearest neighbours of the samples. "approximate" is an
        inverted file: it divides the data into cells by k-means, and searches only the
        nearest cells, enough of them to find about 99 % of the neighbours. It supports
        dense data with the Euclidean or the cosine metric. "auto" is "approximate" for
        such data with more than 10,000 samples and more than five features, and "exact"
        otherwise. ``neighbor_recall_`` is the fraction of the neighbours that was
        found.
    max_iter : int, "auto" or None, default="auto"
        Number of iterations, including those of early exaggeration. The automatic
        learning rate decreases to 0 at the last one. "auto", or None, is 110 to 140,
        depending on the number of samples, the kernel and the dimension. For "lbfgs" it
        is at most 1000. `resume` with a larger number continues from the finished map,
        with a learning rate that decreases to 0 again.
    early_exaggeration : float or "auto", default="auto"
        Factor of the attraction in the first fifth of the iterations, which are at most
        30. "auto" is 6 for "student-t" and 1 for "gaussian", but not less than
        ``exaggeration``. It is less than 6 for data in which that factor would contract
        the map to a line or a point, such as noise, or data with a perplexity near a
        third of the samples. A map in up to two dimensions is rescaled after these
        iterations, if rescaling alone halves its divergence.
    exaggeration : float, default=1.0
        Factor of the attraction in the other iterations, at least 1. Larger values make
        clusters denser and move connected clusters closer together. Reported
        divergences do not include this factor.
    tol : float, "auto" or None, default="auto"
        Tolerance, relative to the length of the gradient at the beginning of a stage.
        "auto" runs all iterations, since the learning rate must decrease to 0, except
        for L-BFGS, which uses its default. None means the default of the solver, and
        for solver="auto" the same as "auto".
    transform_perplexity : float, default=None
        Perplexity of new samples in `transform`, which uses 3 transform_perplexity + 1
        of their nearest neighbours. It is lowered if there are fewer neighbours. None
        means 15, or `perplexity` if that is smaller.
    record_every : int or "auto", default="auto"
        Approximate number of iterations between two records. ``loss_curve_`` contains
        the records, and callbacks are called at them. 1 records every iteration. "auto"
        is about a twentieth of the iterations after early exaggeration; callbacks are
        also called at some of the earlier iterations.
    verbose : int, default=0
        If positive, print a line with the divergence at each record, including the
        early stage, and a line when the neighbours, the affinities and the
        initialization have been computed. All lines show the seconds since the
        beginning.
    random_state : int, RandomState instance or None, default=None
        Seed of the batches of a solver, and of a random initialization. Results are
        bit-for-bit reproducible for a given seed.
    n_jobs : int, default=None
        Number of threads of `fit` and `transform`. None means 1, and -1 means all
        processors. The result does not depend on it. BLAS is limited to one thread
        during these calls.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The positions of the samples. They are float32 for float32 data.
    kl_divergence_ : float
        The final divergence. For "gaussian" it is (1/n) sum_i KL(P_i || Q_i), and for
        "student-t" the KL divergence of the joint probabilities. P has 3 perplexity + 1
        neighbours of each sample, as in `sklearn.manifold.TSNE`. The divergence is
        computed on first access, which takes about a tenth of the time of `fit`.
    kernel_ : {"student-t", "gaussian"}
        The kernel that was used.
    loss_curve_ : ndarray of shape (n_records,)
        The divergence at the initialization, at up to 20 records of each stage after
        the early one, and at the end. The normalisers of ``kl_divergence_`` are more
        accurate, so that the last value differs slightly from it. The loss curves of
        `minimize` contain Phi instead. Up to a constant, Phi is the divergence for
        "student-t" and n times the divergence for "gaussian".
    record_iterations_ : ndarray of shape (n_records,)
        Iterations at the records.
    ifo_ : ndarray of shape (n_records,)
        Number of oracle calls (IFO, Lemma 3.1) up to each record. Pairs that are summed
        exactly count as their fraction of all pairs.
    solver_ : str or CompositionalSolver
        The method that was run: "descent", which is that of solver="auto", or a solver.
    stop_reason_ : str
        Why the run ended: "converged", "max_iter", "max_ifo", "non_finite",
        "interrupted", or "callback" if a callback ended it.
    neighbor_recall_ : float
        The fraction of the true neighbours that the search found, estimated on a sample
        of the data. It is 1 if the search was exact, and NaN if X is a graph or
        contains affinities.
    perplexity_ : float
        The perplexity that was used.

    See Also
    --------
    sklearn.manifold.TSNE : scikit-learn's t-SNE. For more than three dimensions it has
        only an exact method.

    References
    ----------
    Yuan & Hu, "Stochastic Recursive Momentum Method for Non-Convex Compositional
    Optimization"; Hinton & Roweis, "Stochastic neighbor embedding", 2002; van der
    Maaten & Hinton, "Visualizing data using t-SNE", 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sk_stormc import SNEEmbedding
    >>> X = load_digits().data[:500]
    >>> embedding = SNEEmbedding(n_components=2, random_state=0)
    >>> embedding.fit_transform(X).shape
    (500, 2)
    >>> embedding.transform(X[:3] + 0.5).shape
    (3, 2)
    """

    objective_label = "KL divergence"
    many_minima = True
    own_solvers: tuple[str, ...] = ("auto",)

    embedding_: FloatArray

    def __init__(
        self,
        n_components: int = 2,
        *,
        perplexity: float | Sequence[float] = 30.0,
        kernel: Auto | Kernel = "auto",
        solver: Auto | SolverName | CompositionalSolver = "auto",
        dof: float = 1.0,
        init: Literal["auto", "pca", "spectral", "random"] | ArrayLike = "auto",
        metric: str | Callable = "euclidean",
        metric_params: dict[str, Any] | None = None,
        neighbors: Neighbors = "auto",
        max_iter: int | Auto | None = "auto",
        early_exaggeration: float | Auto = "auto",
        exaggeration: float = 1.0,
        record_every: int | Auto = "auto",
        tol: float | Auto | None = "auto",
        transform_perplexity: float | None = None,
        verbose: int | bool = 0,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.kernel = kernel
        self.dof = dof
        self.solver = solver
        self.init = init
        self.metric = metric
        self.metric_params = metric_params
        self.neighbors = neighbors
        self.max_iter = max_iter
        self.early_exaggeration = early_exaggeration
        self.exaggeration = exaggeration
        self.record_every = record_every
        self.tol = tol
        self.transform_perplexity = transform_perplexity
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = is_word(self.metric, *FEATURELESS)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Features, y: Any = None) -> Self:
        """Fit the embedding.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            With metric="precomputed" distances or a sparse neighbour graph, with
            "affinities" affinities, (n_samples, n_samples).
        y : Ignored

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of its range, or if the data are not finite, are so
            large that their squares overflow, are not distances if distances are
            expected, or are a dask collection. An earlier fit is then unchanged.
        """
        return self._fit(X, y)

    @with_fit
    @in_threads
    def _fit(self, X, y=None, before=None):
        """`fit`, or `resume` of the fit whose progress is ``before``."""
        self._check_parameters()
        refuse_pair(X)
        refuse_dask(X)
        points, d, kernel = as_points(X, self.metric), self.n_components, self._kernel()
        n = points.shape[0]
        method = self._method(n)
        fit = Fit.of_data(self, method, X, y, before)
        of_data = copy.copy(self)
        # raises for invalid column names before the run
        validate_data(of_data, X, skip_check_array=True)
        # otherwise an array is a map, which keeps its width
        rescale = self.early_exaggeration != 1
        init = check_init(self.init, self.metric, n, d, rescale)
        names = getattr(of_data, "feature_names_in_", None)
        warn_of_features(points, names, self.metric)
        if self.metric not in FEATURELESS:
            warn_of_memory(points, np.max(self.perplexity), d == 2)
        every = _set(self.record_every)
        if before is not None:
            stages = further_stages(
                before.plan, method.max_iter, self.exaggeration, every
            )
        lines = Lines(self.verbose)
        near = Neighborhoods(
            points,
            kernel == "gaussian",
            self.perplexity,
            self.metric,
            metric_params=self.metric_params,
            n_jobs=self.n_jobs,
            neighbors=self.neighbors,
        )
        lines.done("neighbors")
        P = near.affinities()
        lines.done("affinities")
        start = make_start(init, points, P, d, kernel, fit.rng, rescale)
        start = start.astype(points.dtype)
        if before is None:
            most = LBFGS_PASSES if isinstance(method, LBFGS) else horizon(kernel, n, d)
            early = self._early_exaggeration(P, start)
            stages = new_stages(
                method.max_iter or most, early, self.exaggeration, every
            )
        fit.progress.plan = stages
        lines.done("start")
        problem, result = self._run_stages(
            fit,
            method,
            stages,
            P,
            near.joint,
            start,
            lines,
            perplexity_=near.perplexity,
            neighbor_recall_=near.recall,
            _near=near,
        )
        validate_data(self, X, skip_check_array=True)
        self._n_features_out = self.n_components
        self._finish(result, method, fit)
        self._conclude(method, result)
        warn_if_not_converged(self, method, problem, result)
        return self

    def fit_transform(self, X: Features, y: Any = None) -> FloatArray:
        """Fit the embedding and return it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self.fit(X).embedding_

    @with_fit
    @in_threads
    def optimize(
        self,
        n_iter: int = 100,
        *,
        exaggeration: float = 1.0,
        learning_rate: float | None = None,
        record_every: int | str = "auto",
    ) -> Self:
        """Continue the optimisation of the fitted map by one more stage, after those of
        `fit` and of earlier calls.

        ``embedding_`` and ``kl_divergence_`` are replaced, and ``loss_curve_``,
        ``record_iterations_``, ``ifo_``, ``n_evaluations_`` and ``n_iter_`` are
        extended. Callbacks are called at the records, and `resume` continues a stage
        that ended early.

        Parameters
        ----------
        n_iter : int, default=100
            Number of iterations of the stage. The learning rate decreases to 0 over the
            second half of them, and in a long stage over a larger part.
        exaggeration : float, default=1.0
            Factor of the attraction, at least 1.
        learning_rate : float, default=None
            The learning rate of the stage. None means the learning rate of the solver.
        record_every : int or "auto", default="auto"
            Approximate number of iterations between two records. 1 records every
            iteration, and "auto" creates about twenty records.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If an argument is out of its range, or if n_components, perplexity, kernel,
            dof or metric has changed since `fit`. The map is then unchanged.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from sk_stormc import SNEEmbedding
        >>> embedding = SNEEmbedding(max_iter=70, random_state=0).fit(
        ...     load_digits().data[:500]
        ... )
        >>> embedding.optimize(30, exaggeration=4).optimize(50).n_iter_
        150
        """
        check_is_fitted(self)
        check_int("n_iter", n_iter, low=1)
        check_number("exaggeration", exaggeration, low=1)
        check_number(
            "learning_rate", learning_rate, low=0, inclusive=False, words=(None,)
        )
        check_int("record_every", record_every, low=1, words=("auto",))
        stage = Stage(
            int(n_iter),
            float(exaggeration),
            on=True,
            asked=True,
            learning_rate=learning_rate and float(learning_rate),
            record_every=_set(record_every),
        )
        method = self._method(len(self.embedding_))
        if learning_rate is not None and isinstance(method, LBFGS):
            raise ValueError(
                f"learning_rate must be None for {method!r}, which has none; got "
                f"{short(learning_rate)}"
            )
        for name in SAME:
            check_unchanged(
                name,
                self._progress.parameters[name],
                describe(getattr(self, name)),
                "optimize",
                "another map needs a new fit",
            )
        fit = Fit.further(self)
        fit.progress.plan.append(stage)
        before = SolverResult(
            {name: vars(self)[f"{name}_"] for name in CURVES}, n_guarded=0
        )
        P, lines = self._near.affinities(), Lines(self.verbose)
        _, result = self._run_stages(
            fit, method, [stage], P, self._near.joint, self.embedding_, lines, before
        )
        self._finish(result, method, fit)
        if result.stop_reason == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        return self

    @cached_property
    def kl_divergence_(self) -> float:
        """The divergence of the map from the affinities of 3 perplexity + 1 neighbours,
        computed when first read."""
        if "_of_map" not in vars(self):
            raise AttributeError(
                f"this {type(self).__name__} is not fitted, so it has no kl_divergence_"
            )
        points, near = self.embedding_, self._near
        with threads(self.n_jobs):
            problem = SNEProblem(
                near.affinities(), points.shape[1], joint=near.joint, **self._of_map
            )
            return problem.divergence(points.ravel().astype(problem.dtype))

    @overload
    def transform(
        self, X: Features, return_distance: Literal[False] = False
    ) -> FloatArray: ...

    @overload
    def transform(
        self, X: Features, return_distance: Literal[True]
    ) -> tuple[FloatArray, FloatArray]: ...

    @overload
    def transform(
        self, X: Features, return_distance: bool
    ) -> FloatArray | tuple[FloatArray, FloatArray]: ...

    @in_threads
    def transform(
        self, X: Features, return_distance: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Place new samples in the embedding, independently of each other.

        A new sample has affinities p_j to its nearest training samples, whose embedded
        points are x_j. Its position z minimises sum_j p_j log(1 + |z - x_j|^2), for
        both kernels. It lies in the convex hull of these points. As the distance of the
        sample to a training sample tends to 0, its position tends to the point of that
        sample. Training samples are placed at their own points. A sample that occurs
        several times in the training data is placed at the mean of its points if these
        are close together, and otherwise near the first of them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_new, n_features)
            With metric="precomputed" distances to the training data, or a sparse graph,
            (n_new, n_samples), whose rows may list any number of training samples.
        return_distance : bool, default=False
            Whether to also return the relative distance of each sample from the
            training data.

        Returns
        -------
        places : ndarray of shape (n_new, n_components)
            A lazy array of dask for a dask collection, whose partitions are transformed
            on their workers.
        distances : ndarray of shape (n_new,)
            Only with ``return_distance=True``. The distance of a sample to its tenth
            nearest training sample, divided by the median distance of these ten to
            their own tenth neighbours. It is about 1 within the training data. Only
            this number shows that a sample is far from the training data, because every
            sample is placed among the points of its nearest training samples.

        Warns
        -----
        UserWarning
            Without ``return_distance``, if the distance of a sample is above 10.

        Raises
        ------
        ValueError
            If the data are not finite or too large, if a distance is negative, if a row
            of a graph is empty, and for metric="affinities".
        """
        check_is_fitted(self)
        if self._near.search is None:
            raise ValueError(
                "metric must have distances for transform, such as 'euclidean' or "
                "'precomputed'; got 'affinities', which contain no distances to new "
                "samples"
            )
        check_bool("return_distance", return_distance)
        check_number(
            "transform_perplexity", self.transform_perplexity, low=1, words=(None,)
        )
        if is_dask(X):
            return transform_lazily(self, X, return_distance)
        check_numeric("X", X)
        with naming("X"):
            points = validate_data(
                self,
                X,
                reset=False,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
            )
        check_missing(points, X, self.metric)
        perplexity = self.transform_perplexity or min(np.max(self.perplexity), 15.0)
        near = self._near
        places, distances = place(
            points, near.search, self.embedding_, perplexity, near.spacing, self.dof
        )
        if not return_distance:
            warn_of_far_samples(distances)
        places = places.astype(self.embedding_.dtype)
        return (places, distances) if return_distance else places

    def _check_parameters(self):
        check_int("n_components", self.n_components, low=1)
        check_kind_of_metric(self.metric)
        check_choice("kernel", self.kernel, ("auto", "student-t", "gaussian"))
        check_number(
            "transform_perplexity", self.transform_perplexity, low=1, words=(None,)
        )
        check_number(
            "early_exaggeration", self.early_exaggeration, low=1, words=("auto",)
        )
        check_number("exaggeration", self.exaggeration, low=1)
        check_int("record_every", self.record_every, low=1, words=("auto",))
        check_perplexity(self.perplexity)
        check_degrees_of_freedom(self.dof, self._kernel())
        check_int("max_iter", self.max_iter, low=1, words=("auto", None))
        check_number("tol", self.tol, low=0, words=("auto", None))
        check_verbose("verbose", self.verbose)
        self._check_solver()

    def _run_stages(
        self, fit, method, stages, P, joint, start, lines, before=None, **attributes
    ):
        """Run stages from a map, after the iterations of the result ``before``, if
        there are any.

        Return the problem of the last stage, and the result of all iterations, with
        divergences as losses. The estimator, and callbacks during the run, get
        the map and the further attributes.
        """
        # if neighbours are close in memory, sums over the edges of many points take 3/5
        # of the time; a few neighbours of each point determine the order
        order = reverse_cuthill_mckee(first_of_rows(P, 10))
        P, dtype, kernel = P[order][:, order], start.dtype, self._kernel()

        def fitted(x):
            return {"embedding_": _as_map(x, order, dtype)} | attributes

        # L-BFGS is the exact reference, for which float32 is too coarse
        precision = np.float64 if isinstance(method, LBFGS) else np.float32
        problem = SNEProblem(
            P,
            self.n_components,
            kernel=kernel,
            dof=self.dof,
            joint=joint,
            dtype=precision,
        )
        is_descent = isinstance(method, Descent)
        run = method.run if is_descent else partial(run_stages, method)
        last, result = run(fit, problem, stages, start[order], fitted, lines, before)
        vars(self).update(fitted(result.x))
        self.kernel_ = kernel
        self._of_map = {
            "kernel": kernel,
            "dof": self.dof,
            "dtype": result.x.dtype.name,
        }
        return last, result

    def _finish(self, result, method, fit):
        """Store the fitted attributes of a result of `_run_stages`."""
        vars(self).pop("kl_divergence_", None)  # cached for an earlier map
        self._keep(method, result, fit)
        self.record_iterations_ = result.record_iterations
        fit.end()

    def _early_exaggeration(self, P, start):
        """The exaggeration of the early stage."""
        if (given := _set(self.early_exaggeration)) is not None:
            return given
        most = EARLY_EXAGGERATION[self._kernel()]
        return max(growing(P, start, most) if most > 1 else most, self.exaggeration)

    def _kernel(self):
        """The kernel to use."""
        return _set(self.kernel) or (
            "student-t" if self.n_components <= 3 else "gaussian"
        )

    def _method(self, n):
        """The method for n samples: the descent, or a solver with the estimator's
        parameters.

        With tol="auto" all iterations are made, because the learning rate must decrease
        to 0.
        """
        max_iter, tol = _set(self.max_iter), _set(self.tol)
        if self.solves_itself() and draws_nothing(self._kernel(), n, self.n_components):
            return Descent(max_iter, tol or 0.0)
        solver = get_solver("storm-c" if self.solves_itself() else self.solver)
        if self.tol == "auto" and not isinstance(solver, LBFGS):
            tol = 0.0
        if max_iter is not None:
            solver.set_params(max_iter=max_iter)
        if tol is not None:
            solver.set_params(tol=tol)
        solver.validate()
        return solver


def _set(value):
    """The value that a parameter was set to, or None if it is automatic."""
    return None if is_word(value, "auto") else value


def _as_map(x, order, dtype):
    """The centred embedding in the order of the samples, from the variables of a
    problem in another order."""
    points = x.reshape(len(order), -1)
    embedding = np.empty(points.shape, dtype)
    embedding[order] = points - points.mean(axis=0, dtype=float)
    return embedding
