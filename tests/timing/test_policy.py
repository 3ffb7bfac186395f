"""What the platform decides before it sees a submission."""

import pytest

from harness.messages import MODES
from harness.time.policy import Policy, policy_for, reference_slots


@pytest.mark.parametrize(
    ("mode", "processes"), [("test", 1), ("benchmark", 1), ("ranked", 3), ("duel", 5)]
)
def test_only_what_ranks_is_measured_in_several_processes(mode: str, processes: int) -> None:
    assert policy_for("cuda", mode).processes == processes


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_mode_has_a_policy(device: str) -> None:
    assert all(isinstance(policy_for(device, mode), Policy) for mode in MODES)


def test_an_unknown_device_has_no_policy() -> None:
    with pytest.raises(KeyError):
        policy_for("abacus", "ranked")


def test_a_stage_with_little_time_bounds_the_wall() -> None:
    assert policy_for("cpu", "ranked", 0.5).wall_s == 0.5
    assert policy_for("cpu", "ranked", 500.0).wall_s == policy_for("cpu", "ranked").wall_s


@pytest.mark.parametrize(("call_us", "calls"), [(5.0, 100), (19.0, 100), (21.0, 25), (2e5 + 1, 3)])
def test_a_block_is_as_long_as_its_calls_are_short(call_us: float, calls: int) -> None:
    assert policy_for("cuda", "ranked").calls(call_us, call_us / 1e6) == calls


def test_blocks_shrink_so_that_those_of_the_first_look_fit_the_budget() -> None:
    policy = policy_for("cpu", "ranked")
    calls = policy.calls(8000.0, 0.009)
    assert 3 <= calls < 25
    assert policy.looks[0] * calls * 8000.0 <= policy.device_s * 1e6


def test_no_block_is_shorter_than_three_calls() -> None:
    assert policy_for("cpu", "ranked", 0.01).calls(150_000.0, 10.0) == 3


def test_a_call_that_takes_no_time_still_has_a_block() -> None:
    assert policy_for("cpu", "ranked").calls(0.0, 0.0) == 100


@pytest.mark.parametrize("calls", [3, 4, 7, 12, 20, 25, 100])
def test_reference_kernels_run_inside_every_block(calls: int) -> None:
    slots = reference_slots(calls)
    assert 1 <= len(slots) <= 4
    assert 1 <= slots[0] <= slots[-1] <= calls
