"""CompositionalPortfolio beside skfolio: its walk-forward splits choose the risk aversion, its Portfolio reports."""

import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV

from sk_stormc import CompositionalPortfolio, make_sharpe_scorer
from sk_stormc.datasets import make_gaussian_returns

try:
    from skfolio import Portfolio
    from skfolio.model_selection import WalkForward
except ImportError:
    raise SystemExit("this example needs skfolio: pip install 'sk_stormc[portfolio]'") from None

names = [f"asset {k}" for k in range(8)]
days = pd.bdate_range("2020-01-01", periods=1000)
mean = np.linspace(0.0002, 0.0012, 8)
market = make_gaussian_returns(1000, 8, mean=0.0, condition_number=4, random_state=0)
X = pd.DataFrame(mean + 0.01 * market, columns=names, index=days)
past, future = X[:750], X[750:]

search = GridSearchCV(
    CompositionalPortfolio(risk_measure="evar", constraint=(0.0, 0.4), budget=1.0, random_state=0),
    {"risk_aversion": [0.02, 0.1, 0.5, np.inf]},
    scoring=make_sharpe_scorer(),
    cv=WalkForward(train_size=250, test_size=125),
).fit(past)
weights = search.best_estimator_.named_weights()
print(f"risk_aversion {search.best_params_['risk_aversion']}, of {len(search.cv_results_['params'])}")
print(weights.round(3).to_string())

held = Portfolio(future, weights=weights.to_numpy(), name="least EVaR")
print(held.summary()[["Annualized Mean", "Annualized Standard Deviation", "CVaR at 95%", "EVaR at 95%"]].to_string())
