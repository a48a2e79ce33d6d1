"""Why no test notices some changes, by file and change: the code does the same with them, or about the same."""

COMPOSITION = "sk_stormc/core/composition.py"
REASONS = {
    (COMPOSITION, "np.abs(up_2).max(initial=np.abs(u).max())", "(np.abs(up_2).min(initial=np.abs(u).max()))"): (
        "the size of u in a bound of rounding, which has a factor of 100 to spare"
    ),
    ("sk_stormc/core/metrics.py", "_check_low_rank(metric, n_variables)", "pass"): (
        "`tests/core/test_metrics.py`, which is newer than this measurement, does"
    ),
    ("sk_stormc/core/schedules.py", "True", "False"): "a schedule could be changed in place, which nothing does",
}
