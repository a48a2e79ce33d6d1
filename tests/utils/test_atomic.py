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


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_the_next_write_removes_what_a_killed_process_has_left(writer, tmp_path):
    path = tmp_path / "run.npz"
    path.write_bytes(b"before")
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert path.read_bytes() == b"before" and len(list(tmp_path.iterdir())) == 2
    others = tmp_path / "run.npz-0.abc.part"  # of another file
    others.write_bytes(b"")
    with atomically(path) as file:
        file.write(b"after")
    assert path.read_bytes() == b"after" and sorted(tmp_path.iterdir()) == [
        path,
        others,
    ]


@pytest.mark.skipif(os.name != "posix", reason="locks")
def test_a_process_that_still_writes_is_left_alone(writer, tmp_path):
    path = tmp_path / "run.npz"
    with atomically(path) as file:
        file.write(b"ours")
    assert path.read_bytes() == b"ours"
    (theirs,) = tmp_path.glob("*.part")
    assert theirs.read_bytes() == b"half"


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "run.npz"
    path.write_bytes(b"before")
    with pytest.raises(RuntimeError), atomically(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"before"]
