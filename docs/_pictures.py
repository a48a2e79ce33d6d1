"""The pictures of the landing page and a page of a map, made by the version whose site
is built."""

from contextlib import chdir
from pathlib import Path
from time import process_time

import numpy as np
from _pages import BLOCK
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

from sk_stormc import (
    BellmanValueEstimator,
    CompositionalPortfolio,
    SNEEmbedding,
    minimize,
)
from sk_stormc.datasets import MarkovRewardProcess, make_gaussian_returns
from sk_stormc.plotting import EmbeddingDisplay, FrontierDisplay
from sk_stormc.problems import LogMeanExpProblem

SIDE = 15  # of the grid of states
N_WORKERS = 4


def draw_map(ax):
    """All digits of scikit-learn, in colours by the digit."""
    X, digit = load_digits(return_X_y=True)
    EmbeddingDisplay(SNEEmbedding(random_state=0).fit_transform(X), y=digit).plot(
        ax, legend=False, s=4
    )


def draw_frontier(ax):
    """Six assets and the portfolios that are best among them."""
    returns = make_gaussian_returns(
        1500, 6, mean=np.linspace(0.02, 0.2, 6), condition_number=5, random_state=0
    )
    portfolio = CompositionalPortfolio(constraint="long_only", random_state=0)
    FrontierDisplay.from_estimator(portfolio, returns, ax=ax)


def draw_values(ax):
    """A random walk among walls to a goal, valued from its log."""
    wall = np.zeros((SIDE, SIDE), dtype=bool)
    wall[4, :10] = wall[10, 5:] = True
    free = np.argwhere(~wall)
    number = np.full((SIDE + 2, SIDE + 2), -1)
    number[1:-1, 1:-1][~wall] = np.arange(len(free))
    P, goal = np.zeros((len(free), len(free))), len(free) - 1
    for state, (row, column) in enumerate(free + 1):
        for beside in (
            (row - 1, column),
            (row + 1, column),
            (row, column - 1),
            (row, column + 1),
        ):
            P[state, number[beside] if number[beside] >= 0 else state] += 0.25
    P[goal] = np.arange(len(free)) == goal
    rewards = np.zeros_like(P)
    rewards[:goal, goal] = 1.0
    model = MarkovRewardProcess(P, rewards, gamma=0.999)
    log = model.transitions(100_000, random_state=0)
    value = BellmanValueEstimator(0.999, solver="lstd").fit(
        log.X, log.y, next_X=log.next_X, terminal=log.terminal
    )
    picture = np.full((SIDE, SIDE), np.nan)
    picture[~wall] = np.where(
        np.arange(len(free)) == goal, 1.0, value.predict(np.eye(len(free)))
    )
    ax.imshow(picture, cmap="YlGnBu")
    ax.set(xticks=[], yticks=[], facecolor="0.5")


class RobustLine(LogMeanExpProblem):
    """Squared losses of a line, robust in a Kullback-Leibler ball."""

    def __init__(self, A, b, temperature):
        self.A, self.b, self.scale = A, b, temperature
        self.n_inner, self.n_variables = A.shape

    def gather(self, draws):
        """The rows."""
        return (self.A, self.b) if draws is None else (self.A[draws], self.b[draws])

    def exponents(self, x, rows):
        """The losses over the temperature."""
        A, b = rows
        return (A @ x - b) ** 2 / self.scale

    def exponent_gradient(self, x, rows, p):
        """A weighted sum of their gradients."""
        A, b = rows
        return 2 / self.scale * (p * (A @ x - b)) @ A


def draw_objective(ax):
    """A line of least mean loss, and one that is robust for a minority of points."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 300)
    few = np.arange(300) < 30
    y = np.where(few, 1.5 - 1.5 * x, x) + 0.15 * rng.normal(size=300)
    A = np.c_[x, np.ones(300)]
    robust = minimize(RobustLine(A, y, temperature=0.7), "lbfgs").x
    for group, color in ((~few, "C0"), (few, "C1")):
        ax.scatter(x[group], y[group], s=5, color=color)
    ends = np.array([-1, 1])
    for line, label, style in (
        (np.polyfit(x, y, 1), "least mean loss", "--"),
        (robust, "KL-robust", "-"),
    ):
        ax.plot(ends, np.polyval(line, ends), style, color="k", label=label)
    ax.legend()
    ax.set(xticks=[], yticks=[])


def draw_clusters(axes):
    """A map of a sample, in which each worker places its own rows."""
    X, digit = load_digits(return_X_y=True)
    known = SNEEmbedding(random_state=0).fit(X[::4])
    rest = np.setdiff1d(np.arange(len(X)), np.arange(0, len(X), 4))
    shown = np.array_split(rest, N_WORKERS)
    for k, (ax, rows) in enumerate(zip(axes, shown, strict=True), start=1):
        ax.scatter(*known.embedding_.T, s=4, color="0.8")
        ax.scatter(*known.transform(X[rows]).T, c=digit[rows], s=6, cmap="tab10")
        ax.set(xticks=[], yticks=[], title=f"rows of worker {k}")


def draw_all(folder):
    """Write a picture of each card, and card.png, which has three of them side by
    side."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    drawings = {"map": draw_map, "frontier": draw_frontier, "values": draw_values}
    drawings |= {"objective": draw_objective}
    for name, draw in drawings.items():
        figure, ax = plt.subplots(figsize=(4, 3), layout="constrained")
        draw(ax)
        figure.savefig(folder / f"{name}.png", dpi=150)
        plt.close(figure)
    figure, axes = plt.subplots(1, N_WORKERS, figsize=(12, 2.6), layout="constrained")
    draw_clusters(axes)
    figure.savefig(folder / "clusters.png", dpi=100)
    plt.close(figure)
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.5), layout="constrained")
    figure.suptitle(
        "sk_stormc: maps, portfolios and values of states, with scikit-learn's "
        "interface",
        fontsize=20,
    )
    for ax, name in zip(axes, ("map", "frontier", "values"), strict=True):
        ax.imshow(plt.imread(folder / f"{name}.png"))
        ax.axis("off")
    figure.savefig(folder / "card.png", dpi=100)
    plt.close(figure)


def write_map(page, folder):
    """Run the blocks of a page of the guide up to the one that writes a map into the
    working directory, which is this folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text, names = Path(page).read_text(encoding="utf-8"), {}
    with chdir(folder):
        for _, _, code in BLOCK.findall(text[: text.index("{raw} html")]):
            exec(compile(code, str(page), "exec"), names)


def draw_uses(guide, folder):
    """Write the figures of the README: a backtest and a comparison of policies, which
    pages of the guide compute, and a robust fit."""
    drawn = {"walk_forward": "results", "off_policy": "found"}
    for page, result in drawn.items():
        text, names = (Path(guide) / f"{page}.md").read_text(encoding="utf-8"), {}
        code = BLOCK.search(text)[3]
        began = process_time()
        exec(compile(code, page, "exec"), names)
        print(f"{page}: {process_time() - began:.1f} CPU s")
        figure = names[result].plot().figure_
        figure.savefig(Path(folder) / f"use_{page}.png", dpi=80)
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    began = process_time()
    draw_objective(ax)
    print(f"robust fit: {process_time() - began:.2f} CPU s, with its drawing")
    figure.savefig(Path(folder) / "use_robust_fit.png", dpi=80)


if __name__ == "__main__":
    draw_uses("docs/guide", "docs/images")
