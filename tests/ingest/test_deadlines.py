"""Until when one submits, and who says so."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.domain import problems
from ingest.service.room import Bounds
from shared.clock import now
from shared.errors import Refused
from shared.events import LeaderboardChanged
from shared.memory import MemoryLog
from shared.testing import eventually
from tests.ingest.taking_in import T0, counter
from tests.support.door import ADA, KERNEL, Door, opened

DEADLINES = st.none() | st.integers(1, 9).map(lambda days: T0 + timedelta(days=days))
BOARD = "leaderboards/copy"


async def test_the_instant_of_its_event_decides_whether_it_came_in_time() -> None:
    async with counter(Bounds(at_once_max=1)) as found:
        await found.close_at(T0 + timedelta(hours=1))
        room = found.commands.intake.room
        early = await found.submit("k")
        async with room.place("eve"):
            late = asyncio.create_task(found.refusal())
            again = asyncio.create_task(found.submit("k"))
            await eventually(lambda: room.waiting == 2)
            found.pass_(hours=1)
        assert await late == "deadline_passed"
        assert await again == early
        assert all(
            one.envelope.at < T0 + timedelta(hours=1)
            for one in found.log.since(0)
            if one.envelope.type == "SubmissionReceived"
        )


async def test_a_deadline_that_is_moved_meanwhile_counts() -> None:
    async with counter(Bounds(at_once_max=1)) as found:
        room = found.commands.intake.room
        async with room.place("eve"):
            late = asyncio.create_task(found.refusal())
            await eventually(lambda: room.waiting == 1)
            await found.close_at(T0)
        assert await late == "deadline_passed"


@given(DEADLINES, DEADLINES)
def test_an_author_may_put_a_deadline_off_alone(
    before: datetime | None, after: datetime | None
) -> None:
    known = LeaderboardChanged(
        visibility=None, has_deadline=before is not None, deadline_at=before, reason="r"
    )
    state = problems.problems.fold([known])
    change = problems.Change(
        "r", has_deadline=after is not None, deadline_at=after, is_no_sooner=True
    )
    if after is not None and (before is None or after < before):
        with pytest.raises(Refused, match="an operator moves it so"):
            problems.problems.decide(change, state)
    else:
        facts = problems.problems.decide(change, state)
        assert problems.problems.fold([known, *facts]).deadline_at == after


@given(DEADLINES, DEADLINES, st.booleans())
def test_a_deadline_that_is_over_is_set_by_force_alone(
    before: datetime | None, after: datetime | None, is_forced: bool
) -> None:
    at = T0 + timedelta(days=5)
    known = LeaderboardChanged(
        visibility=None, has_deadline=before is not None, deadline_at=before, reason="r"
    )
    state = problems.problems.fold([known])
    change = problems.Change(
        "r", has_deadline=after is not None, deadline_at=after, is_forced=is_forced, at=at
    )
    if after is not None and after <= at and after != before and not is_forced:
        with pytest.raises(Refused, match="is over, and nothing would be taken in: name one ahead"):
            problems.problems.decide(change, state)
    else:
        facts = problems.problems.decide(change, state)
        assert problems.problems.fold([known, *facts]).deadline_at == after


@pytest.mark.server
async def test_a_leaderboard_is_not_made_closed_by_a_slip_of_the_pen(door: Door) -> None:
    before = len(door.log.since(0))
    answer = await door.publish(slug="over", deadline="2020-01-02")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert "the deadline 2020-01-02 00:00 UTC is over" in answer.json()["detail"]
    assert len(door.log.since(0)) == before


@pytest.mark.server
async def test_nobody_sees_others_sources_sooner_by_an_authors_will(door: Door) -> None:
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
async def test_a_file_that_is_still_coming_at_the_deadline_is_late() -> None:
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
