"""The life of a box: its end, its limits, and how it is frozen and emptied."""

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

from harness.sandbox.box import Limits, SandboxFault
from harness.sandbox.launcher import ZygoteLauncher
from harness.sandbox.linux import descendants
from harness.sandbox.probe import Isolation
from tests.support.waits import comes_true

from .boxes import HONEST, READY, SUBMISSIONS, BoxFactory, RunningBox

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
    """Skip with the name of the wall that this machine lacks."""
    for one in isolation.missing:
        if one.wall in walls:
            pytest.skip(f"no {one.wall}: {one.reason}")


def done(running_box: RunningBox) -> int | None:
    """Return how a box that ends by itself ended; nothing of it is left."""
    status = running_box.box.status(30.0)
    assert running_box.end()
    return status


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("import os; os._exit(3)", 3),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    ],
)
def test_the_end_of_a_worker_is_told(
    zygote_box_factory: BoxFactory, source: str, status: int
) -> None:
    assert done(zygote_box_factory.start_box(zygote_box_factory.spec(source))) == status


def test_an_honest_worker_leaves_when_its_socket_closes(box_factory: BoxFactory) -> None:
    running_box = box_factory.start_box(box_factory.spec())
    assert running_box.answer() == READY
    assert running_box.box.status(0.0) is None
    running_box.leave()
    assert done(running_box) == 0


def test_an_end_kills_what_runs_and_may_be_asked_twice(zygote_box_factory: BoxFactory) -> None:
    running_box = zygote_box_factory.start_box(zygote_box_factory.spec("while True: pass"))
    assert running_box.end()
    assert running_box.box.end()
    assert running_box.box.status(0.0) == -signal.SIGKILL


def test_the_pidfd_says_when_nothing_is_left(zygote_box_factory: BoxFactory) -> None:
    running_box = zygote_box_factory.start_box(zygote_box_factory.spec("import os; os._exit(0)"))
    assert select.select([running_box.box.pidfd], [], [], 10.0)[0]
    assert running_box.box.status(0.0) == 0
    assert running_box.end()


def test_what_is_printed_arrives_before_a_crash(box_factory: BoxFactory) -> None:
    running_box = box_factory.start_box(
        box_factory.spec("print('last words')\nimport os; os.abort()")
    )
    assert done(running_box) == -signal.SIGABRT
    assert running_box.printed().startswith("last words\n")


def test_a_daemon_does_not_outlive_its_box(box_factory: BoxFactory) -> None:
    running_box = box_factory.start_box(box_factory.spec(DAEMON))
    assert running_box.answer() == READY
    assert running_box.end()
    assert isinstance(box_factory.launcher, ZygoteLauncher)
    assert descendants(box_factory.launcher.pid) == []


def test_a_frozen_worker_does_nothing(zygote_box_factory: BoxFactory, isolation: Isolation) -> None:
    needs(isolation, "freezer")
    running_box = zygote_box_factory.start_box(zygote_box_factory.spec(SPINNING))
    assert running_box.answer() == READY
    running_box.box.freeze()
    used = running_box.box.usage()["cpu_s"]
    time.sleep(0.05)
    assert running_box.box.usage()["cpu_s"] == used
    running_box.box.thaw()
    assert comes_true(lambda: running_box.box.usage()["cpu_s"] > used)
    running_box.box.freeze()
    assert running_box.end()


def test_a_freeze_after_the_end_is_of_no_harm(
    zygote_box_factory: BoxFactory, isolation: Isolation
) -> None:
    needs(isolation, "freezer")
    running_box = zygote_box_factory.start_box(zygote_box_factory.spec("import os; os._exit(1)"))
    assert running_box.box.status(10.0) == 1
    running_box.box.freeze()
    running_box.box.thaw()
    assert running_box.end()
    running_box.box.freeze()
    running_box.box.thaw()


