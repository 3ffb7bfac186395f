"""Retimes: a noisy entry is timed again by itself, and a quiet result replaces the noisy one."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from msgspec import structs

from ranker.audit.command import read_entries
from ranker.audit.leaderboards import audit, find_differences
from ranker.domain.rows import LeaderboardKey
from ranker.domain.stored_log import to_stored_event
from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.postgres import SCHEMA, Reader, ReadModels
from ranker.service.progress import Live, ProjectionProgress
from ranker.service.retimes import Retimes
from shared import events, subjects
from shared.api.audits import AuditReport, AuditRequest
from shared.clock import now
from shared.event_log import RecordedEvent
from shared.nats.event_log import NatsLog
from shared.postgres import connect, create_pool
from shared.verdicts import verify_verdict
from tests.ranker.audit_platform import chain_events
from tests.ranker.replays import replayed
from tests.support.lives import Life, MeasuredLife, begin, live, problem, say
from tests.support.memory import MemoryBlobStore
from tests.support.ranking import ranker_of, running, settle
from tests.support.reading import as_
from tests.support.waits import eventually

pytestmark = pytest.mark.server

BOARD = LeaderboardKey("identity", "CPU", 1)
AT_ONCE = (0.0, 0.0, 0.0)
OWNER = as_("ada")
# The intervals of its processes are wide, as on a busy machine.
NOISY = MeasuredLife("s1", time_us=300.0, process_us=(280.0, 300.0, 640.0), grade="noisy")
QUIET = MeasuredLife("s1", time_us=100.0, process_us=(99.0, 100.0, 101.0))


@dataclasses.dataclass
class Board:
    """A ranker over a real log that times noisy runs again, and its read API."""

    log: NatsLog
    progress: ProjectionProgress
    http: httpx.AsyncClient
    reader: Reader
    retimes: Retimes

    async def settle(self) -> None:
        """Wait until everything is folded, decided and announced."""
        await settle(self.log, self.progress)

    async def history(self) -> list[RecordedEvent]:
        """The whole log."""
        last, feed = await self.log.last(), self.log.follow(0)
        read: list[RecordedEvent] = []
        while not read or read[-1].seq < last:
            read += await feed.take(1000)
        await feed.close()
        return read

    async def requests(self) -> list[tuple[str, events.RejudgeRequested]]:
        """The requests to time a run again, each with the id of its rejudge."""
        return [
            (event.envelope.aggregate.rpartition(".")[2], event.fact)
            for event in await self.history()
            if isinstance(event.fact, events.RejudgeRequested)
        ]

    async def count_after_look(self) -> int:
        """The number of requests once everything is folded and was looked at."""
        await self.settle()
        await self.retimes.look(now())
        return len(await self.requests())

    async def requested(self, count: int = 1) -> str:
        """The newest of so many requests."""

        async def newest() -> str:
            requests = await self.requests()
            return requests[-1][0] if len(requests) == count else ""

        return await eventually(newest)

    async def run_again(self, retime: str, life: Life) -> None:
        """Append the job of a request to its verdict, which ends as this life does."""
        for aggregate, fact in facts_of(retime, life):
            await say(self.log, aggregate, fact)

    async def end_of(self, retime: str) -> events.Fact:
        """How a request ended."""

        async def newest() -> events.Fact | None:
            fact = (await self.log.history(subjects.rejudge(retime)))[-1].fact
            is_end = isinstance(fact, events.RejudgeApplied | events.RejudgeDiscarded)
            return fact if is_end else None

        end = await eventually(newest)
        await self.settle()
        assert end is not None
        return end

    async def get(self, path: str) -> Any:
        """What the owner of the submissions reads."""
        answer = await self.http.get(path, headers=OWNER)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def rows(self) -> list[tuple[str, float, str, bool]]:
        """The entries, with their grades and whether they are provisional."""
        items = (await self.get("/v1/leaderboards/identity/CPU"))["items"]
        names = ("submission", "score_us", "grade", "is_provisional")
        return [tuple(item[name] for name in names) for item in items]

    async def audit(self) -> AuditReport:
        """Audit the leaderboard from the log alone, and compare it with what is shown."""
        stored = chain_events([to_stored_event(event) for event in await self.history()])

        class Copy:
            async def events(self) -> AsyncIterator[Any]:
                for event in stored:
                    yield event

            def findings(self) -> list[Any]:
                return []

        report = await audit(AuditRequest("identity", "CPU"), Copy(), verify_verdict)
        shown = await read_entries(self.reader, BOARD, now())
        assert find_differences(report.rows, shown) == []
        return report


def facts_of(retime: str, life: Life) -> list[tuple[str, events.Fact]]:
    """The events of a retime's job; the run is another for each retime."""
    job, run = subjects.job(f"job-{retime}"), f"again-{retime}"
    (_, queued), (_, leased), (order, assigned), (_, began), (_, ended), _ = life.side_facts()
    order = f"{order.rpartition('.')[0]}.{run}"
    changed = {"job": f"job-{retime}", "class_": "rejudge"}
    return [
        (job, structs.replace(queued, rejudge=retime)),
        (job, structs.replace(leased, run=run)),
        (order, structs.replace(assigned, **changed)),
        (order, began),
        (order, ended),
        (job, events.JobFinished(run=run, verdict=life.verdict)),
    ]


