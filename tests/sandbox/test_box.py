"""The life of a box: how it ends, what holds it in bounds, how it is stopped and emptied."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.sandbox.box import SandboxFault
from harness.sandbox.forked import Forked
from harness.sandbox.probe import Isolation
from harness.sandbox.processes import descendants
from harness.sandbox.spec import Limits
from tests.support.waits import comes_true

from .visit import GUESTS, HONEST, READY, Lodge, Visit

MIB = 1024**2
SPINNING = """
import threading
counter = open("counter", "wb", buffering=0)
def spin():
    while True:
        counter.write(b".")
        if counter.tell() > 1 << 20:
            counter.seek(0)
threading.Thread(target=spin, daemon=True).start()
def custom_kernel(data): return data
"""
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
def custom_kernel(data): return data
"""


def needs(isolation: Isolation, *walls: str) -> None:
    """Skips, by the name of the wall that this machine lacks."""
    for one in isolation.missing:
        if one.wall in walls:
            pytest.skip(f"no {one.wall}: {one.reason}")


def done(visit: Visit) -> int | None:
    """How a visit ended that ends by itself; nothing is left of it."""
    status = visit.box.status(30.0)
    assert visit.end()
    return status


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("import os; os._exit(3)", 3),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    ],
)
def test_the_end_of_a_worker_is_told(lodge: Lodge, source: str, status: int) -> None:
    assert done(lodge.enter(lodge.spec(source))) == status


def test_an_honest_worker_leaves_when_its_socket_closes(lodge: Lodge) -> None:
    visit = lodge.enter(lodge.spec())
    assert visit.answer() == READY
    assert visit.box.status(0.0) is None
    visit.leave()
    assert done(visit) == 0


def test_an_end_kills_what_runs_and_may_be_asked_twice(lodge: Lodge) -> None:
    visit = lodge.enter(lodge.spec("while True: pass"))
    assert visit.end()
    assert visit.box.end()
    assert visit.box.status(0.0) == -signal.SIGKILL


def test_the_pidfd_says_when_nothing_is_left(inn: Lodge) -> None:
    visit = inn.enter(inn.spec("import os; os._exit(0)"))
    assert select.select([visit.box.pidfd], [], [], 10.0)[0]
    assert visit.box.status(0.0) == 0
    assert visit.end()


def test_what_is_printed_arrives_before_a_crash(lodge: Lodge) -> None:
    visit = lodge.enter(lodge.spec("print('last words')\nimport os; os.abort()"))
    assert done(visit) == -signal.SIGABRT
    assert visit.printed().startswith("last words\n")


def test_a_daemon_does_not_outlive_its_box(lodge: Lodge) -> None:
    visit = lodge.enter(lodge.spec(DAEMON))
    assert visit.answer() == READY
    assert visit.end()
    assert isinstance(lodge.launcher, Forked)
    assert descendants(lodge.launcher.pid) == []


def test_a_frozen_worker_does_nothing(lodge: Lodge, isolation: Isolation) -> None:
    needs(isolation, "freezer")
    visit = lodge.enter(lodge.spec(SPINNING))
    assert visit.answer() == READY
    visit.box.freeze()
    used = visit.box.usage()["cpu_s"]
    time.sleep(0.05)
    assert visit.box.usage()["cpu_s"] == used
    visit.box.thaw()
    assert comes_true(lambda: visit.box.usage()["cpu_s"] > used)
    visit.box.freeze()
    assert visit.end()


def test_a_freeze_after_the_end_is_of_no_harm(inn: Lodge, isolation: Isolation) -> None:
    needs(isolation, "freezer")
    visit = inn.enter(inn.spec("import os; os._exit(1)"))
    assert visit.box.status(10.0) == 1
    visit.box.freeze()
    visit.box.thaw()
    assert visit.end()
    visit.box.freeze()
    visit.box.thaw()


def test_memory_beyond_the_limit_is_told(lodge: Lodge, isolation: Isolation) -> None:
    needs(isolation, "memory")
    source = "kept = bytearray(800 * 2**20)\ndef custom_kernel(data): return data"
    limits = Limits(memory_bytes=600 * MIB)
    visit = lodge.enter(lodge.spec(source, limits=limits))
    assert done(visit) == -signal.SIGKILL
    assert visit.box.is_out_of_memory()
    assert 500 < visit.box.usage()["peak_memory_mib"] <= 600


def test_shared_memory_counts_as_memory(inn: Lodge, isolation: Isolation) -> None:
    needs(isolation, "memory")
    source = "import os\nfor _ in range(40): os.write(os.memfd_create('x'), bytes(32 * 2**20))\n"
    visit = inn.enter(inn.spec(source, limits=Limits(memory_bytes=600 * MIB)))
    assert done(visit) != 0
    assert visit.box.is_out_of_memory()


def test_memory_is_bounded_without_a_group(inn: Lodge) -> None:
    walls = tuple(wall for wall in inn.isolation.walls if wall != "memory")
    source = "kept = bytearray(3 * 2**30)"
    visit = inn.enter(inn.spec(source, walls=walls, limits=Limits(memory_bytes=1500 * MIB)))
    assert b"MemoryError" in visit.answer()
    assert visit.end()


def test_processes_are_bounded(lodge: Lodge, isolation: Isolation) -> None:
    needs(isolation, "pids")
    found = lodge.told("forker.py", limits=Limits(processes_max=20))
    assert 10 <= found["forked"] < 20


