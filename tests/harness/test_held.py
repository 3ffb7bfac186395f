"""Timed cases that are held for review."""

from harness.messages import CaseReport
from harness.problem import Case
from harness.time.stage import report_timed_case
from tests.timing.measuring import one_case


def report_case(floor_us: float, doubt: str) -> CaseReport:
    return report_timed_case(Case("n=4", {}, floor_us), one_case(), doubt, {})


def test_a_case_that_the_device_doubts_is_held_and_says_why() -> None:
    report = report_case(0.0, "12.0 us where nothing can be seen beforehand")
    assert report.verdict == "suspicious"
    assert report.message == "12.0 us where nothing can be seen beforehand"


def test_a_case_that_nobody_doubts_has_passed() -> None:
    report = report_case(0.0, "")
    assert (report.verdict, report.message) == ("passed", "")


def test_a_case_below_its_floor_is_held_for_that() -> None:
    report = report_case(1e6, "something else")
    assert report.verdict == "suspicious"
    assert "below the floor" in report.message
