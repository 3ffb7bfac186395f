"""How an answer becomes an exit code and lines."""

from typing import Any

import pytest

from shared.api.cases import Case
from shared.presentation.outcome import (
    LOG_LINES_MAX,
    Run,
    failure_lines,
    first_failing,
    log_lines,
    outcome_lines,
)
from tests.cli.answers import ANSWER, PASSED, RANKED, WRONG, submission
from tests.support.api_examples import make_example
from warpboard.domain.output import worst
from warpboard.service.answers import local_lines
from warpboard.terminal.local_runs import local_exit_code
from warpboard.terminal.submissions import exit_code


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ANSWER, 0),
        (PASSED, 0),
        (PASSED | {"is_eligible": False}, 5),
        (PASSED | {"is_eligible": False, "mode": "test"}, 0),
        (WRONG, 1),
        (WRONG | {"verdict": "timed_out"}, 1),
        (WRONG | {"outcome": "infra_failed", "verdict": None}, 3),
    ],
)
def test_the_exit_code_tells_how_it_ended(answer: dict[str, Any], code: int) -> None:
    assert exit_code(submission(answer)) == code


def test_the_worst_of_several_ends_counts() -> None:
    assert worst([0, 5]) == 5
    assert worst([5, 1, 0]) == 1
    assert worst([1, 3, 5]) == 3


def test_a_ranked_end_names_score_interval_and_rank() -> None:
    assert outcome_lines(submission(PASSED)) == [
        "submission 12: passed (ranked on CPU) in 8.4 s",
        "score 12.34 µs (12.3 µs to 12.41 µs): measured alone",
        "rank 1 of matmul on CPU",
    ]


def test_a_score_says_what_it_is_worth() -> None:
    worth = {"tier": "C2", "level": "weak", "grade": "noisy", "is_provisional": True}
    ranking = RANKED | {"is_tied": True, "pooled_over": [12, 47], "run_us": 13.0}
    lines = outcome_lines(submission(PASSED | worth | {"ranking": ranking}))
    assert lines[1] == (
        "score 12.34 µs (12.3 µs to 12.41 µs), pooled over #12, #47; this run alone 13 µs"
        ": tier C2, isolation weak, grade noisy, provisional, measured alone"
    )
    assert lines[2] == (
        "rank 1= of matmul on CPU: "
        "the intervals of these entries overlap, or their sources are equal"
    )


def test_a_score_tells_its_speed_up_over_the_yardstick_with_the_interval() -> None:
    measured = {"yardstick_us": 22.7, "speedup": 1.8396, "speedup_interval": [1.829, 1.8455]}
    lines = outcome_lines(submission(PASSED | measured))
    assert lines[1] == (
        "score 12.34 µs (12.3 µs to 12.41 µs), 1.84 times as fast as the yardstick (1.83 to 1.85)"
    )


def test_a_run_that_stopped_early_says_so() -> None:
    reason = "stopped after one of three processes: at best 14 µs, your best is 12 µs"
    ranking = RANKED | {"status": "not_ranked", "rank": None, "is_eligible": False}
    ranking |= {"code": "stopped_early", "reason": reason}
    lines = outcome_lines(submission(PASSED | {"is_eligible": False, "ranking": ranking}))
    assert f"not ranked (stopped_early): {reason}" in lines


def test_what_is_held_says_so() -> None:
    ranking = {"status": "held", "is_eligible": False, "code": "suspicious", "reason": "too fast"}
    held = WRONG | {"verdict": "suspicious", "ranking": ranking}
    assert outcome_lines(submission(held))[-1] == "held for review (suspicious): too fast"


def test_the_first_wrong_elements_are_told() -> None:
    case = {
        "name": "size=65",
        "stage": "check",
        "verdict": "wrong_answer",
        "wrong": 1234,
        "mismatches": [{"index": "[3]", "got": "1.0", "expected": "2\x1b"}],
    }
    lines = outcome_lines(submission(WRONG | {"cases": [case]}))
    assert "  1,234 wrong, such as" in lines
    assert "  at [3]: got 1.0, expected 2\\x1b" in lines


def test_a_failed_end_names_the_first_failing_case_and_the_log() -> None:
    assert outcome_lines(submission(WRONG)) == [
        "submission 12: wrong_answer (ranked on CPU) in 8.4 s",
        "in stage check: a case failed",
        "case size=65: wrong_answer",
        "  3 differ",
        "it printed:",
        "  hello",
        "not ranked (check_failed)",
    ]


def test_a_worse_submission_is_told_from_a_refused_one() -> None:
    ranking = RANKED | {"code": "superseded", "rank": None}
    assert outcome_lines(submission(PASSED | {"ranking": ranking}))[-1] == (
        "not ranked: another submission of yours is better, matmul on CPU"
    )


def test_a_failure_of_the_platform_has_a_reason() -> None:
    lost = WRONG | {"outcome": "infra_failed", "verdict": None, "stage": None, "cases": []}
    lines = outcome_lines(submission(lost | {"reason": "the agent fell silent"}))
    assert lines[0].startswith("submission 12: infra_failed")
    assert lines[1] == "the agent fell silent"


def test_a_shown_failing_case_comes_before_a_hidden_one() -> None:
    hidden = make_example(
        Case, name="1", stage="hidden_check", verdict="wrong_answer", is_hidden=True
    )
    visible = make_example(Case, name="size=4", stage="check", verdict="crashed")
    skipped = make_example(Case, name="size=8", stage="check", verdict="skipped")
    assert first_failing([skipped, hidden, visible]) is visible
    assert first_failing([skipped, hidden]) is hidden
    assert first_failing([skipped]) is None


