"""A log of any length, as a busy platform would have written it, stored in large batches."""

import hashlib
import itertools
import random
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

from msgspec.structs import replace

from bench.noop_agent import time_us
from harness.vocabulary import MODES, PASSED
from scheduler.domain.state import Agent
from shared import subjects
from shared.event_log import EventLog, NewEvent
from shared.events import (
    Blob,
    CaseResult,
    Fact,
    JobAssigned,
    JobLeased,
    ProblemPublished,
    RunCompleted,
    RunStarted,
    StageResult,
    SubmissionFinished,
    SubmissionReceived,
)
from shared.subjects import derive_id, job_id_of
from shared.wire import EventMetadata, make_envelope

BATCH = 1000
AT_ONCE = 16
ACCOUNTS = 1000
AGENTS = 32
RUN_KEY = bytes([1]) * 32
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
PROBLEM, EMPTY, GPU = "identity", "empty", "H100"
CASES = ("size: 1", "size: 127", "size: 1024", "size: 4097", "size: 100003")
DRAWN_MODES = ("ranked", "ranked", "ranked", "test")

Told = tuple[str, Fact]


async def write(log: EventLog, count: int) -> int:
    """Append at least `count` events to an empty log, and return its last sequence.

    Every submission is finished: a ranker would append the ends of the others itself, and the
    log would grow while it is measured.
    """
    assert await log.last() == 0, "the log has events already"
    told = Histories().tell(count)
    versions: dict[str, int] = {}
    first = 1
    while batch := list(islice(told, BATCH)):
        events = [_new(one, first, first + place, versions) for place, one in enumerate(batch)]
        await (log.append_all(events) if len(events) > 1 else log.append(events[0]))
        first += len(batch)
    return first - 1


def new_events(count: int) -> Iterator[NewEvent]:
    """Yield `count` events, in order, as `write` would append them."""
    versions: dict[str, int] = {}
    for place, told in enumerate(islice(Histories().tell(count), count)):
        yield _new(told, 1, place + 1, versions)
        versions.clear()


def _new(told: Told, first: int, seq: int, versions: dict[str, int]) -> NewEvent:
    """An event of a batch; what the same batch says of a history before needs no expectation."""
    aggregate, fact = told
    submission = getattr(fact, "submission", "") or subjects.last_token(aggregate)
    history, actor = subjects.history_of(aggregate), "service:bench"
    if aggregate.startswith("report."):
        actor = f"agent:{aggregate.split('.')[1]}"
    stamp = EventMetadata(
        derive_id(aggregate, str(seq)), BEGAN + timedelta(seconds=seq), actor, submission, "bench"
    )
    version = versions.get(history, 0)
    versions[history] = seq
    return NewEvent(make_envelope(fact, aggregate, stamp), version if version < first else None)


class Histories:
    """Histories of finished submissions; one object continues one log from call to call."""

    def __init__(self) -> None:
        # No secret, and always the same.
        self._dice = random.Random(4)  # noqa: S311
        self._numbers = itertools.count()
        self._is_begun = False
        self._agents = {f"a{number}": Agent() for number in range(AGENTS)}
        self._free = deque(self._agents)

    def tell(self, count: int, accounts: int = ACCOUNTS) -> Iterator[Told]:
        """At first two problems, then interleaved submissions; none begins after `count` events."""
        written = 0
        if not self._is_begun:
            self._is_begun, written = True, 2
            yield _problem(PROBLEM)
            yield _problem(EMPTY)
        lives: list[Iterator[Told]] = []
        while written < count or lives:
            while written < count and len(lives) < AT_ONCE:
                lives.append(self._live(accounts))
            life = self._dice.choice(lives)
            told = next(life, None)
            if told is None:
                lives.remove(life)
            else:
                written += 1
                yield told

    def _live(self, accounts: int) -> Iterator[Told]:
        """A submission from its receipt to its end, one in eight of them wrong."""
        dice, name = self._dice, self._free.popleft()
        submission = derive_id(f"bench/{next(self._numbers)}", "submission")
        job, mode = job_id_of(submission), dice.choice(DRAWN_MODES)
        run = self._agents[name].next_run(name, 0)
        is_wrong = dice.random() < 0.125
        yield received(submission, mode, f"account{dice.randrange(accounts)}")
        yield from _given(submission, job, run, name)
        yield from _ran(subjects.report(name, run), submission, mode, is_wrong=is_wrong)
        yield _ended(submission, job, run, mode, is_wrong=is_wrong)
        self._agents[name].slots[0].last_run = run
        self._free.append(name)


