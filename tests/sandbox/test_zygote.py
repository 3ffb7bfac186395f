"""Whichever process is killed at whichever step, nothing is left."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from harness.sandbox import host
from harness.sandbox.box import WALLS, SandboxFault, send_message
from harness.sandbox.launcher import ZygoteLauncher
from harness.sandbox.linux import descendants
from harness.sandbox.probe import Isolation
from tests.support.waits import comes_true

from .boxes import HONEST, READY, BoxFactory, RunningBox

pytestmark = pytest.mark.box

ROOT = Path(__file__).parent.parent.parent
RUNS = 30
# A daemon in a session of its own, which nothing but a walls' end can reach.
HIDING = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
"""


@pytest.fixture
def own(isolation: Isolation, open_folder: Path) -> Iterator[BoxFactory]:
    """A zygote for one test, which may kill it."""
    launcher = ZygoteLauncher()
    folder = open_folder / f"own-{launcher.pid}"
    folder.mkdir()
    box_factory = BoxFactory(launcher, isolation, folder)
    yield box_factory
    box_factory.close()
    launcher.close()


def zygote_of(box_factory: BoxFactory) -> ZygoteLauncher:
    """The launcher, typed as what it is."""
    assert isinstance(box_factory.launcher, ZygoteLauncher)
    return box_factory.launcher


def keeper_of(running_box: RunningBox) -> int:
    """The pid of a box's keeper."""
    told = Path(f"/proc/self/fdinfo/{running_box.box.pidfd}").read_text()
    return int(dict(line.split(":") for line in told.splitlines())["Pid"])


def groups(owners: Iterable[int]) -> list[Path]:
    """The control groups of these owners' boxes."""
    places = host.find_cgroup_parents()
    parents = {places.unified, *places.separate.values()} - {""}
    return [one for parent in parents for pid in owners for one in Path(parent).glob(f"*-{pid}-*")]


def hidden(box_factory: BoxFactory) -> RunningBox:
    """Start a box whose worker has left a daemon in it."""
    running_box = box_factory.start_box(box_factory.spec(HIDING + HONEST))
    assert running_box.answer() == READY
    return running_box


