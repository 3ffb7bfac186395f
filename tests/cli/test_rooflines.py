"""What the times of a run without a server amount to."""

import json

from warpboard.service.answers import with_roofline

MANIFEST = {
    "benchmarks": [{"name": "size=4", "args": {"size": 4}}],
    "roofline": {"bytes": "8*size", "cases": [{"bytes": 32.0}]},
}
CASES = [
    {"name": "size=4", "stage": "check", "verdict": "passed"},
    {"name": "size=4", "stage": "time", "verdict": "passed", "time_us": 0.5},
    {"name": "size=8", "stage": "time", "verdict": "passed", "time_us": 0.5},
]


def test_a_timed_case_says_its_rates_and_no_other_does() -> None:
    answer = with_roofline({"cases": CASES}, json.dumps(MANIFEST).encode(), "H200")
    rates = [case.get("roofline") for case in answer["cases"]]
    assert rates[0] is rates[2] is None
    assert rates[1]["bandwidth_gb_s"] == 0.064
    assert rates[1]["bound"] == "memory"


def test_a_problem_without_a_roofline_changes_nothing() -> None:
    answer = {"cases": CASES}
    assert (
        with_roofline(answer, json.dumps(MANIFEST | {"roofline": None}).encode(), "CPU") is answer
    )
