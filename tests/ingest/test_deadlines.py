"""Until when one submits, and who says so."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.problems import commands
from ingest.problems import rules as problems
from ingest.submissions.admission import AdmissionLimits
from shared.clock import now
from shared.errors import Refused
from shared.events import LeaderboardChanged
from tests.ingest.taking_in import T0, open_intake
from tests.support.door import ADA, KERNEL, Door, opened
from tests.support.memory import MemoryLog
from tests.support.waits import eventually

DEADLINES = st.none() | st.integers(1, 9).map(lambda days: T0 + timedelta(days=days))
BOARD = "leaderboards/copy"


@pytest.mark.feature("C8")
async def test_the_time_of_the_event_decides_about_the_deadline() -> None:
    async with open_intake(AdmissionLimits(at_once_max=1)) as intake:
        await intake.close_at(T0 + timedelta(hours=1))
        room = intake.commands.intake.admission.slots
        early = await intake.submit("k")
        async with room.admit("eve"):
            late = asyncio.create_task(intake.refusal())
            again = asyncio.create_task(intake.submit("k"))
            await eventually(lambda: room.waiting == 2)
            intake.advance(hours=1)
        assert await late == "deadline_passed"
        assert await again == early
        assert all(
            event.envelope.at < T0 + timedelta(hours=1)
            for event in intake.log.since(0)
            if event.envelope.type == "SubmissionReceived"
        )


@pytest.mark.feature("C8")
async def test_a_deadline_moved_meanwhile_counts() -> None:
    async with open_intake(AdmissionLimits(at_once_max=1)) as intake:
        room = intake.commands.intake.admission.slots
        async with room.admit("eve"):
            late = asyncio.create_task(intake.refusal())
            await eventually(lambda: room.waiting == 1)
            await intake.close_at(T0)
        assert await late == "deadline_passed"


@given(DEADLINES, DEADLINES)
def test_authors_may_only_postpone_a_deadline(
    before: datetime | None, after: datetime | None
) -> None:
    known = LeaderboardChanged(
        visibility=None, has_deadline=before is not None, deadline_at=before, reason="r"
    )
    state = problems.PROBLEM_DECIDER.fold([known])
    change = commands.Change(
        "r", has_deadline=after is not None, deadline_at=after, is_no_sooner=True
    )
    if after is not None and (before is None or after < before):
        with pytest.raises(Refused, match="ask an operator"):
            problems.PROBLEM_DECIDER.decide(change, state)
    else:
        facts = problems.PROBLEM_DECIDER.decide(change, state)
        assert problems.PROBLEM_DECIDER.fold([known, *facts]).deadline_at == after


@given(DEADLINES, DEADLINES, st.booleans())
def test_a_past_deadline_needs_force(
    before: datetime | None, after: datetime | None, is_forced: bool
) -> None:
    at = T0 + timedelta(days=5)
    known = LeaderboardChanged(
        visibility=None, has_deadline=before is not None, deadline_at=before, reason="r"
    )
    state = problems.PROBLEM_DECIDER.fold([known])
    change = commands.Change(
        "r", has_deadline=after is not None, deadline_at=after, is_forced=is_forced, at=at
    )
    if after is not None and after <= at and after != before and not is_forced:
        with pytest.raises(
            Refused, match="has passed, so nothing could be submitted: choose a later one"
        ):
            problems.PROBLEM_DECIDER.decide(change, state)
    else:
        facts = problems.PROBLEM_DECIDER.decide(change, state)
        assert problems.PROBLEM_DECIDER.fold([known, *facts]).deadline_at == after


@pytest.mark.server
async def test_a_mistyped_deadline_does_not_close_a_leaderboard(door: Door) -> None:
    before = len(door.log.since(0))
    answer = await door.publish(slug="over", deadline="2020-01-02")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert "the deadline 2020-01-02 00:00 UTC has passed" in answer.json()["detail"]
    assert len(door.log.since(0)) == before


@pytest.mark.server
async def test_authors_cannot_reveal_sources_early(door: Door) -> None:
    soon, later = ((now() + timedelta(days=days)).isoformat() for days in (1, 2))

    async def moved(at: str | None) -> int:
        body = {"deadline_at": at, "reason": "r"}
        return (await door.http.put(f"/v1/admin/{BOARD}", json=body, headers=ADA)).status_code

    assert [await moved(at) for at in (later, soon)] == [200, 200]
    await door.number()
    assert [await moved(at) for at in (later, soon, None, later)] == [200, 403, 200, 403]
    await door.said(await door.admin("PUT", BOARD, deadline_at=soon, reason="r"))
    assert await moved(later) == 200


@pytest.mark.server
async def test_an_upload_that_ends_after_the_deadline_is_late() -> None:
    ahead = timedelta()
    async with opened(MemoryLog(), clock=lambda: now() + ahead) as door:
        ends_at = now() + timedelta(hours=1)
        await door.admin("PUT", BOARD, deadline_at=ends_at.isoformat(), reason="r")

        async def slowly() -> AsyncIterator[bytes]:
            nonlocal ahead
            for name, value in (("problem", "copy"), ("gpu", "CPU"), ("mode", "test")):
                yield f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode()
                yield f"{value}\r\n".encode()
            yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="k.py"\r\n\r\n'
            yield KERNEL
            ahead = timedelta(hours=2)
            yield b"\r\n--b--\r\n"

        headers = ADA | {"Content-Type": "multipart/form-data; boundary=b"}
        answer = await door.http.post("/v1/submissions", content=slowly(), headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "deadline_passed")
        assert ends_at.isoformat()[:19] in answer.json()["detail"]
