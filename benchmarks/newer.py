"""Newer methods against the anchored rule: the tables of docs/newer.md (five minutes, one thread).

``python benchmarks/newer.py [all|sets|others|problems|generated|time]``. Needs the published sets at ../shared/data.
Passes are counted twice: IFO, by which a minibatch drawn once counts once, and component evaluations, both over
2 n_inner + n_outer. Runs are looked at every fortieth of a pass; five seeds, median / worst.
"""

import copy
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from sk_stormc import SARAHCompositional, minimize
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import SketchySTORM
from sk_stormc.engine.oracle import KINDS

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
REGIONS = ("Asia_Pacific_ex_Japan", "Europe", "Global", "Global_ex_US", "Japan", "North_America")
SETS = (*(f"french25_{region}_OP" for region in REGIONS), "gaussian_cov_20", "gaussian_cov_4")
GAPS, SEEDS, LIMIT = (1e-3, 1e-4), range(5), 100  # passes


# The candidates: each is the idea in the loop of a method that is here already


class LinearInner(SketchySTORM):
    """The anchored rule with u = u_0 + J (x - x_0), without the sketch."""

    def _sketch(self, oracle, x, size):
        return oracle.problem.metric


class SketchOnly(SketchySTORM):
    """The sketch, with u sampled as ever."""

    def init_state(self, oracle, x):
        s = super().init_state(oracle, x)
        s.origin = None
        return s


class BarzilaiBorwein(SARAHCompositional):
    """SVRG-BB (Tan et al. 2016): at a checkpoint eta = |dx|^2 / (K <dx, dF>), K the epoch's length."""

    def step(self, oracle, s):
        before = s.checkpoint
        super().step(oracle, s)
        if s.checkpoint is not before:
            dx, dF = s.checkpoint.x - before.x, s.checkpoint.F - before.F
            if dx @ dF > 0:
                s.learning_rate = float(dx @ (dx / oracle.problem.metric) / (dx @ dF)) / s.epoch_length


class GrowingCheckpoints(SARAHCompositional):
    """Practical SVRG (Harikandeh et al. 2015): checkpoints on n/8 components, then n/4, n/2 and all."""

    def init_state(self, oracle, x):
        eighth = oracle.problem.n_inner // 8
        self.checkpoint_batch_size = (eighth, None, eighth)
        return super().init_state(oracle, x)

    def step(self, oracle, s):
        if s.steps == 0:
            sizes = zip(KINDS, s.checkpoint_batch_size, strict=True)
            s.checkpoint_batch_size = tuple(
                None if b is None or 2 * b >= oracle.n_components(kind) else 2 * b for kind, b in sizes
            )
        super().step(oracle, s)


class Page(SARAHCompositional):
    """PAGE (Li et al. 2021): a checkpoint with probability B / (n + B)."""

    def step(self, oracle, s):
        s.steps = s.epoch_length if oracle.rng.random() * (s.epoch_length + 1) < 1 else 1
        super().step(oracle, s)


class TwoLoop:
    """L-BFGS's inverse Hessian, as a metric."""

    ndim = 2

    def __init__(self, scale, pairs):
        self.scale, self.pairs = scale, pairs

    def __matmul__(self, F):
        q, steps = F, []
        for s, y in reversed(self.pairs):
            steps.append(s @ q / (s @ y))
            q = q - steps[-1] * y
        s, y = self.pairs[-1]
        q = (s @ y) / (y @ (self.scale * y)) * self.scale * q
        for (s, y), step in zip(self.pairs, reversed(steps), strict=True):
            q = q + (step - y @ q / (s @ y)) * s
        return q


