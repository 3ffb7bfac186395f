"""What an operator may choose as a canary, and for a rejudge."""

import msgspec
import pytest

from ingest.agents import rules as agents
from ingest.reruns import rules as reruns
from ingest.submission_history import SubmissionHistory
from shared import subjects
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.events import (
    Fact,
    RejudgeRequested,
    Requires,
    SubmissionFinished,
    SubmissionReceived,
)
from shared.wire import EventMetadata, make_envelope
from tests.support.examples import example_event
from tests.support.lives import T0

R = "because"
RECEIVED = msgspec.structs.replace(example_event(SubmissionReceived), requires=Requires())
ITEM = example_event(RejudgeRequested).items[0]
EVERY_S, RATIO_MAX = 60, 1.2
PASSED = SubmissionFinished(outcome="passed", is_eligible=True, code="ok", reason="")


def given_submission(received: SubmissionReceived, *facts: Fact) -> SubmissionHistory:
    stamp = EventMetadata("e", T0, "service:test", "s1", "")
    history = [
        RecordedEvent(seq, make_envelope(fact, subjects.submission("s1"), stamp))
        for seq, fact in enumerate([received, *facts], 1)
    ]
    return SubmissionHistory("s1", received, history)


@pytest.mark.parametrize("outcome", ["failed", "infra_failed"])
def test_a_canary_must_have_passed(outcome: str) -> None:
    ended = SubmissionFinished(outcome=outcome, is_eligible=False, code="c", reason="")
    for submission in (given_submission(RECEIVED), given_submission(RECEIVED, ended)):
        with pytest.raises(Refused, match="must have passed"):
            agents.choose_canary(RECEIVED.gpu, submission, EVERY_S, RATIO_MAX)


def test_a_canary_has_the_gpu_type_of_its_pool() -> None:
    submission = given_submission(RECEIVED, PASSED)
    canary = agents.choose_canary(RECEIVED.gpu, submission, EVERY_S, RATIO_MAX)
    assert canary.every_s == EVERY_S
    with pytest.raises(Refused, match="but the pool is B200"):
        agents.choose_canary("B200", submission, EVERY_S, RATIO_MAX)


def test_a_canary_needs_one_gpu() -> None:
    received = msgspec.structs.replace(RECEIVED, requires=Requires(count=2))
    submission = given_submission(received, PASSED)
    with pytest.raises(Refused, match="this submission takes 2 GPUs: choose another"):
        agents.choose_canary(RECEIVED.gpu, submission, EVERY_S, RATIO_MAX)


DIGESTS = {1: "a", 2: "b", 3: "c"}


def rejudge_request(start: int | None = None, to: int | None = None) -> reruns.RejudgeRequest:
    return reruns.RejudgeRequest(
        problem="copy", select="all", reason=R, from_version=start, to_version=to
    )


@pytest.mark.parametrize(
    ("start", "to", "found"),
    [(None, None, (2, 3)), (1, None, (1, 3)), (None, 2, (1, 2)), (3, 1, (3, 1))],
)
def test_a_rejudge_defaults_to_the_last_two_versions(
    start: int | None, to: int | None, found: tuple[int, int]
) -> None:
    selection = rejudge_request(start, to)
    assert reruns.select_versions(selection, DIGESTS) == found


@pytest.mark.parametrize(("start", "to"), [(3, 3), (None, 1), (3, None), (9, 3), (1, 9)])
def test_a_rejudge_without_two_versions_is_refused(start: int | None, to: int | None) -> None:
    selection = rejudge_request(start, to)
    with pytest.raises(Refused) as refused:
        reruns.select_versions(selection, DIGESTS)
    assert refused.value.code == "bad_rejudge"


@pytest.mark.parametrize("count", [0, 401])
def test_a_rejudge_of_no_or_too_many_submissions_is_refused(count: int) -> None:
    selection = rejudge_request()
    with pytest.raises(Refused, match="selected"):
        reruns.request_rejudge(selection, DIGESTS, [ITEM] * count)
    assert len(reruns.request_rejudge(selection, DIGESTS, [ITEM] * 400).items) == 400
