"""
A problem of your own: average precision
========================================

Average precision says how well scores rank positives before negatives. A sample's precision is a ratio of two averages
over all samples, so that the objective is an average of a function of averages. It is smooth if the comparison of two
samples is a squared hinge (Qi, Luo, Xu, Ji & Yang 2021).

Which of the handwritten digits are an eight?
"""

# %%
# The problem as functions
# ------------------------
# Each function returns the mean over the components whose numbers it is given. The scores are linear, <a, x>. The inner
# value u has two averages for each positive i: over all samples j the mean of the hinge, and the part of it that comes
# from positives. The outer function is minus the mean ratio of the two.
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
# Minimise it
# -----------
# ``check_problem`` compared derivatives with differences, and batches with their components. The default solver needs
# nothing else. Logistic regression is beside it, which minimises another loss.
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
# On digits that neither has seen:
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
    title="which digit is an eight? 719 new digits", xlabel="recall", ylabel="precision"
)
plt.show()
