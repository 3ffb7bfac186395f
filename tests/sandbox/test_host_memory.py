"""The memory of a machine is that of the control group that we are in, where it has a limit."""

import os
import struct

import pytest

from harness.sandbox import cgroup_places, host_memory
from harness.sandbox.cgroup import Group
from harness.sandbox.spec import Limits, Spec

MIB = 1024**2
LIMIT = 700 * MIB


@pytest.fixture(scope="module")
def group() -> Group:
    places = cgroup_places.find()
    if "memory" not in places.walls():
        pytest.skip("no control group with a memory limit can be made here")
    spec = Spec(("memory",), Limits(memory_bytes=LIMIT), submission="/", main="")
    return Group(places, spec)


def test_without_a_limit_it_is_the_memory_of_the_machine() -> None:
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < host_memory.available_bytes() < host_memory.total_bytes() <= whole
    assert host_memory.sandbox_bytes_max() == host_memory.total_bytes() // 3


def test_the_limit_of_a_control_group_goes_before_the_memory_of_the_machine(group: Group) -> None:
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        group.join()
        used = bytearray(100 * MIB)
        figures = host_memory.total_bytes(), host_memory.available_bytes(), len(used)
        os.write(said, struct.pack("=qqq", *figures))
        os._exit(0)
    os.waitpid(pid, 0)
    total, available, used_bytes = struct.unpack("=qqq", os.read(heard, 24))
    os.close(heard)
    os.close(said)
    assert group.remove()
    assert total == LIMIT
    assert LIMIT // 2 < available <= LIMIT - used_bytes
