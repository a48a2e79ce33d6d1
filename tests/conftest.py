"""Settings and fixtures of all tests."""

import gc
import importlib.util
import os
import signal
import sys
import warnings

import pytest
from threadpoolctl import threadpool_limits

for library in (
    "OMP",
    "OPENBLAS",
    "MKL",
):  # a thread for each worker of pytest-xdist, and for processes of tests
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
threadpool_limits(1)  # pytest has imported NumPy to read the filters of warnings


@pytest.hookimpl(hookwrapper=True)
def pytest_collection(session):
    """All of the thousands of tests are kept: to look for garbage among them takes
    seconds of each worker."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def warnings_of_a_process_have_been_given():
    """A warning that is given once in a process would come in another test with every
    order of the tests."""
    from sk_stormc.portfolio.constraints import warn_of_no_constraint

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warn_of_no_constraint()


@pytest.fixture(autouse=True)
def default_handler_of_ctrl_c():
    """Workers of pytest-xdist leave SIGINT to their parent; tests of Ctrl-C need
    Python's own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def cluster():
    """A cluster of two processes."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        2, threads_per_worker=1, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """A client of the cluster."""
    from distributed import Client

    with Client(cluster) as client:
        yield client


if importlib.util.find_spec("sklearn.callback") is None:  # before scikit-learn 1.9

    @pytest.fixture(autouse=True)
    def skip_tests_of_callbacks(monkeypatch):
        """Where a fit would warn that callbacks are off, there is nothing to test."""
        monkeypatch.setattr(
            "sk_stormc.fitting.compat.say_that_they_are_off",
            lambda: pytest.skip("no callbacks"),
        )


@pytest.fixture(autouse=True)
def close_figures():
    """Workers of pytest-xdist run tests of many files, and pyplot warns at more than
    twenty open figures."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
