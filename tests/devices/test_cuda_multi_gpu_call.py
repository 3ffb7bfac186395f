"""One call on several GPUs, on an imitated driver: no GPU has confirmed any of it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.devices.cuda.device import CudaDevice, time_by_host
from harness.devices.device import DeviceFault, RuleViolation
from harness.messages import CaseFailed

from .fake_driver import ECC_ERROR, EPOCH_NS, ILLEGAL_ADDRESS, KERNEL_FAULT, STEP_NS
from .fake_ranks import BYTES, POISON, STEPS_MAX, WORK_NS, Team, team


def test_every_rank_is_shown_its_input_and_its_answer_held() -> None:
    pair = team(WORK_NS, WORK_NS)
    pair.volley.shoot(pair)
    for rank in pair.ranks:
        assert rank.shared[:BYTES].eq(rank.device + 1).all()
        assert rank.snapshot.eq(rank.device + 2).all()


def test_the_time_of_a_call_is_that_of_its_slowest_rank() -> None:
    pair = team(WORK_NS, 4 * WORK_NS)
    shot = pair.volley.shoot(pair)
    assert 4 * WORK_NS <= 1000 * shot.time_us <= 4 * WORK_NS + 10 * STEP_NS
    assert shot.events_us == pytest.approx(shot.stamps_us, abs=10 * STEP_NS / 1000)


def test_clocks_that_are_an_hour_apart_are_never_compared() -> None:
    trio = team(WORK_NS, WORK_NS, WORK_NS)
    assert 1000 * trio.volley.shoot(trio).time_us < EPOCH_NS / 1000


def test_no_rank_starts_before_all_are_ready() -> None:
    pair = team(WORK_NS, WORK_NS)
    pair.machine.slow_ns["k_flush_write", 1] = 10 * WORK_NS
    shot = pair.volley.shoot(pair)
    flushed, started = pair.machine.when("k_flush_read"), pair.machine.when("k_stamp")
    assert max(flushed.values()) < min(started.values())
    assert shot.stagger_us <= 10 * STEP_NS / 1000


def test_the_stagger_bounds_how_far_apart_ranks_started() -> None:
    pair = team(WORK_NS, WORK_NS)
    # A device whose front end is slow to see the word.
    pair.machine.slow_ns["k_stamp", 1] = WORK_NS
    shot = pair.volley.shoot(pair)
    started, held = pair.machine.when("k_stamp"), pair.machine.when("k_witness")
    apart_ns = started[1] - started[0]
    assert apart_ns >= WORK_NS
    assert 1000 * shot.stagger_us >= apart_ns
    whole_ns = max(held.values()) - min(started.values())
    assert whole_ns <= 1000 * (shot.time_us + shot.stagger_us)


def test_a_rank_that_says_done_early_is_held_as_it_is() -> None:
    pair = team(WORK_NS, WORK_NS)
    pair.ranks[1].is_early = True
    pair.volley.shoot(pair)
    assert pair.ranks[0].snapshot.eq(2).all()
    assert pair.ranks[1].snapshot.eq(POISON).all()


def test_a_rank_that_writes_after_its_end_is_named() -> None:
    pair = team(WORK_NS, WORK_NS)
    pair.ranks[1].writes_late_ns = 2 * STEP_NS
    pair.machine.slow_ns["hold", 1] = 20 * STEP_NS
    with pytest.raises(RuleViolation, match=r"rank 1: \d+ places changed") as foul:
        pair.volley.shoot(pair)
    assert foul.value.verdict == "late_write"


def test_a_worker_that_never_ends_leaves_no_queue_waiting() -> None:
    pair = team(WORK_NS, WORK_NS)
    pair.is_deaf = True
    with pytest.raises(CaseFailed, match="no answer"):
        pair.volley.shoot(pair)
    assert not any(stream.queue for stream in pair.machine.streams.values())
    pair.is_deaf = False
    pair.volley.shoot(pair)
    assert all(rank.snapshot.eq(rank.device + 2).all() for rank in pair.ranks)


def test_ranks_that_never_came_to_be_enqueued_are_let_go() -> None:
    """Each gate opens for a worker that waits behind it."""
    pair = team(WORK_NS, WORK_NS)
    pair.is_gone = True
    with pytest.raises(CaseFailed, match="gone"):
        pair.volley.shoot(pair)
    for _ in range(STEPS_MAX):
        pair.machine.step()
    assert not any(stream.queue for stream in pair.machine.streams.values())


@pytest.mark.long
def test_a_worker_whose_fault_breaks_the_referees_context_has_crashed() -> None:
    ranks = team(WORK_NS)
    ranks.has_faulted = True
    for shoot in (ranks.volley.shoot, lambda window: ranks.referees[0].shoot(window, "strict")):
        with pytest.raises(CaseFailed) as caught:
            shoot(ranks)
        assert caught.value.verdict == "crashed"


@pytest.mark.parametrize(("error", "fault"), [(ILLEGAL_ADDRESS, KERNEL_FAULT), (ECC_ERROR, "")])
def test_a_device_whose_context_broke_is_unusable_and_says_if_a_kernel_did_it(
    error: int, fault: str
) -> None:
    one = team(WORK_NS)
    device = CudaDevice(is_frozen=True, runs_beside=True)
    device.referee = one.referees[0]
    assert device.is_usable()
    assert device.worker_fault() == ""
    one.machine.error = error
    assert not device.is_usable()
    assert device.worker_fault() == fault


def test_a_device_that_hangs_is_named_by_its_rank() -> None:
    pair = team(WORK_NS, WORK_NS)
    pair.machine.slow_ns["k_flush_read", 1] = 10**15
    with pytest.raises(DeviceFault, match="rank 1 did not get ready within 1 s"):
        pair.volley.shoot(pair)


def test_one_rank_of_several_can_be_called_alone() -> None:
    pair = team(WORK_NS, WORK_NS)
    first = Team(pair.machine, pair.ranks[:1])
    first.volley = pair.volley
    first.referees = pair.referees[:1]
    first.volley.shoot(first)
    assert pair.ranks[0].snapshot.eq(2).all()
    assert pair.ranks[1].snapshot.eq(0).all()


def test_without_a_gate_all_inputs_are_there_before_a_worker_runs() -> None:
    pair = team(WORK_NS, WORK_NS)
    for rank in pair.ranks:
        rank.is_gated = False
    devices = [_member(pair, rank) for rank in range(2)]
    shot = time_by_host(devices, pair)
    assert shot.way == "host"
    shown, worked = pair.machine.when("k_copy"), pair.machine.when("work")
    assert max(shown.values()) < min(worked.values())
    assert all(rank.snapshot.eq(rank.device + 2).all() for rank in pair.ranks)


def _member(pair: Team, rank: int) -> CudaDevice:
    """The part of a GPU that a call without a gate needs."""

    def synchronize() -> None:
        for _ in range(100):
            pair.machine.step()

    member: Any = SimpleNamespace(referee=pair.referees[rank], synchronize=synchronize)
    return cast("CudaDevice", member)
