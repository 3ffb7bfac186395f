"""The memory of a machine is that of our control group, if that has a limit."""

import os
import struct

import pytest

from harness.sandbox import host
from harness.sandbox.box import BoxSpec, Limits
from harness.sandbox.keeper import ControlGroup

MIB = 1024**2
LIMIT = 700 * MIB


@pytest.fixture(scope="module")
def group() -> ControlGroup:
    places = host.find_cgroup_parents()
    if "memory" not in places.walls():
        pytest.skip("no control group with a memory limit can be made here")
    spec = BoxSpec(("memory",), Limits(memory_bytes=LIMIT), submission="/", main="")
    return ControlGroup(places, spec)


def test_without_a_limit_it_is_the_memory_of_the_machine() -> None:
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < host.available_bytes() < host.total_bytes() <= whole
    assert host.sandbox_bytes_max() == host.total_bytes() // 3


def test_the_limit_of_a_control_group_goes_before_the_memory_of_the_machine(
    group: ControlGroup,
) -> None:
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        group.join()
        used = bytearray(100 * MIB)
        figures = host.total_bytes(), host.available_bytes(), len(used)
        os.write(said, struct.pack("=qqq", *figures))
        os._exit(0)
    os.waitpid(pid, 0)
    total, available, used_bytes = struct.unpack("=qqq", os.read(heard, 24))
    os.close(heard)
    os.close(said)
    assert group.remove()
    assert total == LIMIT
    assert LIMIT // 2 < available <= LIMIT - used_bytes
