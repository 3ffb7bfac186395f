"""What a GPU referee decides, from numbers alone."""

from dataclasses import replace

import pytest

from harness.devices.cuda.rules import (
    MIB,
    Abilities,
    CallTiming,
    DeviceHealth,
    batch_size,
    choose_clock,
    choose_reveal,
    choose_tier,
    find_suspicion,
    find_unfitness,
    flush_bytes,
)

ALL = Abilities(
    has_memops=True, shares_memory=True, runs_beside=True, is_frozen=True, compute=(9, 0)
)
WELL = DeviceHealth(temperature_c=40, reasons=0x4, ecc_errors=0, foreign=())


def shots(way: str, *times_us: float) -> list[CallTiming]:
    return [CallTiming(way, time_us, time_us, time_us, is_armed=True) for time_us in times_us]


@pytest.mark.parametrize(
    ("lacks", "tier"),
    [
        ({}, "G1"),
        ({"runs_beside": False}, "G2"),
        ({"is_frozen": False}, "G2"),
        ({"compute": (7, 5)}, "G2"),
        ({"has_memops": False}, "G3"),
        ({"shares_memory": False}, "G0"),
        ({"shares_memory": False, "has_memops": False}, "G0"),
    ],
)
def test_a_tier_is_what_the_machine_can_keep(lacks: dict[str, object], tier: str) -> None:
    assert choose_tier(replace(ALL, **lacks)) == tier  # type: ignore[arg-type]  # by name


def test_time_slices_are_always_revealed_strictly() -> None:
    assert {choose_reveal("G2", 64 * MIB, draw) for draw in range(64)} == {"strict"}


def test_small_inputs_are_always_revealed_strictly() -> None:
    assert {choose_reveal("G1", MIB, draw) for draw in range(64)} == {"strict"}


def test_one_blanket_in_eight_is_a_spot_check() -> None:
    ways = [choose_reveal("G1", MIB + 1, draw) for draw in range(800)]
    assert ways.count("spot") == 100
    assert ways.count("blanket") == 700


def test_only_a_spot_check_is_kept_out_of_the_ranked_samples() -> None:
    assert shots("spot", 1.0)[0].flags == ("spot",)
    assert shots("strict", 1.0)[0].flags == ()
    assert shots("blanket", 1.0)[0].flags == ()


def test_a_call_that_never_armed_is_said_to_wait_for_its_host() -> None:
    assert CallTiming("blanket", 9.0, 9.0, 9.0, is_armed=False).flags == ("late",)


def test_two_clocks_that_disagree_raise_an_alarm() -> None:
    assert CallTiming("blanket", 100.0, 100.0, 150.0, is_armed=True).flags == ("clocks_disagree",)
    assert CallTiming("blanket", 100.0, 100.0, 103.0, is_armed=True).flags == ()


def test_honest_work_takes_the_same_however_it_is_revealed() -> None:
    calls = shots("blanket", 100.0, 101.0, 99.0) + shots("spot", 131.0, 129.0, 130.0)
    assert find_suspicion(calls, copy_us=30.0, null_spread_us=1.0) == ""


def test_work_done_before_the_reveal_is_suspicious() -> None:
    calls = shots("blanket", 20.0, 21.0, 19.0) + shots("spot", 131.0, 129.0, 130.0)
    assert "100.0 us" in find_suspicion(calls, copy_us=30.0, null_spread_us=1.0)


def test_two_odd_calls_are_no_evidence() -> None:
    calls = shots("blanket", 20.0, 21.0, 19.0) + shots("spot", 131.0, 129.0)
    assert find_suspicion(calls, copy_us=30.0, null_spread_us=1.0) == ""


def test_without_both_ways_there_is_nothing_to_compare() -> None:
    assert find_suspicion(shots("blanket", 20.0), 1.0, 1.0) == ""
    assert find_suspicion(shots("spot", 20.0), 1.0, 1.0) == ""
    assert find_suspicion([], 1.0, 1.0) == ""


@pytest.mark.parametrize(
    ("name", "cache_mib", "expected_mib"),
    [
        ("NVIDIA H200", 50, 120),
        ("NVIDIA H100 80GB HBM3", 50, 100),
        ("NVIDIA B200", 126, 252),
        ("AMD Instinct MI300X", 4, 512),
        ("NVIDIA RTX 6000 Ada", 96, 192),
        ("NVIDIA T4", 4, 32),
    ],
)
def test_a_flush_is_twice_the_cache_or_more(name: str, cache_mib: int, expected_mib: int) -> None:
    assert flush_bytes(name, cache_mib * MIB) == expected_mib * MIB


def test_a_coarse_timer_does_not_rank() -> None:
    assert [choose_clock(step) for step in (0, 32, 100, 101, 1000)] == [
        "events",
        "stamps",
        "stamps",
        "events",
        "events",
    ]


def test_a_power_cap_is_no_reason_to_throw_a_pass_away() -> None:
    assert find_unfitness(WELL, 0) == ""


@pytest.mark.parametrize("reasons", [0x08, 0x20, 0x40, 0x80, 0x24])
def test_a_slowdown_throws_the_pass_away(reasons: int) -> None:
    assert "slowdown" in find_unfitness(replace(WELL, reasons=reasons), 0) or reasons == 0x80


def test_new_memory_errors_throw_the_pass_away() -> None:
    assert find_unfitness(replace(WELL, ecc_errors=3), 3) == ""
    assert "1 uncorrected" in find_unfitness(replace(WELL, ecc_errors=4), 3)


def test_a_stranger_on_the_device_throws_the_pass_away() -> None:
    assert "7, 9" in find_unfitness(replace(WELL, foreign=(7, 9)), 0)


def test_a_batch_is_bounded_and_outlasts_the_cache() -> None:
    assert batch_size(1000.0, 1024 * MIB, 60 * MIB) == 8
    assert batch_size(0.01, 1, 60 * MIB) == 512
    assert batch_size(20.0, 4 * MIB, 60 * MIB) == 46
