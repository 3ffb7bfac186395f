"""`warpboard evaluate` on a platform."""

from pathlib import Path

import pytest

from tests.cli.test_evaluate import END_S_MAX, read_results, start, wait_for_results, write_sources
from tests.support.platform import Running

pytestmark = pytest.mark.long


def test_a_platform_evaluates_what_a_killed_call_began(platform: Running, tmp_path: Path) -> None:
    sources, out = write_sources(tmp_path, 40), tmp_path / "results.jsonl"
    terms = (
        "identity",
        sources,
        "--out",
        out,
        "--url",
        platform.url,
        "--as",
        "ada",
        "--gpu",
        "CPU",
    )
    process = start(*terms, "--as", "evaluator")
    wait_for_results(out, 1)
    process.kill()
    process.communicate(timeout=END_S_MAX)
    process = start(*terms, "--as", "evaluator")
    printed, errors = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 0, errors
    assert "40 of 40 have a verdict: 26 passed, 14 wrong_answer" in printed
    ids = sorted(result["id"] for result in read_results(out))
    assert ids == sorted(f"k{number}" for number in range(40))
