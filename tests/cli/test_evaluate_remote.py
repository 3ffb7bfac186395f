"""`warpboard evaluate` on a platform."""

import json
from pathlib import Path

import pytest

from tests.cli.command_runner import run_warpboard
from tests.cli.test_evaluate import END_S_MAX, read_results, start, wait_for_results, write_sources
from tests.support.platform import Running
from tests.support.waits import until

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
    assert not out.with_name("results.jsonl.unfinished").exists()
    results = read_results(out)
    ids = sorted(result["id"] for result in results)
    assert ids == sorted(f"k{number}" for number in range(40))
    (evaluation,) = {result["evaluation"] for result in results}
    assert sorted(result["item"] for result in results) == list(range(40))

    # What is known is not run again, and another run is another evaluation.
    other = tmp_path / "other.jsonl"
    names = ("--folder", platform.folder, "--as", "evaluator")
    process = start("identity", sources, "--out", other, *names, "--gpu", "CPU")
    printed, errors = process.communicate(timeout=END_S_MAX)
    assert "26 passed, 14 wrong_answer; 40 cached" in printed, errors
    (again,) = {result["evaluation"] for result in read_results(other)}
    assert again != evaluation
    shown = run_warpboard("evaluation", "show", again, *names)
    assert "cached" in shown.stdout.splitlines()[3], shown.output


def test_a_cancelled_evaluation_is_not_repeated_before_the_next_call(
    platform: Running, tmp_path: Path
) -> None:
    sources, out = write_sources(tmp_path, 2), tmp_path / "results.jsonl"
    names = ("--folder", platform.folder, "--as", "canceller")
    # No agent has this GPU type.
    process = start("identity", sources, "--out", out, *names, "--gpu", "T4")

    def find_batch() -> list[str]:
        listed = run_warpboard("evaluation", "list", *names, "--json")
        found = json.loads(listed.stdout)["items"] if listed.exit_code == 0 else []
        return [evaluation["id"] for evaluation in found]

    until(lambda: bool(find_batch()), within_s=END_S_MAX)
    (batch,) = find_batch()
    assert run_warpboard("evaluation", "cancel", batch, *names).exit_code == 0
    printed, errors = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 3, errors
    assert "no agent with T4 is alive" in errors
    assert "no verdict: k0: cancelled" in printed
    assert find_batch() == [batch]
