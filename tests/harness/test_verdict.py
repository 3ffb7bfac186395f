"""How endings are described."""

import signal

import pytest

from harness import messages
from harness.messages import LINE_BYTES_MAX, CaseReport, RunReport, to_line
from harness.vocabulary import VERDICTS
from harness.worker.protocol import FAILURE_KINDS
from shared.presentation.report_parts import MARKS, WORDS

PASSED = CaseReport("n=1", "check", "passed")
CASES_MAX = 200  # of a run of any problem that can be published
WRONG = CaseReport("n=2", "check", "wrong_answer", "off by one")
SKIPPED = CaseReport("n=3", "check", "skipped")


def test_the_first_case_that_did_not_pass_decides() -> None:
    assert messages.first_failed([PASSED, WRONG, SKIPPED]) == WRONG
    assert messages.first_failed([PASSED]) is None


@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_every_failure_a_worker_can_tell_has_a_verdict(kind: str) -> None:
    failure = messages.worker_failure(kind, "text")
    assert failure.verdict in VERDICTS
    assert not failure.is_last


def test_every_verdict_has_its_words() -> None:
    assert {*VERDICTS, "infra_failed"} == MARKS.keys() | WORDS.keys()


def test_a_death_says_by_what() -> None:
    assert messages.status_failure(-signal.SIGKILL).message == "the process was killed by SIGKILL"
    assert messages.status_failure(-99).message == "the process was killed by 99"
    assert messages.status_failure(0).message == "the process exited with code 0"
    assert messages.status_failure(0).is_last


def test_a_hidden_case_keeps_its_verdict_and_loses_its_message() -> None:
    case = messages.hide_details(WRONG)
    assert (case.verdict, case.message, case.is_hidden) == ("wrong_answer", "", True)
    assert "n=2" not in messages.describe_outcome(case)


def test_messages_are_bounded_and_free_of_control_characters() -> None:
    text = messages.make_printable("\x1b[31m\u202e\ud800" + "y" * 3000)
    assert text.startswith("\\x1b[31m\\u202e\\ud800y")
    assert len(text) == 2000


def test_what_grows_by_escaping_is_bounded_too() -> None:
    assert len(messages.make_printable("\U000e0001" * 4000)) == 2000


@pytest.mark.parametrize("worst", ["\U0001f600", "\\", "\x00", "\ud800", "\n"])
def test_a_report_on_every_case_fits_a_line_whatever_a_worker_says(worst: str) -> None:
    failure = messages.worker_failure("exception", worst * 30_000)
    cases = [messages.failed_case_report("n" * 300, "check", failure)] * CASES_MAX
    log = "\ufffd" * 8192
    report = RunReport("crashed", "check", failure.message, 1.0, "0" * 64, cases, log, log)
    assert len(to_line(report)) < LINE_BYTES_MAX