def test_memory_beyond_the_limit_is_told(
    zygote_box_factory: BoxFactory, isolation: Isolation
) -> None:
    needs(isolation, "memory")
    source = "kept = bytearray(800 * 2**20)\ndef custom_kernel(data): return data"
    limits = Limits(memory_bytes=600 * MIB)
    running_box = zygote_box_factory.start_box(zygote_box_factory.spec(source, limits=limits))
    assert done(running_box) == -signal.SIGKILL
    assert running_box.box.is_out_of_memory()
    assert 500 < running_box.box.usage()["peak_memory_mib"] <= 600


def test_shared_memory_counts_as_memory(
    zygote_box_factory: BoxFactory, isolation: Isolation
) -> None:
    needs(isolation, "memory")
    source = "import os\nfor _ in range(40): os.write(os.memfd_create('x'), bytes(32 * 2**20))\n"
    running_box = zygote_box_factory.start_box(
        zygote_box_factory.spec(source, limits=Limits(memory_bytes=600 * MIB))
    )
    assert done(running_box) != 0
    assert running_box.box.is_out_of_memory()


def test_memory_is_bounded_without_a_group(zygote_box_factory: BoxFactory) -> None:
    walls = tuple(wall for wall in zygote_box_factory.isolation.walls if wall != "memory")
    source = "kept = bytearray(3 * 2**30)"
    running_box = zygote_box_factory.start_box(
        zygote_box_factory.spec(source, walls=walls, limits=Limits(memory_bytes=1500 * MIB))
    )
    assert b"MemoryError" in running_box.answer()
    assert running_box.end()


def test_processes_are_bounded(box_factory: BoxFactory, isolation: Isolation) -> None:
    needs(isolation, "pids")
    found = box_factory.run_submission("forker.py", limits=Limits(processes_max=20))
    assert 10 <= found["forked"] < 20


def test_processes_are_bounded_without_a_group(zygote_box_factory: BoxFactory) -> None:
    if not {"uid", "namespaces"} & set(zygote_box_factory.isolation.walls):
        pytest.skip("neither uid nor namespaces: nobody to count for")
    walls = tuple(wall for wall in zygote_box_factory.isolation.walls if wall != "pids")
    # What runs in boxes of other tests at this moment has the same user, and is counted too.
    found = zygote_box_factory.run_submission(
        "forker.py", walls=walls, limits=Limits(processes_max=80)
    )
    assert 20 <= found["forked"] <= 80


def test_files_and_scratch_are_bounded(box_factory: BoxFactory, isolation: Isolation) -> None:
    needs(isolation, "namespaces")
    limits = Limits(scratch_bytes=8 * MIB, file_bytes_max=4 * MIB, files_max=100)
    found = box_factory.run_submission("filler.py", limits=limits)
    assert found["file"] == "EFBIG"
    assert found["file_bytes"] == 4 * MIB
    assert found["scratch"] == found["shm"] == "ENOSPC"
    assert found["opened"] < 100


def test_processor_time_is_bounded(zygote_box_factory: BoxFactory) -> None:
    running_box = zygote_box_factory.start_box(
        zygote_box_factory.spec("while True: pass", limits=Limits(cpu_s=1))
    )
    assert done(running_box) in {-signal.SIGXCPU, -signal.SIGKILL}
    # The kernel's limit counts whole clock ticks, the group exact time: where others run, too, a
    # process is ended at 0.86 to 1 s. What matters is that it was ended for what it used.
    assert 0.5 < running_box.box.usage()["cpu_s"] < 2


def test_ranks_have_a_socket_each_and_one_network(
    box_factory: BoxFactory, isolation: Isolation
) -> None:
    needs(isolation, "namespaces")
    running_box = box_factory.start_box(
        box_factory.spec((SUBMISSIONS / "ranks.py").read_text(), ranks=2)
    )
    assert [running_box.answer(rank) for rank in range(2)] == [READY, READY]
    running_box.leave()
    assert done(running_box) == 0
    assert sorted(map(json.loads, running_box.printed().split())) == ["called", "caller"]