@asynccontextmanager
async def board_at(
    log: NatsLog, dsn: str, delays_s: tuple[float, ...] = AT_ONCE
) -> AsyncIterator[Board]:
    progress = ProjectionProgress()
    await begin(log)
    async with await connect(dsn, SCHEMA) as writing, create_pool(dsn, 1, 4, SCHEMA) as connections:
        ranker = ranker_of(log, ReadModels(writing), progress, retime_delays_s=delays_s)
        reader = Reader(connections)
        app = create_app(ReadSources(reader, progress, Live(), log.last, MemoryBlobStore()))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            running(ranker),
            httpx.AsyncClient(transport=transport, base_url="http://ranker") as http,
        ):
            yield Board(log, progress, http, reader, ranker.retimes)


@pytest.fixture
async def board(nats_log: NatsLog, postgres_dsn: str) -> AsyncIterator[Board]:
    async with board_at(nats_log, postgres_dsn) as board:
        await live(nats_log, NOISY)
        yield board


async def test_a_quiet_result_replaces_the_noisy_one(board: Board, postgres_dsn: str) -> None:
    retime = await board.requested()
    ((submission, _, grade, is_provisional),) = await board.rows()
    assert (submission, grade, is_provisional) == ("s1", "noisy", True)
    ((_, request),) = await board.requests()
    (item,) = request.items
    assert (item.submission, item.source) == ("s1", NOISY.blob)
    assert (request.from_number, request.to_number, request.to_digest) == (1, 1, "d" * 64)
    await board.run_again(retime, QUIET)
    assert isinstance(await board.end_of(retime), events.RejudgeApplied)
    ((submission, score_us, grade, _),) = await board.rows()
    assert (submission, grade) == ("s1", "ok")
    assert score_us == pytest.approx(100.0, rel=0.001)
    report = await board.audit()
    assert report.is_clean, report.findings
    assert (await replayed(postgres_dsn, board.log)).differences == []
    assert await board.count_after_look() == 1


async def test_a_noisy_run_is_timed_again_three_times_at_most(board: Board) -> None:
    await board.settle()
    before = await board.rows()
    for attempt in (1, 2, 3):
        retime = await board.requested(attempt)
        await board.run_again(retime, NOISY)
        assert isinstance(await board.end_of(retime), events.RejudgeDiscarded)
        assert await board.rows() == before
    reasons = [request.reason for _, request in await board.requests()]
    assert [reason.rpartition(", ")[2] for reason in reasons] == [
        f"attempt {attempt} of 3" for attempt in (1, 2, 3)
    ]
    assert await board.count_after_look() == 3


async def test_a_machine_that_stays_busy_counts_as_an_attempt(board: Board) -> None:
    retime = await board.requested()
    (job, queued), *_ = facts_of(retime, NOISY)
    await say(board.log, job, queued)
    await say(board.log, job, events.JobGivenUp(attempts=2, reason="9 threads on 2 cores"))
    end = await board.end_of(retime)
    assert isinstance(end, events.RejudgeDiscarded)
    assert "9 threads on 2 cores" in end.reason
    await board.run_again(await board.requested(2), QUIET)
    await eventually(lambda: _has_grade(board, "ok"))


async def _has_grade(board: Board, grade: str) -> bool:
    return [row[2] for row in await board.rows()] == [grade]


@pytest.mark.parametrize("verdict", ["wrong_answer", "timed_out", "suspicious"])
async def test_a_run_that_does_not_pass_again_replaces_nothing(board: Board, verdict: str) -> None:
    retime = await board.requested()
    await board.settle()
    before = await board.rows()
    await board.run_again(retime, dataclasses.replace(NOISY, verdict=verdict))
    assert isinstance(await board.end_of(retime), events.RejudgeDiscarded)
    assert await board.rows() == before


