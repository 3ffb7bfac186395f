"""Control groups: discovery, limits, both freezers, and the sweep of orphans."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from harness.sandbox import host, keeper, linux
from harness.sandbox.box import BoxSpec, Limits
from harness.sandbox.host import CgroupParents
from harness.sandbox.keeper import ControlGroup
from tests.support.waits import comes_true

MIB = 1024**2
V1_FREEZER = Path("/sys/fs/cgroup/freezer")


def spec(walls: tuple[str, ...], limits: Limits | None = None, *cores: int) -> BoxSpec:
    """A box with these walls, limits and cores."""
    return BoxSpec(walls, limits or Limits(), submission="/", main="", cores=cores)


@pytest.fixture(scope="module")
def places() -> CgroupParents:
    """Where groups can be created here."""
    found = host.find_cgroup_parents()
    if not found.walls():
        pytest.skip("no control group can be made here")
    return found


def frozen_by(places: CgroupParents) -> Iterator[tuple[ControlGroup, int]]:
    """A group with a counting child in it."""
    group = ControlGroup(places, spec(("freezer",)))
    pid = os.fork()
    if pid == 0:
        group.join()
        while True:
            pass
    yield group, pid
    group.kill()
    linux.kill([pid])
    os.waitpid(pid, 0)
    assert group.remove()


def stops_and_goes(group: ControlGroup, pid: int) -> bool:
    """Whether a child stops when frozen and continues when thawed."""
    switch = group.switch()
    assert switch is not None
    assert comes_true(lambda: ticks(pid) > 1)
    assert switch.freeze()
    before = ticks(pid)
    time.sleep(0.1)
    is_still = ticks(pid) == before
    switch.thaw()
    goes_on = comes_true(lambda: ticks(pid) > before)
    switch.freeze()
    switch.close()
    return is_still and goes_on


def has_run(pid: int) -> bool:
    """Whether a process has used enough CPU time to be counted."""
    return ticks(pid) > 5


def ticks(pid: int) -> int:
    """The CPU time of a process."""
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[11])


def test_a_freeze_stops_and_a_thaw_resumes(places: CgroupParents) -> None:
    if "freezer" not in places.walls():
        pytest.skip("no freezer here")
    for group, pid in frozen_by(places):
        assert stops_and_goes(group, pid)


def test_the_old_freezer_does_as_well() -> None:
    if not os.access(V1_FREEZER, os.W_OK):
        pytest.skip(f"{V1_FREEZER} cannot be written to: no freezer of v1")
    for group, pid in frozen_by(CgroupParents(separate={"freezer": str(V1_FREEZER)})):
        assert stops_and_goes(group, pid)


def test_a_group_limits_what_it_is_asked_to(places: CgroupParents) -> None:
    walls = places.walls()
    group = ControlGroup(places, spec(walls, Limits(memory_bytes=64 * MIB, processes_max=7)))
    found = {
        file.name: file.read_text().strip()
        for folder in group._folders.values()
        for file in folder.glob("*")
        if file.name in ("memory.max", "memory.limit_in_bytes", "pids.max")
    }
    assert group.remove()
    assert ("pids" in walls) == (found.get("pids.max") == "7")
    assert ("memory" in walls) == (str(64 * MIB) in found.values())


def test_a_group_holds_its_processes_to_their_cores_and_their_share(places: CgroupParents) -> None:
    if not {"cpu", "cpuset"} <= {*places.controllers, *places.separate}:
        pytest.skip("no control group holds processes to cores here")
    here = sorted(os.sched_getaffinity(0))
    group = ControlGroup(places, spec(places.walls(), Limits(cpu_weight=50), here[-1]))
    pid = os.fork()
    if pid == 0:
        group.join()
        os.sched_setaffinity(0, here)
        os._exit(0 if os.sched_getaffinity(0) == {here[-1]} else 1)
    _, status = os.waitpid(pid, 0)
    weights = {
        file.name: file.read_text().strip()
        for folder in group._folders.values()
        for file in folder.glob("cpu.*")
        if file.name in ("cpu.weight", "cpu.shares")
    }
    assert group.remove()
    assert status == 0
    assert set(weights.items()) <= {("cpu.weight", "50"), ("cpu.shares", "500")}
    assert weights


def test_a_group_of_v2_takes_cores_and_share_too(tmp_path: Path) -> None:
    both = CgroupParents(unified=str(tmp_path), controllers=("memory", "pids", "cpu", "cpuset"))
    group = ControlGroup(both, spec(("memory", "pids", "freezer"), Limits(cpu_weight=50), 1, 2))
    (folder,) = tmp_path.iterdir()
    found = {one.name: one.read_text() for one in folder.iterdir()}
    assert (found["cpu.weight"], found["cpuset.cpus"]) == ("50", "1,2")
    assert group is not None


def test_a_pure_v2_group_is_limited_in_one_folder(tmp_path: Path) -> None:
    """Uses plain files, because a machine has its controllers either in v1 or in v2."""
    both = CgroupParents(unified=str(tmp_path), controllers=("memory", "pids"))
    group = ControlGroup(both, spec(("memory", "pids", "freezer"), Limits(64 * MIB, 7)))
    (folder,) = tmp_path.iterdir()
    assert {one.name: one.read_text() for one in folder.iterdir()} == {
        "memory.max": str(64 * MIB),
        "pids.max": "7",
    }
    assert group.memory_kill() == ""
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 1\noom_group_kill 1\n")
    (folder / "memory.peak").write_text(f"{3 * MIB}\n")
    (folder / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    assert group.memory_kill() == "box"
    (folder / "memory.events").write_text("low 0\noom 0\noom_kill 1\noom_group_kill 1\n")
    assert group.memory_kill() == "machine"
    assert group.usage() == {"cpu_s": 2.5, "peak_memory_mib": 3.0}
    (folder / "memory.current").write_text(f"{2 * MIB}\n")
    (folder / "memory.reclaim").touch()
    group.forget_files()
    assert (folder / "memory.reclaim").read_text() == str(2 * MIB)


def test_what_was_used_is_counted(places: CgroupParents) -> None:
    if not places.unified:
        pytest.skip("no control groups v2: nobody counts processor time")
    for group, pid in frozen_by(places):
        assert comes_true(partial(has_run, pid))
        assert group.usage()["cpu_s"] > 0.03
        assert group.memory_kill() == ""


def test_a_kill_for_the_machines_want_of_memory_is_told_from_the_boxs(
    places: CgroupParents,
) -> None:
    """A parent group with less memory than the box may use stands for the machine."""
    parent = places.separate.get("memory")
    if parent is None:
        pytest.skip("no control group v1 for memory, which is the one that counts failures")
    machine = Path(parent) / f"warpboard-test-{os.getpid()}"
    machine.mkdir()
    try:
        (machine / "memory.limit_in_bytes").write_text(str(64 * MIB))
        within = replace(places, separate={**places.separate, "memory": str(machine)})
        assert killed_in(within, 512) == "machine"
    finally:
        machine.rmdir()
    assert killed_in(places, 64) == "box"


def killed_in(places: CgroupParents, limit_mib: int) -> str:
    """Whose limit a child reaches that uses 256 MiB in a box with this limit."""
    group = ControlGroup(places, spec(("memory",), Limits(memory_bytes=limit_mib * MIB)))
    pid = os.fork()
    if pid == 0:
        group.join()
        kept = bytearray(256 * MIB)
        os._exit(len(kept) == 0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    found = group.memory_kill()
    assert group.remove()
    return found


def test_a_wall_without_a_controller_is_an_error(places: CgroupParents) -> None:
    bare = replace(places, controllers=(), separate={})
    with pytest.raises(OSError, match="no control group can limit"):
        ControlGroup(bare, spec(("pids",)))


def test_what_dead_owners_left_is_swept(places: CgroupParents) -> None:
    read, write = os.pipe()
    owner = os.fork()
    if owner == 0:
        group = ControlGroup(places, spec(("freezer",)))
        hiding = os.fork()
        if hiding == 0:
            group.join()
            os.write(write, f"{os.getpid()}\n".encode())
            signal.pause()
        os._exit(0)
    hidden = int(os.read(read, 100))
    os.waitpid(owner, 0)
    folders = [Path(one) for one in {places.unified, *places.separate.values()} - {""}]
    assert [one for folder in folders for one in folder.glob(f"warpboard-*-{owner}-*")]
    keeper.sweep_orphans(places)
    assert not [one for folder in folders for one in folder.glob(f"warpboard-*-{owner}-*")]
    assert comes_true(lambda: not linux.started_at(hidden) or is_zombie(hidden))
    os.close(read)
    os.close(write)


def is_zombie(pid: int) -> bool:
    """Whether a process is dead but not reaped."""
    try:
        return b") Z" in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True


def test_what_living_owners_have_is_left(places: CgroupParents) -> None:
    group = ControlGroup(places, spec(("freezer",)))
    keeper.sweep_orphans(places)
    assert all(folder.exists() for folder in group._folders.values())
    assert group.remove()
