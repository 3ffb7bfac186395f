"""How an answer becomes an exit code and lines."""

from typing import Any

import pytest

from shared.api.cases import Case
from shared.presentation.failure import describe_failure, failure_lines, first_failing
from shared.presentation.outcome import LOG_LINES_MAX, Run, printed_lines
from shared.presentation.result_card import card_lines, make_result_card
from shared.presentation.units import TIED_LEGEND
from tests.cli.answers import ANSWER, PASSED, RANKED, WRONG, submission
from tests.support.api_examples import make_example
from warpboard.domain.output import worst
from warpboard.service.answers import local_lines
from warpboard.terminal.local_runs import local_exit_code
from warpboard.terminal.submissions import exit_code


def lines_of(answer: dict[str, Any]) -> list[str]:
    """Return what is shown at the end of a submission."""
    return card_lines(make_result_card(submission(answer)))


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
    assert lines_of(PASSED) == [
        "submission 12: passed (ranked on CPU) in 8.4 s",
        "score 12.34 ± 0.055 µs (12.3 µs to 12.41 µs)",
        "rank 1 of matmul on CPU",
        "measured: measured alone",
    ]


def test_a_score_says_what_it_is_worth() -> None:
    worth = {"tier": "C2", "level": "weak", "grade": "noisy", "is_provisional": True}
    ranking = RANKED | {"is_tied": True, "pooled_over": [12, 47], "run_us": 13.0}
    lines = lines_of(PASSED | worth | {"ranking": ranking})
    assert lines[1:] == [
        "score 12.34 ± 0.055 µs (12.3 µs to 12.41 µs), pooled over #12, #47; this run alone 13 µs",
        f"rank 1= of matmul on CPU: {TIED_LEGEND}",
        "measured: tier C2, isolation weak, grade noisy, provisional, measured alone",
    ]


def test_a_score_tells_its_speed_up_over_the_yardstick_with_the_interval() -> None:
    measured = {"yardstick_us": 22.7, "speedup": 1.8396, "speedup_interval": [1.829, 1.8455]}
    lines = lines_of(PASSED | measured)
    assert lines[-1] == "  yardstick  ━━━━━━━━━━━━━━━━━━━━  1.84x (1.83 to 1.85)"


def test_a_run_that_stopped_early_says_so() -> None:
    reason = "stopped after one of three processes: at best 14 µs, your best is 12 µs"
    ranking = RANKED | {"status": "not_ranked", "rank": None, "is_eligible": False}
    ranking |= {"code": "stopped_early", "reason": reason}
    lines = lines_of(PASSED | {"is_eligible": False, "ranking": ranking})
    assert f"not ranked (stopped_early): {reason}" in lines


def test_what_is_held_says_so_and_its_error_once() -> None:
    ranking = {"status": "held", "is_eligible": False, "code": "suspicious"}
    ranking |= {"reason": "held for review: it reads a clock"}
    held = WRONG | {"verdict": "suspicious", "cases": [], "reason": "it reads a clock"}
    lines = lines_of(held | {"ranking": ranking})
    assert lines[-1] == "held for review (suspicious)"
    assert "\n".join(lines).count("it reads a clock") == 1


@pytest.mark.feature("P14")
def test_the_first_wrong_elements_are_told() -> None:
    case = {
        "name": "size=65",
        "stage": "check",
        "verdict": "wrong_answer",
        "wrong": 1234,
        "mismatches": [{"index": "[3]", "got": "1.0", "expected": "2\x1b"}],
    }
    lines = lines_of(WRONG | {"cases": [case]})
    assert "1234 elements differ by more than rounding" in lines
    table = lines.index("  index  expected  got")
    assert lines[table + 1] == "  [3]       2\\x1b  1.0"


def test_failures_that_differ_in_their_numbers_are_one() -> None:
    cases = [
        {"name": f"n={n}", "stage": "check", "verdict": "wrong_answer", "message": message}
        for n, message in enumerate(
            ("got 0.5, expected -1.5", "got -2e-05, expected 3.0", "got nan, expected 1.0")
        )
    ]
    assert "3 of 3 cases" in lines_of(WRONG | {"cases": cases})


@pytest.mark.feature("N3")
def test_a_failed_end_names_the_first_failing_case_and_the_log() -> None:
    assert lines_of(WRONG) == [
        "submission 12: wrong answer (ranked on CPU) in 8.4 s",
        "3 differ",
        "1 of 2 cases: size=65",
        "Compare your kernel with the reference on this case, first at the elements above.",
        "it printed:",
        "  hello",
        "not ranked (check_failed)",
    ]


