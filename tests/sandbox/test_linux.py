"""The kernel's calls do what their names say, and say what they could not do."""

import os
import signal
import time
from pathlib import Path

import pytest

from harness.sandbox import fork_entry, linux
from harness.sandbox.box import WORKER_UID, BoxSpec, Limits

from .forks import in_a_fork

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: nobody else can be become")
CAP_DAC_READ_SEARCH = 1 << 2


def status(name: str) -> int:
    """A field of capabilities of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(dict(line.split(":\t", 1) for line in lines)[name], 16)


@needs_root
def test_another_user_is_become_for_good() -> None:
    def step() -> list[object]:
        linux.become_user(WORKER_UID)
        linux.become_readable()
        try:
            os.setuid(0)
        except PermissionError:
            return [*os.getresuid(), *os.getresgid(), os.getgroups(), status("CapPrm")]
        return []

    assert in_a_fork(step) == [WORKER_UID] * 6 + [[], 0]


@needs_root
def test_reading_may_be_kept_and_nothing_else(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").write_text("text")

    def step() -> list[object]:
        linux.become_user(WORKER_UID, 1 << linux.CAP_DAC_READ_SEARCH)
        linux.become_readable()
        try:
            (closed / "other").touch()
        except PermissionError:
            return [(closed / "file").read_text(), status("CapEff"), status("CapPrm")]
        return []

    assert in_a_fork(step) == ["text", CAP_DAC_READ_SEARCH, CAP_DAC_READ_SEARCH]


@needs_root
def test_nothing_is_left_after_a_drop() -> None:
    def step() -> list[int]:
        fork_entry.drop_privileges(BoxSpec(("uid",), Limits(), "", ""))
        linux.become_readable()
        return [status(name) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]

    assert in_a_fork(step) == [0] * 5


def test_an_unreadable_process_is_closed_to_its_own_user() -> None:
    def step() -> list[bool]:
        linux.become_unreadable()
        hidden = Path("/proc/self/environ").stat().st_uid
        linux.become_readable()
        return [hidden == 0, Path("/proc/self/environ").stat().st_uid == os.geteuid()]

    assert in_a_fork(step) == [True, True]


def test_a_child_dies_with_its_parent() -> None:
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:
        here = os.pidfd_open(os.getpid())
        if os.fork() == 0:
            linux.die_with_parent(here)
            os.write(write, b".")
            time.sleep(60)
        os.read(read, 1)
        os._exit(0)
    os.waitpid(parent, 0)
    os.close(write)
    # The pipe ends when the last process that may write to it has ended.
    assert os.read(read, 1) == b""
    os.close(read)


def test_a_child_that_comes_too_late_does_not_live() -> None:
    gone = os.fork()
    if gone == 0:
        signal.pause()
    pidfd = os.pidfd_open(gone)
    os.kill(gone, signal.SIGKILL)
    os.waitpid(gone, 0)
    late = os.fork()
    if late == 0:
        linux.die_with_parent(pidfd)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(late, 0)[1]) == 1
    os.close(pidfd)


def test_only_named_descriptors_are_kept() -> None:
    def step() -> list[int]:
        files = [os.open("/dev/null", os.O_RDONLY) for _ in range(6)]
        linux.keep_descriptors([files[1], files[4], -1])
        return [files.index(one) for one in files if Path(f"/proc/self/fd/{one}").exists()]

    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(write, 2)
        os.write(2, repr(step()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 100) == b"[1, 4]"
    os.close(read)
    os.close(write)


def test_a_refusal_says_what_was_tried(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    with pytest.raises(OSError, match=f"mount tmpfs at {absent}"):
        linux.mount("tmpfs", absent, "tmpfs")