def test_a_rank_that_crashes_ends_the_others(box_factory: BoxFactory) -> None:
    source = "import os, time\nos.mkdir('first')\nos._exit(7)\n"
    patient = source.replace("os.mkdir('first')", "try: os.mkdir('first')\nexcept OSError: input()")
    waiting = patient.replace("input()", "time.sleep(60)")
    running_box = box_factory.start_box(box_factory.spec(waiting, ranks=2))
    assert done(running_box) == 7


def test_a_box_that_cannot_be_built_is_a_fault(box_factory: BoxFactory) -> None:
    absent = str(box_factory.folder / "absent")
    spec = box_factory.spec(submission=absent, scratch=absent)
    with pytest.raises(SandboxFault):
        box_factory.start_box(spec).box.status(10.0)


def test_scratch_without_namespaces_is_left_empty(zygote_box_factory: BoxFactory) -> None:
    walls = tuple(
        one for one in zygote_box_factory.isolation.walls if one in ("memory", "pids", "freezer")
    )
    source = "import os\nos.makedirs('a/b')\nos.symlink('/etc', 'a/link')\nopen('f', 'w')\n"
    spec = zygote_box_factory.spec(source + HONEST, walls=walls)
    running_box = zygote_box_factory.start_box(spec)
    assert running_box.answer() == READY
    assert running_box.end()
    assert list(Path(spec.scratch).iterdir()) == []
    assert Path("/etc").is_dir()


def test_a_scratch_folder_in_use_is_refused(zygote_box_factory: BoxFactory) -> None:
    spec = zygote_box_factory.spec(walls=())
    (Path(spec.scratch) / "somebody's").touch()
    with pytest.raises(SandboxFault, match="not empty"):
        zygote_box_factory.start_box(spec)


def test_a_box_shows_what_is_asked_for(box_factory: BoxFactory, isolation: Isolation) -> None:
    needs(isolation, "namespaces")
    (box_factory.folder / "shown").mkdir()
    (box_factory.folder / "shown" / "file").write_text("seen")
    shown = str(box_factory.folder / "shown" / "file")
    source = f"import os\nprint(open({shown!r}).read(), os.stat('/dev/tty').st_rdev, end='')\n"
    read_only = (str(box_factory.folder / "shown"),)
    running_box = box_factory.start_box(
        box_factory.spec(source + HONEST, read_only=read_only, devices=("/dev/tty",))
    )
    assert running_box.answer() == READY
    assert running_box.end()
    assert running_box.printed() == f"seen {Path('/dev/tty').stat().st_rdev}"


def test_a_client_needs_no_privilege(zygote_box_factory: BoxFactory) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root: there is no privilege to give up")
    spec = zygote_box_factory.spec()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _visited_by_nobody(zygote_box_factory, spec) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _visited_by_nobody(zygote_box_factory: BoxFactory, spec: Any) -> bool:
    try:
        os.setgroups([])
        os.setresgid(64000, 64000, 64000)
        os.setresuid(64000, 64000, 64000)
        running_box = zygote_box_factory.start_box(spec)
        is_ready = running_box.answer() == READY
        if running_box.box.can_freeze:
            running_box.box.freeze()
            running_box.box.thaw()
        return is_ready and running_box.box.usage()["cpu_s"] >= 0 and running_box.end()
    except BaseException:  # noqa: BLE001  (a fork of the test: its exit status says it all)
        return False


def test_what_a_worker_waits_for_its_core_is_counted(
    zygote_box_factory: BoxFactory, isolation: Isolation
) -> None:
    needs(isolation, "namespaces")
    core = min(os.sched_getaffinity(0))
    spec = replace(zygote_box_factory.spec("while True: pass"), cores=(core,))
    running_box = zygote_box_factory.start_box(spec)
    program = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    rival = subprocess.Popen([sys.executable, "-c", program])
    try:
        assert comes_true(lambda: running_box.box.waited_us() > 20_000)
    finally:
        rival.kill()
        rival.wait()
        running_box.end()
    assert running_box.box.waited_us() == 0.0
