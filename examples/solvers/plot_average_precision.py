"""
A problem of your own: average precision
========================================

Average precision measures how well scores rank positive samples before negative ones.
The precision at a sample is a ratio of two averages over all samples, so that the
objective is an average of a function of averages. It is smooth if two samples are
compared by a squared hinge (Qi, Luo, Xu, Ji & Yang 2021).

This example classifies which of the handwritten digits are an eight.
"""

# %%
# The problem as functions
# ------------------------
# Each function returns the mean over the components whose indices are passed. The
# scores are linear, <a, x>. The inner value u has two averages over all samples j for
# each positive sample i: that of the squared hinges of positive samples, and that of
# all squared hinges. The outer function is minus the mean ratio of the two.
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from sk_stormc.problems import FiniteSumComposition, check_problem

A, digit = load_digits(return_X_y=True)
A = PCA(16, whiten=True, random_state=0).fit_transform(A)
A, A_new, is_eight, is_eight_new = train_test_split(
    A, digit == 8, test_size=0.4, random_state=0
)
P, y = A[is_eight], is_eight.astype(float)
m, RIDGE = len(P), 1e-3


def hinges(x, j):
    return np.maximum(1 - (P @ x)[:, None] + A[j] @ x, 0)


def inner(x, j):
    h = hinges(x, j) ** 2 / len(j)
    return np.stack([h @ y[j], h.sum(axis=1)], axis=1).ravel()


def inner_jacobian(x, j):
    h = 2 * hinges(x, j) / len(j)
    J = np.empty((m, 2, len(x)))
    for k, weights in enumerate((h * y[j], h)):
        J[:, k] = weights @ A[j] - weights.sum(axis=1)[:, None] * P
    return J.reshape(2 * m, -1)


def outer_gradient(x, u, i):
    u, f_u = u.reshape(m, 2), np.zeros((m, 2))
    np.add.at(f_u, i, np.stack([-1 / u[i, 1], u[i, 0] / u[i, 1] ** 2], axis=1) / len(i))
    return RIDGE * x, f_u.ravel()


def outer(x, u):
    return -np.mean(u[::2] / u[1::2]) + RIDGE * (x @ x) / 2


problem = FiniteSumComposition(
    inner, inner_jacobian, outer_gradient, outer,
    n_inner=len(A), n_outer=m, n_variables=A.shape[1], inner_floor=1e-12,
)  # fmt: skip
check_problem(problem)

# %%
# The minimisation
# ----------------
# ``check_problem`` has compared the derivatives with finite differences, and the
# batches with their components. The default solver needs no further information.
# Logistic regression, which minimises another loss, is fitted for comparison.
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from sk_stormc import minimize

result = minimize(problem, random_state=0)
print(result.stop_reason, f"{result.loss_curve[0]:.3f} -> {result.fun:.3f}")
logistic = LogisticRegression(C=10.0, class_weight="balanced", max_iter=1000).fit(
    A, is_eight
)
scores = {
    "trained on average precision": A_new @ result.x,
    "logistic regression": logistic.decision_function(A_new),
}

# %%
# The next block evaluates both on test data:
from matplotlib import pyplot as plt
from sklearn.metrics import PrecisionRecallDisplay

figure, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
for (name, score), style in zip(scores.items(), ("-", "--"), strict=True):
    found = average_precision_score(is_eight_new, score)
    print(f"{name:29} {found:.3f}")
    PrecisionRecallDisplay.from_predictions(
        is_eight_new, score, name=name, ax=ax, curve_kwargs={"linestyle": style}
    )
ax.set(
    title="classification of eights, 719 test digits",
    xlabel="recall",
    ylabel="precision",
)
plt.show()
