"""Whoever is killed at whatever step, nothing is left; and many boxes leave no more than one."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from harness.sandbox import cgroup_places, channel
from harness.sandbox.box import SandboxFault
from harness.sandbox.forked import Forked
from harness.sandbox.probe import Isolation
from harness.sandbox.processes import descendants
from harness.sandbox.spec import WALLS
from tests.support.waits import comes_true

from .visit import HONEST, READY, Lodge, Visit

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
def own(isolation: Isolation, shelf: Path) -> Iterator[Lodge]:
    """A zygote for one test, which may kill it."""
    launcher = Forked()
    folder = shelf / f"own-{launcher.pid}"
    folder.mkdir()
    lodge = Lodge(launcher, isolation, folder)
    yield lodge
    lodge.close()
    launcher.close()


def zygote_of(lodge: Lodge) -> Forked:
    """The launcher, as what it is."""
    assert isinstance(lodge.launcher, Forked)
    return lodge.launcher


def keeper_of(visit: Visit) -> int:
    """The pid of a box's keeper."""
    told = Path(f"/proc/self/fdinfo/{visit.box.pidfd}").read_text()
    return int(dict(line.split(":") for line in told.splitlines())["Pid"])


def groups(owners: Iterable[int]) -> list[Path]:
    """The control groups of boxes of these owners."""
    places = cgroup_places.find()
    parents = {places.unified, *places.separate.values()} - {""}
    return [one for parent in parents for pid in owners for one in Path(parent).glob(f"*-{pid}-*")]


def hidden(lodge: Lodge) -> Visit:
    """A visit whose worker has left a daemon in its box."""
    visit = lodge.enter(lodge.spec(HIDING + HONEST))
    assert visit.answer() == READY
    return visit


def is_gone(pid: int) -> bool:
    """Whether a process has ended, even if nobody has reaped it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    return stat.rpartition(b")")[2].split()[0] in (b"Z", b"X")


@pytest.mark.long
def test_many_boxes_leave_no_more_than_one(inn: Lodge) -> None:
    zygote = zygote_of(inn)
    before, open_before = zygote.counts(), len(list(Path("/proc/self/fd").iterdir()))
    keepers = set()
    for _ in range(RUNS):
        visit = inn.enter(inn.spec("import os; os._exit(0)"))
        keepers.add(keeper_of(visit))
        assert visit.box.status(10.0) == 0
        inn.close()
    assert comes_true(lambda: zygote.counts() == before)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
    assert len(keepers) == RUNS
    assert groups(keepers) == []


def test_a_killed_keeper_takes_its_box_along(inn: Lodge) -> None:
    zygote = zygote_of(inn)
    visit = hidden(inn)
    keeper = keeper_of(visit)
    os.kill(keeper, signal.SIGKILL)
    zygote.clear()
    assert descendants(zygote.pid) == []
    assert groups([keeper]) == []
    assert visit.end(), "the launcher has cleared up and looked"


def test_a_killed_zygote_takes_its_boxes_along(own: Lodge) -> None:
    zygote = zygote_of(own)
    hidden(own)
    pids = [zygote.pid, *descendants(zygote.pid)]
    assert len(pids) >= 5
    os.kill(zygote.pid, signal.SIGKILL)
    assert comes_true(lambda: all(map(is_gone, pids)))
    assert comes_true(lambda: groups(pids) == [])
    with pytest.raises(SandboxFault, match="gone"):
        own.enter(own.spec())


def test_a_killed_supervisor_takes_all_along(shelf: Path) -> None:
    folder = shelf / "killed"
    folder.mkdir()
    source = HIDING + HONEST
    command = [sys.executable, "-m", "tests.sandbox.guests.parent", str(folder), source]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        pids = [int(one) for one in parent.stdout.readline().split()]
        parent.kill()
    assert len(pids) >= 5
    assert comes_true(lambda: all(map(is_gone, pids)))
    assert comes_true(lambda: groups(pids) == [])


def test_a_client_that_ends_takes_its_box_along(inn: Lodge) -> None:
    zygote = zygote_of(inn)
    pid = os.fork()
    if pid == 0:
        try:
            hidden(inn)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert comes_true(lambda: zygote.counts()["boxes"] == 0)
    assert descendants(zygote.pid) == []


def test_an_answer_that_nobody_awaits_is_passed_over(inn: Lodge) -> None:
    channel.tell(zygote_of(inn)._socket, {"token": "somebody's", "counts": True})
    visit = inn.enter(inn.spec("import os; os._exit(5)"))
    assert visit.box.status(10.0) == 5


def test_a_box_is_cleared_while_it_is_frozen(inn: Lodge) -> None:
    visit = hidden(inn)
    if not visit.box.can_freeze:
        pytest.skip("no freezer here")
    visit.box.freeze()
    zygote_of(inn).clear()
    assert zygote_of(inn).counts()["boxes"] == 0
    assert descendants(zygote_of(inn).pid) == []


def test_a_box_without_a_promised_wall_is_refused(isolation: Isolation, shelf: Path) -> None:
    strict = Forked(walls=WALLS, imports=())
    lodge = Lodge(strict, isolation, shelf)
    with pytest.raises(SandboxFault, match="without seccomp, uid"):
        lodge.enter(lodge.spec(walls=("namespaces", "landlock", "memory", "pids", "freezer")))
    strict.close()


def test_two_boxes_live_side_by_side(inn: Lodge) -> None:
    first, second = (inn.enter(inn.spec()) for _ in range(2))
    assert [first.answer(), second.answer()] == [READY, READY]
    assert first.end()
    assert second.box.status(0.0) is None
    assert second.end()


def test_a_worker_that_floods_its_socket_is_ended(inn: Lodge) -> None:
    source = "import os, socket\nflooding = socket.socket(fileno=3)\nwhile True:\n"
    visit = inn.enter(inn.spec(source + "    flooding.send(bytes(60000))\n"))
    assert len(visit.answer()) == 60000
    assert visit.end()


def test_a_zygote_whose_socket_closes_ends(own: Lodge) -> None:
    zygote = zygote_of(own)
    pid = zygote.pid
    hidden(own)
    pids = [pid, *descendants(pid)]
    zygote._socket.shutdown(socket.SHUT_RDWR)
    assert comes_true(lambda: all(map(is_gone, pids)))