def is_gone(pid: int) -> bool:
    """Whether a process has ended, even if it is not reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    return stat.rpartition(b")")[2].split()[0] in (b"Z", b"X")


@pytest.mark.long
def test_many_boxes_leave_no_more_than_one(zygote_box_factory: BoxFactory) -> None:
    zygote = zygote_of(zygote_box_factory)
    # The first box makes the zygote open its images, which then stay open.
    first = zygote_box_factory.start_box(zygote_box_factory.spec("import os; os._exit(0)"))
    assert first.box.status(10.0) == 0
    zygote_box_factory.close()
    assert comes_true(lambda: zygote.counts()["boxes"] == 0)
    before, open_before = zygote.counts(), len(list(Path("/proc/self/fd").iterdir()))
    keepers = set()
    for _ in range(RUNS):
        running_box = zygote_box_factory.start_box(
            zygote_box_factory.spec("import os; os._exit(0)")
        )
        keepers.add(keeper_of(running_box))
        assert running_box.box.status(10.0) == 0
        zygote_box_factory.close()
    assert comes_true(lambda: zygote.counts() == before)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
    assert len(keepers) == RUNS
    assert groups(keepers) == []


@pytest.mark.long
def test_a_killed_keeper_takes_its_box_along(zygote_box_factory: BoxFactory) -> None:
    zygote = zygote_of(zygote_box_factory)
    running_box = hidden(zygote_box_factory)
    keeper = keeper_of(running_box)
    os.kill(keeper, signal.SIGKILL)
    zygote.clear()
    assert descendants(zygote.pid) == []
    assert groups([keeper]) == []
    assert running_box.end(), "the launcher has cleared up and looked"


@pytest.mark.long
def test_a_killed_zygote_takes_its_boxes_along(own: BoxFactory) -> None:
    zygote = zygote_of(own)
    hidden(own)
    pids = [zygote.pid, *descendants(zygote.pid)]
    assert len(pids) >= 5
    os.kill(zygote.pid, signal.SIGKILL)
    assert comes_true(lambda: all(map(is_gone, pids)))
    assert comes_true(lambda: groups(pids) == [])
    with pytest.raises(SandboxFault, match="gone"):
        own.start_box(own.spec())


@pytest.mark.long
def test_a_killed_supervisor_takes_all_along(open_folder: Path) -> None:
    folder = open_folder / "killed"
    folder.mkdir()
    source = HIDING + HONEST
    command = [sys.executable, "-m", "tests.sandbox.submissions.parent", str(folder), source]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        pids = [int(one) for one in parent.stdout.readline().split()]
        parent.kill()
    assert len(pids) >= 5
    assert comes_true(lambda: all(map(is_gone, pids)))
    assert comes_true(lambda: groups(pids) == [])


def test_a_client_that_ends_takes_its_box_along(zygote_box_factory: BoxFactory) -> None:
    zygote = zygote_of(zygote_box_factory)
    pid = os.fork()
    if pid == 0:
        try:
            hidden(zygote_box_factory)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert comes_true(lambda: zygote.counts()["boxes"] == 0)
    assert descendants(zygote.pid) == []


def test_an_answer_that_nobody_awaits_is_passed_over(zygote_box_factory: BoxFactory) -> None:
    send_message(zygote_of(zygote_box_factory)._socket, {"token": "somebody's", "counts": True})
    running_box = zygote_box_factory.start_box(zygote_box_factory.spec("import os; os._exit(5)"))
    assert running_box.box.status(10.0) == 5


def test_a_box_is_cleared_while_it_is_frozen(zygote_box_factory: BoxFactory) -> None:
    running_box = hidden(zygote_box_factory)
    if not running_box.box.can_freeze:
        pytest.skip("no freezer here")
    running_box.box.freeze()
    zygote_of(zygote_box_factory).clear()
    assert zygote_of(zygote_box_factory).counts()["boxes"] == 0
    assert descendants(zygote_of(zygote_box_factory).pid) == []


def test_a_box_without_a_promised_wall_is_refused(isolation: Isolation, open_folder: Path) -> None:
    strict = ZygoteLauncher(walls=WALLS, imports=())
    box_factory = BoxFactory(strict, isolation, open_folder)
    with pytest.raises(SandboxFault, match="without seccomp, uid"):
        box_factory.start_box(
            box_factory.spec(walls=tuple(one for one in WALLS if one not in ("seccomp", "uid")))
        )
    strict.close()


def test_two_boxes_live_side_by_side(zygote_box_factory: BoxFactory) -> None:
    first, second = (zygote_box_factory.start_box(zygote_box_factory.spec()) for _ in range(2))
    assert [first.answer(), second.answer()] == [READY, READY]
    assert first.end()
    assert second.box.status(0.0) is None
    assert second.end()


def test_a_worker_that_floods_its_socket_is_ended(zygote_box_factory: BoxFactory) -> None:
    source = "import os, socket\nflooding = socket.socket(fileno=3)\nwhile True:\n"
    running_box = zygote_box_factory.start_box(
        zygote_box_factory.spec(source + "    flooding.send(bytes(60000))\n")
    )
    assert len(running_box.answer()) == 60000
    assert running_box.end()


@pytest.mark.long
def test_a_zygote_whose_socket_closes_ends(own: BoxFactory) -> None:
    zygote = zygote_of(own)
    pid = zygote.pid
    hidden(own)
    pids = [pid, *descendants(pid)]
    zygote._socket.shutdown(socket.SHUT_RDWR)
    assert comes_true(lambda: all(map(is_gone, pids)))


def test_a_zygote_ends_even_if_another_process_holds_its_clients_socket() -> None:
    launcher = ZygoteLauncher(imports=(), end_s_max=1.0)
    launcher.counts()
    held = os.dup(launcher._socket.fileno())
    launcher.close()
    assert launcher._process.returncode == 0, "it was not killed"
    os.close(held)
