"""A larger data set made from scikit-learn's digits."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from sk_stormc.utils.parameters import check_int, seeded
from sk_stormc.utils.types import Array, FloatArray, RandomState


def make_augmented_digits(
    n_samples: int = 20_000, *, random_state: RandomState = None
) -> tuple[FloatArray, Array]:
    """Augment scikit-learn's 1797 digits with shifted, scaled and noisy copies.

    The first 1797 samples are the digits themselves. Each further sample is a digit
    drawn at random. With probability 0.35 it is rolled by -1, 0 or 1 pixels along both
    axes. It is then multiplied by a number between 0.85 and 1.1. Normal noise with a
    standard deviation of 1 is added, and the result is clipped to [0, 17].

    Parameters
    ----------
    n_samples : int, default=20000
        Number of samples, at least 1. Up to 1797, only the first digits are returned.
    random_state : int, RandomState instance or None, default=None
        Pass an int for reproducible output across calls.

    Returns
    -------
    X : ndarray of shape (n_samples, 64)
        Pixel intensities from 0 to 17, as float64.
    y : ndarray of shape (n_samples,)
        The digits 0 to 9.

    Raises
    ------
    ValueError
        If `n_samples` is out of its range.

    Examples
    --------
    >>> from sk_stormc.datasets import make_augmented_digits
    >>> X, y = make_augmented_digits(3000, random_state=0)
    >>> X.shape, float(X.min()), float(X.max())
    ((3000, 64), 0.0, 17.0)
    """
    check_int("n_samples", n_samples, low=1)
    rng = seeded(random_state)
    images, y = load_digits(return_X_y=True)
    n_more = max(0, n_samples - len(images))
    which = rng.randint(len(images), size=n_more)
    more = images[which].reshape(-1, 8, 8)
    rolled = rng.random_sample(n_more) < 0.35
    down, right = rng.randint(-1, 2, size=(2, n_more)) * rolled
    # row and column from which each pixel is copied
    row = (np.arange(8) - down[:, None]) % 8
    column = (np.arange(8) - right[:, None]) % 8
    more = more[np.arange(n_more)[:, None, None], row[:, :, None], column[:, None, :]]
    more = more * rng.uniform(0.85, 1.1, size=(n_more, 1, 1)) + rng.standard_normal(
        more.shape
    )
    X = np.vstack([images, np.clip(more, 0, 17).reshape(n_more, 64)])
    return X[:n_samples], np.concatenate([y, y[which]])[:n_samples]