class StochasticLBFGS(SARAHCompositional):
    """Moritz, Nishihara & Jordan (2016): ten pairs (s, H s) of averages of ten iterates, H of 256 components."""

    rate = 0.01  # tuned, as the paper's is: the best of .003, .01, .03 and .1

    def solve(self, problem, x0=None, **kwargs):
        return super().solve(copy.copy(problem), x0, **kwargs)

    def init_state(self, oracle, x):
        self.recent, self.last, self.pairs, self.scale = [], None, [], oracle.problem.metric
        return super().init_state(oracle, x)

    def step(self, oracle, s):
        super().step(oracle, s)
        self.recent.append(s.x)
        if len(self.recent) < 10:
            return
        x, self.recent, last = np.mean(self.recent, axis=0), [], self.last
        self.last = x
        if last is not None:
            J, batch = oracle.exact_jacobian(x), oracle.draw("outer", 256)
            u = oracle.inner(x, oracle.draw("inner", 256))
            y = oracle.gradient(x, u, None, batch) - oracle.gradient(last, u + J @ (last - x), None, batch)
            if (x - last) @ y > 0:
                self.pairs = [*self.pairs[-9:], (x - last, y)]
                oracle.problem.metric, s.learning_rate = TwoLoop(self.scale, self.pairs), self.rate


# Measuring


def load(name):
    """Returns as fractions."""
    with np.load(DATA / f"{name}.npz") as file:
        return file["returns"] if "returns" in file else file["returns_bp"] / 1e4


def passes(problem, solver, best, scale, seed):
    """Passes to each gap, of shape (2 gaps, IFO or evaluations); inf where it is not reached."""
    n, found = 2 * problem.n_inner + problem.n_outer, []
    for gap in GAPS:  # from the start each time: not all of the candidates can be resumed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = minimize(
                problem, solver, random_state=seed, tol=0, max_ifo=LIMIT * n, record_every=n // 40,
                on_record=lambda record, gap=gap: record.fun - best <= gap * scale,
            )  # fmt: skip
        there = result.stop_reason == "callback"
        found.append([result.ifo[-1] / n, sum(result.n_evaluations.values()) / n] if there else [np.inf] * 2)
    return found


def measure(problem, solver, best, scale=None):
    """Median and worst over the seeds, of shape (2, 2 gaps, IFO or evaluations)."""
    runs = np.array([passes(problem, solver, best, scale or abs(best), seed) for seed in SEEDS])
    return np.array([np.median(runs, 0), runs.max(0)])


def row(name, problem, best, solvers, scale=None):
    """Print a line: for each solver and gap IFO median / worst, and in brackets evaluations, median."""
    cells = []
    for solver in solvers:
        median, worst = measure(problem, solver, best, scale)
        cells += [f"{median[k, 0]:5.2f} /{worst[k, 0]:5.2f} ({median[k, 1]:5.2f})" for k in range(len(GAPS))]
    print(f"{name:38}" + "  ".join(cells), flush=True)


def by_closed_form(R):
    """The problem of returns, in the assets' own scales, and its minimum."""
    problem = PortfolioProblem(R, metric="variance")
    return problem, problem.objective(np.linalg.solve(2 * np.cov(R.T, bias=True), R.mean(0)))


def variance(name):
    """The problem of a published set, and its minimum."""
    return by_closed_form(load(name))


def by_set():
    """Where the passes go: without, with one and with both of the changes."""
    print("\nstorm-c, linear u, sketch, both: each to 1e-3 and to 1e-4")
    for name in SETS:
        row(name, *variance(name), ["storm-c", LinearInner(), SketchOnly(), "sketchy-storm"])


def others():
    """The other candidates: the mean of the medians over the sets, and the worst run of all."""
    solvers = {
        "storm-c": "storm-c",
        "sarah-c": "sarah-c",
        "SVRG-BB": BarzilaiBorwein(),
        "growing checkpoints": GrowingCheckpoints(),
        "PAGE": Page(),
        "stochastic L-BFGS": StochasticLBFGS(),
        "sketchy-storm": "sketchy-storm",
        **{f"sketchy-storm, rank {r}": SketchySTORM(rank=r) for r in (5, 20)},
        **{f"sketchy-storm, sketch of {S}": SketchySTORM(sketch_batch_size=S) for S in (128, 1024)},
    }
    print("\nmean over the sets of medians (evaluations), worst run; to 1e-3 and to 1e-4")
    for name, solver in solvers.items():
        median, worst = np.swapaxes([measure(problem, solver, best) for problem, best in map(variance, SETS)], 0, 1)
        (ifo, evaluations), last = np.mean(median, 0).T, np.max(worst, 0)[:, 0]
        cells = [f"{ifo[k]:5.2f} ({evaluations[k]:5.2f}) {last[k]:5.2f}" for k in range(len(GAPS))]
        print(f"{name:38}" + "  ".join(cells), flush=True)