async def test_a_reader_of_the_submission_sees_that_it_was_timed_again(board: Board) -> None:
    await board.run_again(await board.requested(), NOISY)
    second = await board.requested(2)
    await board.run_again(second, QUIET)
    await board.end_of(second)
    received = next(
        event.seq for event in await board.history() if event.envelope.aggregate == "submission.s1"
    )
    page = await board.get(f"/v1/submissions/{received}")
    told = [
        (entry["type"], entry["note"])
        for entry in page["timeline"]
        if entry["note"].startswith(("timed again", "to be timed again"))
    ]
    assert told == [
        ("RetimeRequested", "to be timed again on a quiet machine, attempt 1 of 3"),
        ("RetimeDiscarded", "timed again: noisy again, so the earlier time stays"),
        ("RetimeRequested", "to be timed again on a quiet machine, attempt 2 of 3"),
        ("SubmissionRejudged", "timed again: 100 µs replaces a noisy time"),
    ]
    # The page shows the run that counts, with its cases.
    assert (page["grade"], page["run"]) == ("ok", f"again-{second}")
    assert [case["time_us"] for case in page["cases"]] == [pytest.approx(100.0)]
    assert page["score_us"] == pytest.approx(100.0, rel=0.001)
    answer = await board.http.get(
        f"/v1/submissions/{received}/events", headers={"Accept": "application/json"}
    )
    kinds = [event["type"] for event in answer.json()]
    assert kinds[-4:] == [kind for kind, _ in told]
    # The noisy attempt fixed no yardstick, the quiet one did.
    report = await board.audit()
    assert report.is_clean, report.findings


@pytest.mark.parametrize(
    ("aggregate", "fact"),
    [
        (subjects.moderation("s1"), events.SubmissionWithdrawn(reason="")),
        (subjects.moderation("s1"), events.SubmissionDisqualified(rule="r", reason="")),
        (subjects.account("ada"), events.AccountBanned(reason="", until_at=None)),
        (subjects.problem("identity"), events.LeaderboardArchived(reason="")),
        (subjects.problem("identity"), problem(number=2)),
    ],
    ids=["withdrawn", "disqualified", "banned", "archived", "older version"],
)
async def test_what_is_no_longer_ranked_is_not_timed_again(
    board: Board, aggregate: str, fact: events.Fact
) -> None:
    retime = await board.requested()
    await say(board.log, aggregate, fact)
    end = await board.end_of(retime)
    assert isinstance(end, events.RejudgeDiscarded)
    assert await board.count_after_look() == 1


async def test_a_better_entry_of_the_same_participant_ends_it(board: Board) -> None:
    retime = await board.requested()
    await live(board.log, MeasuredLife("s2", time_us=50.0, process_us=(50.0, 50.1, 50.2)))
    assert isinstance(await board.end_of(retime), events.RejudgeDiscarded)
    assert [row[0] for row in await board.rows()] == ["s2"]
    assert await board.count_after_look() == 1


async def test_a_closed_problem_is_not_timed_again(nats_log: NatsLog, postgres_dsn: str) -> None:
    async with board_at(nats_log, postgres_dsn) as board:
        closed = events.LeaderboardChanged(
            visibility="public", has_deadline=True, deadline_at=now(), reason="r"
        )
        await say(nats_log, subjects.problem("identity"), closed)
        await live(nats_log, NOISY)
        assert await board.count_after_look() == 0
        opened = structs.replace(closed, deadline_at=None)
        await say(nats_log, subjects.problem("identity"), opened)
        await board.requested()


async def test_an_attempt_waits_for_its_delay(nats_log: NatsLog, postgres_dsn: str) -> None:
    async with board_at(nats_log, postgres_dsn, (0.0, 3600.0)) as board:
        await live(nats_log, NOISY)
        retime = await board.requested()
        await board.run_again(retime, NOISY)
        await board.end_of(retime)
        assert await board.count_after_look() == 1
        await board.retimes.look(now() + timedelta(hours=1))
        assert len(await board.requests()) == 2


async def test_an_audit_finds_a_retime_that_no_run_gave(board: Board) -> None:
    retime = await board.requested()
    await live(board.log, MeasuredLife("s2", "grace", 90.0, process_us=(90.0, 90.0, 90.0)))
    await board.settle()
    ends = [event.fact for event in await board.history()]
    other = next(
        fact
        for fact in ends
        if isinstance(fact, events.SubmissionFinished) and fact.run == "run-s2"
    )
    aggregate = subjects.rejudge(retime)
    forged = structs.replace(other, run="run-none")
    await say(board.log, aggregate, events.RejudgeJudged(submission="s1", result=forged))
    assert isinstance(await board.end_of(retime), events.RejudgeApplied)
    report = await board.audit()
    assert [finding.what for finding in report.findings] == [
        "it counts, but no leased run run-none ended before it"
    ]


async def test_an_audit_ignores_a_forged_result_that_was_discarded(board: Board) -> None:
    retime = await board.requested()
    await board.settle()
    ends = [event.fact for event in await board.history()]
    end = next(fact for fact in ends if isinstance(fact, events.SubmissionFinished))
    forged = structs.replace(end, run="run-none", score_us=1.0)
    await say(
        board.log, subjects.rejudge(retime), events.RejudgeJudged(submission="s1", result=forged)
    )
    assert isinstance(await board.end_of(retime), events.RejudgeDiscarded)
    report = await board.audit()
    assert report.is_clean, report.findings
