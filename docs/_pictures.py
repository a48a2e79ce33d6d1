"""The pictures of the landing page, drawn by the version whose site is built."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio, SNEEmbedding
from sk_stormc.datasets import MarkovRewardProcess, make_gaussian_returns
from sk_stormc.plotting import EmbeddingDisplay, FrontierDisplay

SIDE = 15  # of the grid of states


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
    ax.imshow(picture, cmap="viridis")
    ax.set(xticks=[], yticks=[], facecolor="0.3")


def draw_all(folder):
    """Write map.png, frontier.png and values.png, and card.png, which has the three
    side by side."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    drawings = {"map": draw_map, "frontier": draw_frontier, "values": draw_values}
    for name, draw in drawings.items():
        figure, ax = plt.subplots(figsize=(4, 3), layout="constrained")
        draw(ax)
        figure.savefig(folder / f"{name}.png", dpi=150)
        plt.close(figure)
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.5), layout="constrained")
    figure.suptitle(
        "sk_stormc: maps, portfolios and values of states, with scikit-learn's "
        "interface",
        fontsize=20,
    )
    for ax, name in zip(axes, drawings, strict=True):
        ax.imshow(plt.imread(folder / f"{name}.png"))
        ax.axis("off")
    figure.savefig(folder / "card.png", dpi=100)
    plt.close(figure)