def by_lbfgs(problem):
    """A problem with its minimum, as L-BFGS finds it."""
    return problem, minimize(problem, "lbfgs", tol=1e-10, max_ifo=10**9).fun


def by_storm(problem):
    """A problem with its minimum, as a long run of the default finds it."""
    return problem, minimize(problem, "storm-c", tol=1e-12, max_ifo=10**8, random_state=9).fun


def problems():
    """Other objectives, penalties, few periods, no metric, Bellman."""
    rule = ["storm-c", "sketchy-storm"]
    print("\nstorm-c, sketchy-storm")
    for name in SETS:
        problem, best = variance(name)
        row(f"{name}, no metric", PortfolioProblem(problem.returns), best, rule)
    returns = {name: load(name) for name in SETS[:6]}
    returns["generated"] = make_gaussian_returns(2000, 40, mean=0.3, condition_number=20, random_state=0) - 0.2
    for risk_measure in ("semivariance", "entropic"):
        for name, R in returns.items():
            problem = PortfolioProblem(R, risk_measure=risk_measure, metric="variance")
            row(f"{name}, {risk_measure}", *by_lbfgs(problem), rule)
    for name in SETS[:6]:
        R = 100 * load(name)
        penalties = {"long only": Simplex(), "box": Box(-0.1, 0.1), "l1": L1(0.3 * np.abs(R.mean(0)).max())}
        for kind, penalty in penalties.items():
            row(f"{name}, {kind}", *by_storm(PortfolioProblem(R, penalty=penalty, metric="variance")), rule)
    for name in SETS[:6]:
        row(f"{name}, 500 periods", *by_lbfgs(PortfolioProblem(load(name)[-500:], metric="variance")), rule)
    for kind, n in (("dense", 400), ("garnet", 2000)):
        model = make_bellman_problem(n_states=n, n_features=100, kind=kind, random_state=0)
        for metric in ("auto", None):
            problem = model.problem()
            best = problem.objective(problem.minimizer())
            if metric is None:
                problem.metric = None
            scale = problem.objective(np.zeros(problem.n_variables)) - best
            row(f"Bellman, {kind}, metric {metric}", problem, best, rule, scale)


def generated():
    """Returns that no choice was made on: Gaussian ones, and assets with five common factors."""
    print("\nstorm-c, sketchy-storm")
    for n, d in ((3000, 20), (10_000, 40)):
        R = make_gaussian_returns(n, d, mean=0.1, condition_number=1000, random_state=0)
        row(f"Gaussian, condition 1000, {n} x {d}", *by_closed_form(R), ["storm-c", "sketchy-storm"])
    for n, d in ((5000, 50), (20_000, 100)):
        rng = np.random.default_rng(3)
        R = rng.normal(size=(n, 5)) * np.geomspace(3, 0.3, 5) @ rng.normal(size=(5, d))
        R += rng.normal(size=(n, d)) * rng.uniform(0.1, 1, d) + rng.normal(0.02, 0.05, d)
        row(f"five factors, {n} x {d}", *by_closed_form(R), ["storm-c", "sketchy-storm"])


def seconds():
    """CPU time of a default fit, the least of five."""
    print("\nCPU ms of a default fit: storm-c, sketchy-storm, lbfgs")
    for name in SETS:
        problem, times = variance(name)[0], []
        for solver in ("storm-c", "sketchy-storm", "lbfgs"):
            runs = []
            for seed in SEEDS:
                start = time.process_time()
                minimize(problem, solver, random_state=seed)
                runs.append(time.process_time() - start)
            times.append(1e3 * min(runs))
        print(f"{name:38}" + "  ".join(f"{t:6.1f}" for t in times), flush=True)


if __name__ == "__main__":
    if not DATA.is_dir():
        sys.exit("the published return sets are not at ../shared/data: nothing to measure")
    parts = {"sets": by_set, "others": others, "problems": problems, "generated": generated, "time": seconds}
    asked = sys.argv[1] if len(sys.argv) > 1 else "all"
    for part, run in parts.items():
        if asked in ("all", part):
            run()
