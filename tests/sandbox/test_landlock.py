"""Landlock leaves within reach what it is told to, and nothing else."""

import errno
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.sandbox import linux, walls
from harness.sandbox.linux import AllowedPaths

from .forks import in_a_fork

pytestmark = pytest.mark.skipif(
    linux.landlock_version() < linux.LANDLOCK_VERSION_MIN,
    reason=f"Landlock {linux.landlock_version()}, at least {linux.LANDLOCK_VERSION_MIN} is needed",
)


def refused(step: Callable[[], object]) -> str:
    """The name of the error that a step meets, "" if none."""
    try:
        step()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""


def confined(tmp_path: Path, *steps: Callable[[], object]) -> list[str]:
    """What steps meet where `read` can be read, `written` written and `listed` listed."""
    for name in ("read", "written", "listed", "closed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")

    def step() -> list[str]:
        linux.restrict_paths(
            AllowedPaths(
                list_only=[str(tmp_path / "listed")],
                read=[str(tmp_path / "read"), "/nonexistent"],
                written=[str(tmp_path / "written")],
                devices=["/dev/null"],
            )
        )
        return [refused(one) for one in steps]

    found: list[str] = in_a_fork(step)
    return found


def test_only_what_is_named_can_be_read(tmp_path: Path) -> None:
    found = confined(
        tmp_path,
        (tmp_path / "read" / "file").read_text,
        (tmp_path / "written" / "file").read_text,
        (tmp_path / "listed" / "file").read_text,
        (tmp_path / "closed" / "file").read_text,
        Path("/etc/passwd").read_text,
    )
    assert found == ["", "", "EACCES", "EACCES", "EACCES"]


def test_only_what_is_named_can_be_listed(tmp_path: Path) -> None:
    names = ("read", "listed", "closed")
    steps = [lambda name=name: list((tmp_path / name).iterdir()) for name in names]
    assert confined(tmp_path, *steps) == ["", "", "EACCES"]


def test_only_what_is_named_can_be_written(tmp_path: Path) -> None:
    found = confined(
        tmp_path,
        (tmp_path / "read" / "new").touch,
        (tmp_path / "written" / "new").touch,
        (tmp_path / "closed" / "file").unlink,
        lambda: Path("/dev/null").write_text("gone"),
        lambda: os.mknod(tmp_path / "written" / "node", 0o20666, os.makedev(1, 3)),
    )
    assert found == ["EACCES", "", "EACCES", "", "EACCES" if os.geteuid() == 0 else "EPERM"]


def test_abstract_sockets_tcp_and_signals_stay_inside(tmp_path: Path) -> None:
    parent = os.getpid()
    with socket.socket(socket.AF_UNIX) as listening, socket.create_server(("", 0)) as server:
        listening.bind(f"\0landlock-{parent}")
        listening.listen()
        found = confined(
            tmp_path,
            lambda: socket.socket(socket.AF_UNIX).connect(f"\0landlock-{parent}"),
            lambda: socket.create_connection(("127.0.0.1", server.getsockname()[1]), 5),
            lambda: os.kill(parent, 0),
            lambda: os.kill(os.getpid(), signal.SIGCONT),
        )
    assert found == ["EPERM", "EACCES", "EPERM", ""]


def test_the_way_around_a_hidden_folder_misses_nothing_else(tmp_path: Path) -> None:
    for name in ("a/b/hidden", "a/b/shown", "a/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    found = walls.list_around(str(tmp_path), str(tmp_path / "a/b/hidden"))
    assert {str(Path(one).relative_to(tmp_path)) for one in found} == {"a/b/shown", "a/c", "d"}
