"""What the platform decides before it sees a submission."""

from dataclasses import replace

import pytest

from harness.time.policy import Policy, policy_for
from harness.vocabulary import MODES, SUBMISSION_MODES


@pytest.mark.parametrize(
    ("mode", "processes"), [("test", 1), ("benchmark", 1), ("ranked", 3), ("duel", 5)]
)
def test_only_what_ranks_is_measured_in_several_processes(mode: str, processes: int) -> None:
    assert policy_for("cuda", mode).processes == processes


def test_participants_can_request_the_modes_that_have_a_summary() -> None:
    assert set(SUBMISSION_MODES) == {name for name, mode in MODES.items() if mode.summary}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_mode_has_a_policy(device: str) -> None:
    assert all(isinstance(policy_for(device, mode), Policy) for mode in SUBMISSION_MODES)


def test_an_unknown_device_has_no_policy() -> None:
    with pytest.raises(KeyError):
        policy_for("abacus", "ranked")


@pytest.mark.parametrize(
    ("device", "mode", "precision"),
    [("cpu", "ranked", 0.01), ("cuda", "ranked", 0.0025), ("cpu", "benchmark", 0.05)],
)
def test_each_mode_has_a_precision(device: str, mode: str, precision: float) -> None:
    assert policy_for(device, mode).precision == precision
    assert policy_for(device, mode, 0.02).precision == 0.02


@pytest.mark.parametrize(
    ("call_us", "calls"), [(0.0, 25), (5.0, 25), (400.0, 20), (1e3, 8), (3e3, 4), (1e6, 1)]
)
def test_a_block_has_as_many_calls_as_they_are_short(call_us: float, calls: int) -> None:
    assert policy_for("cpu", "ranked").calls(call_us) == calls


@pytest.mark.parametrize("call_us", [1e3, 3e3, 10e3, 20e3])
def test_the_blocks_before_the_first_look_fit_the_time(call_us: float) -> None:
    policy = replace(policy_for("cpu", "ranked"), wall_s=0.5)
    measured_us = 2 * policy.looks[0] * policy.calls(call_us) * call_us
    assert measured_us <= 1e6 * policy.wall_s
