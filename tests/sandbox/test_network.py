"""A socket tells the addresses of the network namespace that it was made in, whoever holds it."""

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

import pytest

from harness.sandbox.box import make_channel, receive_message, send_message
from harness.sandbox.probe import Isolation
from harness.supervisor.process import confine_process

from .forks import in_a_fork

SIOCGIFNAME, SIOCGIFCONF, SIOCGIFHWADDR = 0x8910, 0x8912, 0x8927
INTERFACES_MAX = 64
ROOM_BYTES = INTERFACES_MAX * 40
REQUEST = struct.Struct("ixxxxP")


def hardware_addresses(one: socket.socket) -> list[str]:
    """Of all interfaces that have one: a new namespace may have some without."""
    found = []
    for index in range(INTERFACES_MAX):
        try:
            named = fcntl.ioctl(one, SIOCGIFNAME, struct.pack("16si20x", b"", index))
        except OSError:
            continue
        answer = fcntl.ioctl(one, SIOCGIFHWADDR, struct.pack("16s24x", named[:16]))
        if any(address := answer[18:24]):
            found.append(address.hex(":"))
    return found


def addresses_bytes(one: socket.socket) -> int:
    """How much is told of IPv4 addresses."""
    room = ctypes.create_string_buffer(ROOM_BYTES)
    request = REQUEST.pack(ROOM_BYTES, ctypes.addressof(room))
    size, _ = REQUEST.unpack(fcntl.ioctl(one, SIOCGIFCONF, request))
    return int(size)


def socket_of_a_run(*, leaves_network: bool) -> socket.socket:
    """The end that a worker would get, of a pair made by a run, which is a fork of this process."""
    heard, said = make_channel()
    pid = os.fork()
    if pid == 0:
        try:
            confine_process((), leaves_network=leaves_network, has_gpu=False)
            _, theirs = make_channel()
            send_message(said, {}, [theirs.fileno()])
        finally:
            os._exit(0)
    with heard:
        said.close()
        message = receive_message(heard)
    os.waitpid(pid, 0)
    assert message is not None, "the run made no socket"
    return socket.socket(fileno=message[1][0])


def test_a_control_socket_tells_nothing_of_the_machine(isolation: Isolation) -> None:
    if "namespaces" not in isolation.walls:
        pytest.skip("no namespaces")
    with socket.socket(socket.AF_UNIX) as ours:
        if not addresses_bytes(ours):
            pytest.skip("this machine has no address to be told")
    with socket_of_a_run(leaves_network=True) as control:
        assert addresses_bytes(control) == 0
        assert hardware_addresses(control) == []


def test_a_run_that_stays_makes_sockets_that_tell() -> None:
    with socket_of_a_run(leaves_network=False) as control, socket.socket(socket.AF_UNIX) as ours:
        assert hardware_addresses(control) == hardware_addresses(ours)


@pytest.mark.skipif(os.getuid() == 0, reason="root gives up its capabilities with its account")
def test_an_ordinary_user_keeps_no_capability_in_a_namespace(isolation: Isolation) -> None:
    if "namespaces" not in isolation.walls:
        pytest.skip("no namespaces")

    def step() -> list[str]:
        confine_process((), leaves_network=True, has_gpu=False)
        lines = Path("/proc/thread-self/status").read_text().splitlines()
        return [line.split()[1] for line in lines if line.startswith("Cap")]

    # Inheritable, permitted, effective, bounding, ambient.
    assert {int(mask, 16) for mask in in_a_fork(step)} == {0}
