"""Four objectives in a few lines each, with derivatives by JAX: ``GALLERY`` maps names
to makers of their parts.

A maker takes a number of rows and returns the arguments of `DifferentiableComposition`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from benchmarks.gallery_problems import labels


def logistic(x, row):
    features, y = row
    return jnp.logaddexp(0, -y * (features @ x))


def robust_logistic(n=20_000, temperature=1.0):
    """Logistic regression that is robust in a Kullback-Leibler ball: T log mean
    exp(loss_j / T)."""
    rows = labels(0, n)
    return {
        "inner": lambda x, row: jnp.exp(logistic(x, row) / temperature),
        "outer": lambda x, u, row: temperature * jnp.log(u) + 1e-3 * (x @ x) / 2,
        "inner_data": rows,
        "x0": np.zeros(rows[0].shape[1]),
        "inner_floor": 1e-12,
    }


def mean_and_semideviation(n=20_000, width=0.1):
    """The mean of a loss, and its mean deviation above the mean, smoothed within a
    width."""

    def outer(x, u, row):
        above = logistic(x, row) - u
        return (
            logistic(x, row)
            + (above + jnp.hypot(above, width)) / 2
            + 1e-3 * (x @ x) / 2
        )

    rows = labels(0, n)
    return {
        "inner": logistic,
        "outer": outer,
        "inner_data": rows,
        "outer_data": rows,
        "x0": np.zeros(rows[0].shape[1]),
    }


def neighbourhood_components(n=1200, n_components=2):
    """The mean probability that a digit is assigned its class by a soft neighbour,
    negative.

    A row j of g is one digit, compared with all. Of each digit i, u has the mean of its
    kernel to those of its class and to all, without itself.
    """
    A, y = load_digits(return_X_y=True)
    A, y = PCA(16, whiten=True, random_state=0).fit_transform(A[:n]), y[:n]

    def inner(x, row):
        a, label, j = row
        kernel = jnp.exp(-(((A - a) @ x) ** 2).sum(axis=1)) * (jnp.arange(len(A)) != j)
        return {"class": kernel * (label == y), "all": kernel}

    def outer(x, u, i):
        return -u["class"][i] / (u["all"][i] + 1e-6)

    index = np.arange(len(A))
    x0 = 0.3 * np.eye(16)[:, :n_components]
    return {
        "inner": inner, "outer": outer, "inner_data": (A, y, index),
        "outer_data": index, "x0": x0, "inner_floor": 0.0
    }  # fmt: skip


def one_step_meta_learning(n=5000, n_tasks=10, d=5, rate=0.3):
    """A start x from which one gradient step serves each of ten tasks, of one tanh
    neuron each.

    u has the points after the step, of shape (n_tasks, d). A row is one sample of every
    task.
    """
    rng = np.random.default_rng(0)
    truth = rng.normal(size=d) + 0.4 * rng.normal(size=(n_tasks, d))
    support, query = rng.normal(size=(2, n, n_tasks, d))
    noise = 0.2 * rng.normal(size=(2, n, n_tasks))
    support_y, query_y = (
        np.tanh((rows * truth).sum(-1)) + e
        for rows, e in zip((support, query), noise, strict=True)
    )

    def loss(w, a, y):
        return (jnp.tanh(a @ w) - y) ** 2 / 2

    def inner(x, row):
        return jax.vmap(lambda a, y: x - rate * jax.grad(loss)(x, a, y))(*row)

    def outer(x, u, row):
        return jax.vmap(loss)(u, *row).mean()

    return {
        "inner": inner,
        "outer": outer,
        "inner_data": (support, support_y),
        "outer_data": (query, query_y),
        "x0": np.zeros(d),
    }


def semideviation_of(loss, n, d, x0):
    """The mean of a loss of rows and its mean deviation above the mean, smoothed, on
    generated rows."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(n, d))
    y = np.sign(A @ rng.normal(size=d) + rng.normal(size=n))

    def outer(x, u, row):
        above = loss(x, row) - u
        return loss(x, row) + (above + jnp.hypot(above, 0.1)) / 2 + 1e-3 * (x @ x) / 2

    return {
        "inner": loss,
        "outer": outer,
        "inner_data": (A, y),
        "outer_data": (A, y),
        "x0": x0,
    }


def logistic_of(n, d):
    """A linear classifier."""
    return semideviation_of(logistic, n, d, np.zeros(d))


def network_of(n, d, width):
    """A network with one hidden layer, whose weights are one flat array."""

    def loss(x, row):
        features, y = row
        W, v = x[: d * width].reshape(d, width), x[d * width :]
        return (jnp.tanh(features @ W) @ v - y) ** 2

    x0 = np.random.default_rng(1).normal(size=(d + 1) * width) / np.sqrt(d)
    return semideviation_of(loss, n, d, x0)


FULL = {
    "linear, 5,000 x 20": lambda: logistic_of(5000, 20),
    "linear, 200,000 x 20": lambda: logistic_of(200_000, 20),
    "linear, 2,000 x 500": lambda: logistic_of(2000, 500),
    "network, 40,000 x 64, 2,080 variables": lambda: network_of(40_000, 64, 32),
}

GALLERY = {
    "robust logistic": robust_logistic,
    "mean and semideviation": mean_and_semideviation,
    "neighbourhood components": neighbourhood_components,
    "one-step meta-learning": one_step_meta_learning,
}


def on_all_data(inner, outer, inner_data=None, outer_data=None, x0=None, **kwargs):
    """Phi and its gradient as one compiled function of the flat x, as one would write
    it for L-BFGS.

    x0 is an array here.
    """

    def mean(function, data):
        return (
            function(None)
            if data is None
            else jax.tree.map(lambda v: v.mean(0), jax.vmap(function)(data))
        )

    def phi(
        flat, inner_data, outer_data
    ):  # data that are no arguments would be folded into constants
        x = flat.reshape(x0.shape)
        u = mean(lambda row: inner(x, row), inner_data)
        return mean(lambda row: outer(x, u, row), outer_data)

    compiled = jax.jit(jax.value_and_grad(phi))
    with jax.enable_x64(True):
        same = outer_data is inner_data
        inner_data = jax.device_put(inner_data)
        outer_data = inner_data if same else jax.device_put(outer_data)

    def value_and_gradient(flat):
        with jax.enable_x64(True):
            value, gradient = compiled(flat, inner_data, outer_data)
            return float(value), np.asarray(gradient)

    return value_and_gradient