def _problem(slug: str) -> Told:
    manifest = Blob(digest=hashlib.sha256(slug.encode()).hexdigest(), bytes=1000)
    fact = ProblemPublished(
        number=1,
        digest=manifest.digest,
        title=slug,
        manifest=manifest,
        files={"reference.py": manifest},
        gpus=["CPU", GPU],
        cases_count={"test": len(CASES), "benchmark": 1},
        ranking_by="last",
        budgets_s={"build": 60.0, "test": 60.0, "benchmark": 120.0, "ranked": 120.0},
        source_bytes_max=65536,
        languages=["python"],
        lang="py",
    )
    return subjects.problem(slug), fact


def _source(submission: str) -> Blob:
    return Blob(digest=hashlib.sha256(submission.encode()).hexdigest(), bytes=700)


def received(submission: str, mode: str, account: str) -> Told:
    """The beginning of a submission."""
    fact = SubmissionReceived(
        account=account,
        problem=PROBLEM,
        problem_number=1,
        problem_digest="0" * 64,
        gpu=GPU,
        mode=mode,
        source=_source(submission),
        name="kernel.py",
        deadline_at=BEGAN + timedelta(days=3650),
        via="http",
        request_hash="0" * 64,
    )
    return subjects.submission(submission), fact


def _given(submission: str, job: str, run: str, agent: str) -> Iterator[Told]:
    until = BEGAN + timedelta(days=3650)
    leased = JobLeased(run=run, agent=agent, attempt=1, lease_until_at=until, agents=[agent])
    yield subjects.job(job), leased
    assigned = JobAssigned(
        job=job,
        submission=submission,
        attempt=1,
        problem=PROBLEM,
        problem_digest="0" * 64,
        source=_source(submission),
        name="kernel.py",
        gpu=GPU,
        mode="ranked",
        session="session",
        lease_until_at=until,
        deadline_at=until,
    )
    yield subjects.run(agent, run), assigned


def _ran(aggregate: str, submission: str, mode: str, *, is_wrong: bool) -> Iterator[Told]:
    started = RunStarted(
        fingerprint="0" * 16,
        harness="2",
        level="strong",
        tier="C1",
        key_commit=hashlib.sha256(RUN_KEY).hexdigest(),
    )
    yield aggregate, started
    stages = MODES[mode].stages[: 2 if is_wrong else None]
    verdict = "wrong_answer" if is_wrong else "passed"
    results = [
        StageResult(
            stage=stage,
            verdict=verdict if stage == stages[-1] else PASSED,
            took_s=0.5,
            cases=len(CASES),
        )
        for stage in stages
    ]
    cases = [CaseResult(name=name, stage="check", verdict=verdict) for name in CASES]
    if "time" in stages:
        cases.append(_timed(submission))
    completed = RunCompleted(
        verdict=verdict,
        stage=stages[-1],
        reason="",
        cases=cases,
        took_s=2.0,
        key=RUN_KEY.hex(),
        environment={"cpu": "AMD EPYC", "python": "3.11.7", "torch": "2.13.0"},
        log_head="compiled in 0.4 s\n",
        stages=results,
    )
    yield aggregate, completed


def _timed(submission: str) -> CaseResult:
    times = time_us(_source(submission).digest)
    middle = sum(times) / len(times)
    return CaseResult(
        name="size: 4194304",
        stage="time",
        verdict="passed",
        time_us=middle,
        interval_us=(middle * 0.998, middle * 1.002),
        samples=400,
        process_us=times,
        error=0.001,
        freedom=22,
        grade="ok",
    )


def _ended(submission: str, job: str, run: str, mode: str, *, is_wrong: bool) -> Told:
    """The end of a submission, with a score if it is ranked."""
    end = SubmissionFinished(
        outcome="failed" if is_wrong else PASSED,
        is_eligible=False,
        code="check_failed" if is_wrong else "mode_not_ranked",
        reason="2 of 16 values differ" if is_wrong else "mode test is not ranked",
        job=job,
        run=run,
        verdict="wrong_answer" if is_wrong else PASSED,
    )
    if mode == "ranked" and not is_wrong:
        timed = _timed(submission)
        end = replace(
            end,
            is_eligible=True,
            code="ranked",
            reason="passed every case",
            score_us=timed.time_us,
            interval_us=timed.interval_us,
            process_us=timed.process_us,
            error=timed.error,
            freedom=timed.freedom,
            delta=0.003,
            grade="ok",
        )
    return subjects.submission(submission), end