def test_a_hidden_case_is_not_named() -> None:
    cases = [{"name": "seed=7", "stage": "hidden_check", "verdict": "crashed", "is_hidden": True}]
    assert "seed=7" not in "\n".join(outcome_lines(submission(WRONG | {"cases": cases})))


def test_a_long_log_is_cut_to_its_end() -> None:
    run = Run(log_tail="".join(f"line {number}\n" for number in range(100)))
    lines = list(log_lines(run))
    assert len(lines) == LOG_LINES_MAX + 1
    assert lines[-1] == "  line 99"


def test_a_failed_build_tells_its_command_its_first_error_and_its_end() -> None:
    output = "".join(f"k.cpp:{number}: error: oops\n" for number in range(90))
    reason = f"build failed (compile_error): {output}"
    log = f"$ g++ -O3 k.cpp -o kernel\n{output}exit code 1\n"
    run = Run(verdict="compile_error", stage="build", reason=reason, log_head=log)
    place, _, command, first, *others, end = failure_lines(run)
    assert place == "in stage build: k.cpp:0: error: oops"
    assert (command, end) == ("  $ g++ -O3 k.cpp -o kernel", "  exit code 1")
    assert first == "  k.cpp:0: error: oops"
    assert len(others) == LOG_LINES_MAX - 2
    assert "  … 72 lines" in others


def test_a_compile_error_begins_with_the_line_of_the_error() -> None:
    output = "k.cu: In function 'int main()':\nk.cu:3:5: error: 'x' was not declared\n"
    run = Run(verdict="compile_error", stage="build", reason=output, log_head=f"$ g++\n{output}")
    assert next(failure_lines(run)) == "in stage build: k.cu:3:5: error: 'x' was not declared"
    text = '  File "k.py", line 1\n    def f(\n         ^\nSyntaxError: it was never closed'
    run = Run(verdict="compile_error", stage="build", reason=text)
    assert list(failure_lines(run)) == [
        "in stage build: SyntaxError: it was never closed",
        '    File "k.py", line 1',
        "      def f(",
        "           ^",
    ]


@pytest.mark.parametrize("index", ["[3]", "[0, 3]"])
def test_a_wrong_answer_is_told_once_in_short_numbers(index: str) -> None:
    got, expected = "1.2345678806304932", "-0.5000000001"
    message = f"1 of 16 values differ\nat {index}: got {got}, expected {expected}"
    mismatch = {"index": index, "got": got, "expected": expected}
    case: dict[str, Any] = {
        "name": "size=65",
        "stage": "check",
        "verdict": "wrong_answer",
        "message": message,
    }
    case |= {"wrong": 1, "mismatches": [mismatch]}
    reason = f"check failed (wrong_answer) on size=65: {message}"
    answer = submission(WRONG | {"verdict": "wrong_answer", "reason": reason, "cases": [case]})
    assert outcome_lines(answer)[1:3] == [
        "in stage check: check failed (wrong_answer) on size=65: 1 of 16 values differ",
        f"  at {index}: got 1.2346, expected -0.5",
    ]
    assert sum("1.2346" in line for line in outcome_lines(answer)) == 1
    other = {"index": "[9]", "got": "nan", "expected": "1.0"}
    case["mismatches"] = [mismatch, other]
    answer = submission(WRONG | {"verdict": "wrong_answer", "reason": reason, "cases": [case]})
    assert outcome_lines(answer)[2:4] == [
        f"  at {index}: got 1.2346, expected -0.5",
        "  at [9]: got nan, expected 1.0",
    ]


def test_what_a_submission_prints_cannot_move_the_cursor() -> None:
    assert list(log_lines(Run(log_tail="a\x1b[2Jb")))[1] == "  a\\x1b[2Jb"


def test_a_run_here_without_a_verdict_is_our_failure() -> None:
    assert local_exit_code(Run(verdict=None, reason="no harness")) == 3
    assert local_exit_code(Run(verdict="passed")) == 0
    assert local_exit_code(Run(verdict="crashed")) == 1


def test_a_run_here_tells_its_score() -> None:
    run = Run(verdict="passed", took_s=2.0, level="none", tier="C2")
    assert local_lines("k.py", "benchmark", run, 4560.0) == [
        "k.py: passed (benchmark, isolation none, tier C2) in 2.0 s",
        "score 4.56 ms",
    ]


def test_a_run_here_tells_what_went_wrong() -> None:
    run = Run(verdict="compile_error", took_s=0.1, level="none", stage="build", reason="line 1")
    assert local_lines("k.py", "test", run, None)[1] == "in stage build: line 1"


def test_a_passed_run_that_is_not_eligible_says_why() -> None:
    ranking = RANKED | {"is_eligible": False, "code": "below_physical_floor", "rank": None}
    held = PASSED | {"is_eligible": False, "ranking": ranking | {"reason": "a time is zero"}}
    assert (
        outcome_lines(submission(held))[-1] == "not ranked (below_physical_floor): a time is zero"
    )


def test_a_message_that_the_reason_tells_is_told_once() -> None:
    answer = WRONG | {"reason": "check failed (wrong_answer) on size=65: 3 differ"}
    assert "\n".join(outcome_lines(submission(answer))).count("3 differ") == 1


def test_a_line_without_end_is_cut() -> None:
    lines = list(log_lines(Run(log_tail="x" * 100_000)))
    assert max(len(line) for line in lines) < 400
