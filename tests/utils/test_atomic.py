"""Files that are written as a whole: what stays on the disk when a process dies while
it writes."""

import os
import signal
import subprocess
import sys

import pytest

from sk_stormc.utils.atomic import atomically

WRITES_AND_WAITS = """
import sys, time
from sk_stormc.utils.atomic import atomically
with atomically(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path):
    """A process that is in the middle of writing run.npz."""
    command = [sys.executable, "-c", WRITES_AND_WAITS, str(tmp_path / "run.npz")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writing\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.skipif(os.name != "posix", reason="locks, and kill -9")
def test_what_a_process_has_left_is_removed_once_it_is_dead(writer, tmp_path):
    path, others = tmp_path / "run.npz", tmp_path / "run.npz-0.abc.part"
    others.write_bytes(b"")  # of another file
    with atomically(path) as file:
        file.write(b"ours")
    theirs = {*tmp_path.iterdir()} - {path, others}
    assert [part.read_bytes() for part in theirs] == [b"half"]
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert path.read_bytes() == b"ours"
    with atomically(path) as file:
        file.write(b"after")
    assert path.read_bytes() == b"after" and {*tmp_path.iterdir()} == {path, others}


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "run.npz"
    path.write_bytes(b"before")
    with pytest.raises(RuntimeError), atomically(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"before"]
