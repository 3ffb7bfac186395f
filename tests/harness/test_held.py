"""Timed cases that are held for review."""

from harness.time.stage import timed_case_report
from tests.timing.measuring import one_case


def test_a_case_that_the_device_doubts_is_held_and_says_why() -> None:
    report = timed_case_report(
        "n=4", 0.0, one_case(), "12.0 us where nothing can be seen beforehand"
    )
    assert report.verdict == "suspicious"
    assert report.message == "12.0 us where nothing can be seen beforehand"


def test_a_case_that_nobody_doubts_has_passed() -> None:
    report = timed_case_report("n=4", 0.0, one_case())
    assert (report.verdict, report.message) == ("passed", "")


def test_a_case_below_its_floor_is_held_for_that() -> None:
    report = timed_case_report("n=4", 1e6, one_case(), "something else")
    assert report.verdict == "suspicious"
    assert "below the floor" in report.message
