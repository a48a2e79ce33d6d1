"""Jobs in forks of a process that has imported what is heavy, with a package of their own."""

import contextlib
import importlib
import multiprocessing
import os
import resource
import sys
from importlib.machinery import SourceFileLoader
from multiprocessing.connection import wait
from pathlib import Path

from benchmarks._tables import ROOT

__all__ = ["load_by", "run_forked"]

HEAVY = ("pandas", "hypothesis.strategies", "matplotlib.pyplot", "scipy.stats", "sklearn.utils.estimator_checks")


def load_by(code_of):
    """Let modules be loaded from ``code_of(path)``, where that is not None."""
    plain = SourceFileLoader.get_code
    SourceFileLoader.get_code = lambda loader, name: code_of(loader.path) or plain(loader, name)


def run_forked(jobs, at_once, keep=lambda job, status: None):
    """Call each job in a fork of its own, so many at once; ``keep(job, status)`` is told how each ended."""
    for name in HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    fork, waiting, running = multiprocessing.get_context("fork"), list(reversed(jobs)), {}
    while waiting or running:
        while waiting and len(running) < at_once:
            job = waiting.pop()
            process = fork.Process(target=alone, args=(job,))
            process.start()
            running[process.sentinel] = process, job
        for sentinel in wait(list(running)):
            process, job = running.pop(sentinel)
            process.join()
            keep(job, process.exitcode)


def alone(job):
    """Call a job where the package is that of its tree, in silence and with a limit of CPU time."""
    os.nice(max(0, 10 - os.nice(0)))
    if job.limit is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(job.limit), int(job.limit) + 10))
    if job.tree is not None:
        leave_for(job.tree)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os._exit(int(job()))


def leave_for(tree):
    """Let what is imported from here on be that of a tree."""
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    sys.path[:] = [str(tree), *(entry for entry in sys.path if entry and Path(entry).resolve() != ROOT)]
    for name in [name for name in sys.modules if name.split(".")[0] in ("sk_stormc", "benchmarks", "tests")]:
        del sys.modules[name]