def test_processes_are_bounded_without_a_group(inn: Lodge) -> None:
    if not {"uid", "namespaces"} & set(inn.isolation.walls):
        pytest.skip("neither uid nor namespaces: nobody to count for")
    walls = tuple(wall for wall in inn.isolation.walls if wall != "pids")
    found = inn.told("forker.py", walls=walls, limits=Limits(processes_max=20))
    assert 10 <= found["forked"] <= 20


def test_files_and_scratch_are_bounded(lodge: Lodge, isolation: Isolation) -> None:
    needs(isolation, "namespaces")
    limits = Limits(scratch_bytes=8 * MIB, file_bytes_max=4 * MIB, files_max=100)
    found = lodge.told("filler.py", limits=limits)
    assert found["file"] == "EFBIG"
    assert found["file_bytes"] == 4 * MIB
    assert found["scratch"] == found["shm"] == "ENOSPC"
    assert found["opened"] < 100


def test_processor_time_is_bounded(inn: Lodge) -> None:
    visit = inn.enter(inn.spec("while True: pass", limits=Limits(cpu_s=1)))
    assert done(visit) in {-signal.SIGXCPU, -signal.SIGKILL}
    # The kernel's limit counts whole clock ticks, the group exact time: where others run, too, a
    # process is ended at 0.86 to 1 s. What matters is that it was ended for what it used.
    assert 0.5 < visit.box.usage()["cpu_s"] < 2


def test_ranks_have_a_socket_each_and_one_network(lodge: Lodge, isolation: Isolation) -> None:
    needs(isolation, "namespaces")
    visit = lodge.enter(lodge.spec((GUESTS / "ranks.py").read_text(), ranks=2))
    assert [visit.answer(rank) for rank in range(2)] == [READY, READY]
    visit.leave()
    assert done(visit) == 0
    assert sorted(map(json.loads, visit.printed().split())) == ["called", "caller"]


def test_a_rank_that_crashes_ends_the_others(lodge: Lodge) -> None:
    source = "import os, time\nos.mkdir('first')\nos._exit(7)\n"
    patient = source.replace("os.mkdir('first')", "try: os.mkdir('first')\nexcept OSError: input()")
    waiting = patient.replace("input()", "time.sleep(60)")
    visit = lodge.enter(lodge.spec(waiting, ranks=2))
    assert done(visit) == 7


def test_a_box_that_cannot_be_built_is_a_fault(lodge: Lodge) -> None:
    absent = str(lodge.folder / "absent")
    spec = lodge.spec(submission=absent, scratch=absent)
    with pytest.raises(SandboxFault):
        lodge.enter(spec).box.status(10.0)


def test_scratch_without_namespaces_is_left_empty(inn: Lodge) -> None:
    walls = tuple(one for one in inn.isolation.walls if one in ("memory", "pids", "freezer"))
    source = "import os\nos.makedirs('a/b')\nos.symlink('/etc', 'a/link')\nopen('f', 'w')\n"
    spec = inn.spec(source + HONEST, walls=walls)
    visit = inn.enter(spec)
    assert visit.answer() == READY
    assert visit.end()
    assert list(Path(spec.scratch).iterdir()) == []
    assert Path("/etc").is_dir()


def test_a_scratch_folder_in_use_is_refused(inn: Lodge) -> None:
    spec = inn.spec(walls=())
    (Path(spec.scratch) / "somebody's").touch()
    with pytest.raises(SandboxFault, match="not empty"):
        inn.enter(spec)


def test_a_box_shows_what_is_asked_for(lodge: Lodge, isolation: Isolation) -> None:
    needs(isolation, "namespaces")
    (lodge.folder / "shown").mkdir()
    (lodge.folder / "shown" / "file").write_text("seen")
    shown = str(lodge.folder / "shown" / "file")
    source = f"import os\nprint(open({shown!r}).read(), os.stat('/dev/tty').st_rdev, end='')\n"
    read_only = (str(lodge.folder / "shown"),)
    visit = lodge.enter(lodge.spec(source + HONEST, read_only=read_only, devices=("/dev/tty",)))
    assert visit.answer() == READY
    assert visit.end()
    assert visit.printed() == f"seen {Path('/dev/tty').stat().st_rdev}"


def test_a_client_needs_no_privilege(inn: Lodge) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root: there is no privilege to give up")
    spec = inn.spec()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _visited_by_nobody(inn, spec) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _visited_by_nobody(inn: Lodge, spec: Any) -> bool:
    try:
        os.setgroups([])
        os.setresgid(64000, 64000, 64000)
        os.setresuid(64000, 64000, 64000)
        visit = inn.enter(spec)
        is_ready = visit.answer() == READY
        if visit.box.can_freeze:
            visit.box.freeze()
            visit.box.thaw()
        return is_ready and visit.box.usage()["cpu_s"] >= 0 and visit.end()
    except BaseException:  # noqa: BLE001  (a fork of the test: its exit status says it all)
        return False


def test_what_a_worker_waits_for_its_core_is_counted(inn: Lodge, isolation: Isolation) -> None:
    needs(isolation, "namespaces")
    core = min(os.sched_getaffinity(0))
    spec = replace(inn.spec("while True: pass"), cores=(core,))
    visit = inn.enter(spec)
    program = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    rival = subprocess.Popen([sys.executable, "-c", program])
    try:
        assert comes_true(lambda: visit.box.waited_us() > 20_000)
    finally:
        rival.kill()
        rival.wait()
        visit.end()
    assert visit.box.waited_us() == 0.0
