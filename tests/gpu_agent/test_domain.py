"""What an agent says of a run fits into an event, whatever the submission printed."""

import pytest

from gpu_agent.domain import FACT_BYTES_MAX, Outcome, ended
from shared.events import CaseResult, RunCompleted, RunFailed
from shared.wire import EVENT_BYTES_MAX, encode


def outcome(text: str, cases: int, failure_code: str = "") -> Outcome:
    return Outcome(
        verdict="crashed",
        stage="check",
        reason=text,
        took_s=1.0,
        key="k" * 64,
        cases=[
            CaseResult(name=f"size={n}" * 30, stage="check", verdict="crashed", message=text)
            for n in range(cases)
        ],
        log_head=text,
        log_tail=text,
        failure_code=failure_code,
    )


@pytest.mark.parametrize("text", ["", "x" * 10_000, "\x01" * 10_000, "\U000e0001" * 10_000])
@pytest.mark.parametrize("cases", [0, 10, 200])
def test_a_verdict_fits_into_an_event_with_all_its_cases(text: str, cases: int) -> None:
    fact = ended(outcome(text, cases), {"torch": "2"}, None, None)
    assert isinstance(fact, RunCompleted)
    assert len(encode(fact)) <= FACT_BYTES_MAX < EVENT_BYTES_MAX
    assert len(fact.cases) == cases


def test_short_texts_are_kept_whole() -> None:
    fact = ended(outcome("it is 3, not 4", 5), {}, None, None)
    assert isinstance(fact, RunCompleted)
    assert {case.message for case in fact.cases} == {"it is 3, not 4"}


def test_a_failure_of_ours_has_no_verdict() -> None:
    fact = ended(outcome("the check raised", 0, "problem_fault"), {}, None, None)
    assert isinstance(fact, RunFailed)
    assert (fact.code, fact.reason) == ("problem_fault", "the check raised")