def test_a_worse_submission_is_told_from_a_refused_one() -> None:
    ranking = RANKED | {"code": "superseded", "rank": None}
    reason = "not ranked: another submission of yours is better, matmul on CPU"
    assert reason in lines_of(PASSED | {"ranking": ranking})


def test_a_failure_of_the_platform_has_a_reason() -> None:
    lost = WRONG | {"outcome": "infra_failed", "verdict": None, "stage": None, "cases": []}
    lines = lines_of(lost | {"reason": "the agent fell silent"})
    assert lines[0].startswith("submission 12: the platform failed, not the submission")
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
    assert "seed=7" not in "\n".join(lines_of(WRONG | {"cases": cases}))


def test_a_long_log_is_cut_to_its_end() -> None:
    run = Run(log_tail="".join(f"line {number}\n" for number in range(100)))
    lines = printed_lines(run)
    assert len(lines) == LOG_LINES_MAX + 1
    assert lines[-1] == "  line 99"


def test_a_compile_error_is_told_once_and_its_first_error_with_the_caret_first() -> None:
    errors = "".join(
        f"k.cu:{line}:5: error: oops {line}\n {line:4} | x\n      | ^\n" for line in range(3, 90)
    )
    output = f"k.cu: In function 'int main()':\n{errors}"
    log = f"$ nvcc -O3 k.cu -o kernel\n{output}exit code 1\n"
    reason = f"build failed (compile_error): {output}"
    run = Run(verdict="compile_error", stage="build", reason=reason, log_head=log)
    lines = failure_lines(describe_failure(run))
    assert lines[:4] == [
        "k.cu:3:5: error: oops 3",
        "    3 | x",
        "      | ^",
        "k.cu: In function 'int main()':",
    ]
    assert lines[-2:] == ["… 243 more lines", "Fix line 3, then submit the file again."]
    assert "\n".join(lines).count("oops 3\n") == 1


def test_a_linkers_error_names_no_folder_of_the_agent() -> None:
    output = "/usr/bin/ld: /tmp/box-7/k.o: in function `main': undefined reference to `f'"
    run = Run(verdict="compile_error", stage="build", reason=output, log_head=f"$ g++\n{output}")
    assert failure_lines(describe_failure(run))[0] == (
        "ld: k.o: in function `main': undefined reference to `f'"
    )


def test_a_syntax_error_comes_before_its_place_which_is_marked() -> None:
    text = '  File "k.py", line 1\n    def f(\n         ^\nSyntaxError: it was never closed'
    run = Run(verdict="compile_error", stage="build", reason=text)
    assert failure_lines(describe_failure(run)) == [
        "SyntaxError: it was never closed",
        "  k.py:1",
        "  > def f(",
        "         ^",
        "Fix line 1, then submit the file again.",
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
    answer = WRONG | {"verdict": "wrong_answer", "reason": reason, "cases": [case]}
    _, message, heading, row, *_ = lines_of(answer)
    assert message == "1 of 16 values differ"
    assert heading.split() == ["index", "expected", "got"]
    assert row.split() == [*index.split(), "-0.5", "1.2346"]
    other = {"index": "[9]", "got": "nan", "expected": "1.0"}
    case["mismatches"] = [mismatch, other]
    assert lines_of(answer)[3] == row
    assert lines_of(answer)[4].split() == ["[9]", "1.0", "nan"]


def test_what_a_submission_prints_cannot_move_the_cursor() -> None:
    assert printed_lines(Run(log_tail="a\x1b[2Jb"))[1] == "  a\\x1b[2Jb"


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
    assert local_lines("k.py", "test", run, None)[1] == "line 1"


def test_a_passed_run_that_is_not_eligible_says_why() -> None:
    ranking = RANKED | {"is_eligible": False, "code": "below_physical_floor", "rank": None}
    held = PASSED | {"is_eligible": False, "ranking": ranking | {"reason": "a time is zero"}}
    assert "not ranked (below_physical_floor): a time is zero" in lines_of(held)


def test_a_message_that_the_reason_tells_is_told_once() -> None:
    answer = WRONG | {"reason": "check failed (wrong_answer) on size=65: 3 differ"}
    assert "\n".join(lines_of(answer)).count("3 differ") == 1


def test_a_line_without_end_is_cut() -> None:
    lines = printed_lines(Run(log_tail="x" * 100_000))
    assert max(len(line) for line in lines) < 400
