"""
Treatment rules, compared by a log of patients
==============================================

Physicians treat patients day by day until they recover or die. A log of what they did
can also tell what other rules would have achieved, without trying these on patients.
This example compares three rules by one log. The patients are simulated, so that the
values of the rules are known.
"""

# %%
# A log of patients
# -----------------
# Each row is a day of a patient. The state has the severity of the illness and the age.
# The physicians give a drug more often to severe cases. The drug lowers the severity,
# less so in old patients, whom it harms if they are not severely ill. A day costs a
# little, a recovery has the reward 1, and a death -1. Patients leave the study after 10
# days: their episodes are cut off, and ``dead_or_recovered`` is then False.
import numpy as np
import pandas as pd

GAMMA = 0.97


def clinicians(states):
    """The probability of the drug, as the physicians give it."""
    return 1 / (1 + np.exp(2.5 - 0.5 * states["severity"]))


def patients(n, chance_of_drug, rng, n_days=10):
    """The days of n patients under a rule."""
    severity, age = rng.uniform(2, 8, n), rng.uniform(30, 90, n)
    patient, days = np.arange(n), []
    for day in range(n_days):
        states = pd.DataFrame({"severity": severity, "age": age})
        drug = rng.random(len(states)) < chance_of_drug(states)
        old = age > 65
        effect = np.where(old, np.where(severity > 5, -0.4, 0.9), -1.0)
        after = severity + 0.1 + effect * drug + rng.normal(size=len(states))
        recovered, dead = after < 1, after > 9
        states["patient"], states["day"] = patient, day
        states["drug"] = np.where(drug, "drug", "none")
        states["reward"] = 1.0 * recovered - dead - 0.02 - 0.02 * drug
        states["dead_or_recovered"] = recovered | dead
        states["severity_after"], states["age_after"] = after, age
        days.append(states)
        goes_on = ~(recovered | dead)
        severity, age, patient = after[goes_on], age[goes_on], patient[goes_on]
    return pd.concat(days)


log = patients(1500, clinicians, np.random.default_rng(0))
print(log.head().round(2).to_string(index=False))

# %%
# Three rules, in one table
# -------------------------
# A rule is a function of the states: it returns the actions or, as here, the
# probabilities of "drug" and "none", in sorted order. A rule that never agrees with the
# physicians could not be evaluated, so that these rules are not strict. The log has no
# probabilities with which the physicians acted; a logistic regression estimates them. Q
# is not linear in the severity, so that its features are splines.
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

from sk_stormc import ActionValueEstimator, compare_policies


def rule(applies):
    """The drug with probability 0.8 where the rule applies, and 0.2 elsewhere."""

    def policy(states):
        drug = np.where(applies(states), 0.8, 0.2)
        return np.column_stack([drug, 1 - drug])

    return policy


rules = {
    "everybody": rule(lambda states: states["severity"] > -np.inf),
    "severe cases": rule(lambda states: states["severity"] > 5),
    "severe or young": rule(
        lambda states: (states["severity"] > 5) | (states["age"] < 65)
    ),
}
features = make_pipeline(SplineTransformer(n_knots=4), PolynomialFeatures(2))
found = compare_policies(
    log,
    rules,
    state=["severity", "age"],
    action="drug",
    episode="patient",
    time="day",
    terminal="dead_or_recovered",
    next_state=["severity_after", "age_after"],
    classifier=make_pipeline(StandardScaler(), LogisticRegression()),
    gamma=GAMMA,
    estimator=ActionValueEstimator(features=features, alpha=1e-6),
)
print(found)

# %%
# The differences to the physicians are known better than the values, because the same
# patients are in both. The method "wdr" adds the model's value of the last day of
# patients who left the study, and so does the row "behaviour".
from matplotlib import pyplot as plt

display = found.plot()

# %%
# The true values
# ---------------
# Simulations of many patients without the end of the study give the values of the
# rules. The crosses should be within nearly all of the intervals.
chances = {"behaviour": clinicians} | {
    name: lambda states, policy=policy: policy(states)[:, 0]
    for name, policy in rules.items()
}
truth = {}
for name in found.values:
    days = patients(20_000, chances[name], np.random.default_rng(1), n_days=150)
    truth[name] = (GAMMA ** days["day"] * days["reward"]).sum() / 20_000
print({name: round(value, 3) for name, value in truth.items()})

display = found.plot()
values, differences = display.axes_
for row, value in enumerate(truth.values()):
    values.plot(value, row, "xk", markersize=9)
    differences.plot(value - truth["behaviour"], row, "xk", markersize=9)
plt.show()
