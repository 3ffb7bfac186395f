"""The lock of a device between run processes: who waits for whom, and who never does."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event

import pytest

from harness.devices.lock import (
    DeviceTurn,
    make_device_lock,
    open_device_lock,
    stop_sharing,
    try_share,
)

FORK = multiprocessing.get_context("fork")
WAIT_S_MAX = 20.0


@pytest.fixture
def lock() -> Iterator[tuple[int, int]]:
    """A lock that no process holds."""
    descriptors = make_device_lock()
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.fixture
def children() -> Iterator[list[BaseProcess]]:
    """The processes of a test, of which none outlives it."""
    started: list[BaseProcess] = []
    yield started
    for child in started:
        child.kill()
        child.join()


def turn(lock: tuple[int, int], wait_s_max: float = WAIT_S_MAX) -> DeviceTurn:
    """A run's own turn."""
    return DeviceTurn(open_device_lock(lock), wait_s_max)


def hold(lock: tuple[int, int], is_alone: bool, holds: Event, ends: Event) -> None:
    """Hold the device in a process until an event."""
    turn(lock).take(is_alone=is_alone)
    holds.set()
    ends.wait(WAIT_S_MAX)


def share_for_ever(lock: tuple[int, int], holds: Event) -> None:
    """Take the device and let it go, without a pause."""
    own = turn(lock)
    while True:
        own.take(is_alone=False)
        holds.set()
        own.release()


def start_holder(
    children: list[BaseProcess], lock: tuple[int, int], *, is_alone: bool
) -> tuple[BaseProcess, Event]:
    """Start a process that holds the device, and return what ends it."""
    holds, ends = FORK.Event(), FORK.Event()
    child = FORK.Process(target=hold, args=(lock, is_alone, holds, ends))
    child.start()
    children.append(child)
    assert holds.wait(WAIT_S_MAX)
    return child, ends


def test_checks_share_the_device(lock: tuple[int, int], children: list[BaseProcess]) -> None:
    start_holder(children, lock, is_alone=False)
    own = turn(lock)
    own.take(is_alone=False)
    assert not own.is_alone


@pytest.mark.parametrize(("theirs", "ours"), [(True, True), (True, False), (False, True)])
def test_a_run_that_holds_the_device_alone_excludes_others(
    lock: tuple[int, int], children: list[BaseProcess], theirs: bool, ours: bool
) -> None:
    _, ends = start_holder(children, lock, is_alone=theirs)
    with pytest.raises(TimeoutError, match="other runs used the device"):
        turn(lock, 0.1).take(is_alone=ours)
    ends.set()
    own = turn(lock)
    own.take(is_alone=ours)
    assert own.is_alone == ours
    assert own.waited_s < WAIT_S_MAX


def test_a_run_that_gave_up_leaves_the_device_to_others(
    lock: tuple[int, int], children: list[BaseProcess]
) -> None:
    start_holder(children, lock, is_alone=False)
    with pytest.raises(TimeoutError):
        turn(lock, 0.1).take(is_alone=True)
    turn(lock).take(is_alone=False)


def test_a_stream_of_checks_does_not_starve_a_timed_stage(
    lock: tuple[int, int], children: list[BaseProcess]
) -> None:
    for _ in range(4):
        holds = FORK.Event()
        child = FORK.Process(target=share_for_ever, args=(lock, holds))
        child.start()
        children.append(child)
        assert holds.wait(WAIT_S_MAX)
    own = turn(lock)
    for _ in range(10):
        own.take(is_alone=True)
        own.release()


def test_two_checks_that_go_on_to_be_timed_do_not_block_each_other(
    lock: tuple[int, int],
) -> None:
    first, second = turn(lock), turn(lock)
    first.take(is_alone=False)
    second.take(is_alone=False)
    second.release()
    first.take(is_alone=True)
    first.take(is_alone=False)
    second.take(is_alone=False)


def test_a_killed_run_releases_the_device(
    lock: tuple[int, int], children: list[BaseProcess]
) -> None:
    child, _ = start_holder(children, lock, is_alone=True)
    os.kill(child.pid or 0, signal.SIGKILL)
    turn(lock).take(is_alone=True)


def test_the_limit_counts_all_waits_of_a_run(
    lock: tuple[int, int], children: list[BaseProcess]
) -> None:
    start_holder(children, lock, is_alone=False)
    own = turn(lock, 0.1)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            own.take(is_alone=True)
    assert 0.1 <= own.waited_s < WAIT_S_MAX


def test_who_shares_the_device_learns_that_another_waits_to_have_it_alone(
    lock: tuple[int, int], children: list[BaseProcess]
) -> None:
    own, other = turn(lock), turn(lock)
    own.take(is_alone=False)
    other.take(is_alone=False)
    assert not own.is_wanted_alone()
    other.release()
    child = FORK.Process(target=hold, args=(lock, True, FORK.Event(), FORK.Event()))
    child.start()
    children.append(child)
    ends_at = time.monotonic() + WAIT_S_MAX
    while not own.is_wanted_alone():
        assert time.monotonic() < ends_at
    own.release()
    assert not own.is_wanted_alone()


def test_a_run_without_a_lock_is_alone() -> None:
    own = DeviceTurn(())
    own.take(is_alone=False)
    assert own.is_alone
    own.release()


def test_spare_boxes_are_made_beside_checks_and_never_while_a_run_is_timed(
    lock: tuple[int, int],
) -> None:
    own, other = open_device_lock(lock), turn(lock)
    other.take(is_alone=True)
    assert not try_share(own)
    other.release()
    assert try_share(own)
    with pytest.raises(TimeoutError):
        turn(lock, 0.05).take(is_alone=True)
    stop_sharing(own)
    other.take(is_alone=True)
    other.release()
    other.take(is_alone=False)
    assert try_share(own), "checks share the cores"
    other.release()
