"""Lives of submissions, said into a log as the services would say them."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec import Raw, structs
from nacl.signing import SigningKey

from shared import events, signing, subjects
from shared.clock import new_id
from shared.event_log import EventLog, NewEvent
from shared.events import (
    Artefact,
    Blob,
    CachedVerdict,
    CaseResult,
    Chunk,
    ChunkResult,
    Composition,
    Fact,
    Roof,
    StageResult,
)
from shared.subjects import chunk_job_id, job_id_of
from shared.wire import EventMetadata, make_envelope
from tests.support.writers import written

T0 = datetime(2026, 1, 1, tzinfo=UTC)
BLOB = Blob(digest="d" * 64, bytes=1)
AGENT = "a1"
# No life but one that means to is as fast as this floor.
ROOF = Roof(case="size=1", bytes=8e5, flops=1e5, dtype="fp32", floors_us={"": 1e-3})
KEY = SigningKey(bytes(32))
# Of every run: the key that opens its commitment.
RUN_KEY = "ab" * 32


@dataclass(frozen=True)
class Life:
    """What one submission will be: whose, how fast, and how its run ends."""

    id: str
    account: str = "ada"
    time_us: float = 100.0
    mode: str = "ranked"
    verdict: str = "passed"
    source: str = ""
    media: str = "application/octet-stream"
    normal_digest: str = ""
    process_us: tuple[float, ...] = ()
    artefact: Blob = BLOB
    problem_number: int = 1
    harness_code: str = ""
    grade: str = "ok"
    name: str = "kernel.py"
    toolchains: tuple[str, ...] = ()
    parent: int = 0
    gpu: str = "CPU"
    contest: str = ""
    contestant: str = ""
    is_practice: bool = False
    sent_at: datetime | None = None

    @property
    def blob(self) -> Blob:
        """Its source, by default its own."""
        return Blob(digest=(self.source or self.id).rjust(64, "0"), bytes=1, media=self.media)

    @property
    def job(self) -> str:
        """Its job."""
        return job_id_of(self.id)

    @property
    def run(self) -> str:
        """Its first run."""
        return f"run-{self.id}"

    def facts(self) -> list[tuple[str, Fact]]:
        """Everything up to the verdict, in order."""
        run = subjects.run(AGENT, self.run)
        return [
            (subjects.submission(self.id), self._received()),
            (
                subjects.job(self.job),
                events.JobLeased(run=self.run, agent=AGENT, attempt=1, lease_until_at=T0),
            ),
            (run, self._assigned()),
            (
                run,
                events.RunStarted(
                    fingerprint="f",
                    harness="1",
                    level="none",
                    tier="C2",
                    key_commit=hashlib.sha256(bytes.fromhex(RUN_KEY)).hexdigest(),
                ),
            ),
            (run, self.completed()),
        ]

    def side_facts(self) -> list[tuple[str, Fact]]:
        """The same run in a job that is not the submission's own, from its queue to its end."""
        queued = events.JobQueued(
            submission=self.id,
            account=self.account,
            problem="identity",
            problem_digest="d" * 64,
            gpu="CPU",
            mode=self.mode,
            deadline_at=T0,
            attempts_max=3,
            class_="rejudge",
        )
        finished = events.JobFinished(run=self.run, verdict=self.verdict)
        job = subjects.job(self.job)
        return [(job, queued), *self.facts()[1:], (job, finished)]

    def _received(self) -> Fact:
        return events.SubmissionReceived(
            account=self.account,
            problem="identity",
            problem_number=self.problem_number,
            problem_digest="d" * 64,
            gpu=self.gpu,
            mode=self.mode,
            source=self.blob,
            name=self.name,
            deadline_at=T0,
            via="http",
            normal_digest=self.normal_digest,
            requires=events.Requires(toolchains=list(self.toolchains)),
            parent=self.parent,
            contest=self.contest,
            contestant=self.contestant or (self.account if self.contest else ""),
            is_practice=self.is_practice,
            sent_at=self.sent_at,
        )

    def _assigned(self) -> Fact:
        return events.JobAssigned(
            job=self.job,
            submission=self.id,
            attempt=1,
            problem="identity",
            problem_digest="d" * 64,
            source=self.blob,
            name="kernel.py",
            gpu="CPU",
            mode=self.mode,
            session="s1",
            lease_until_at=T0,
            deadline_at=T0,
        )

    def _environment(self) -> dict[str, str]:
        return {"torch": "2"} | (
            {events.HARNESS_CODE: self.harness_code} if self.harness_code else {}
        )

    def completed(self) -> events.RunCompleted:
        """The verdict, with one timed case."""
        case = CaseResult(
            name="size=1",
            stage="time",
            verdict=self.verdict,
            message="nul \0 and \\u0000 are text",
            time_us=self.time_us,
            interval_us=(self.time_us * 0.9, self.time_us * 1.1),
            samples=10,
            process_us=list(self.process_us),
            freedom=22 if self.process_us else 0,
            grade=self.grade,
        )
        return events.RunCompleted(
            verdict=self.verdict,
            stage="time",
            reason="",
            cases=[case],
            took_s=1.0,
            key=RUN_KEY,
            environment=self._environment(),
            log_head="hello \0",
            log=BLOB,
            artefacts=[Artefact(name="profile.json", media="application/json", blob=self.artefact)],
            usage={"cpu_s": 0.5},
            stages=[StageResult(stage="check", verdict="passed", took_s=0.1, cases=1)],
        )


class DoubtedLife(Life):
    """A ranked run that a shortcut policy doubts."""

    def completed(self) -> events.RunCompleted:
        """The verdict, with a composition."""
        composition = Composition(shares={"torch": 1.0}, doubts=["aten::mm ran 1 times"])
        return structs.replace(super().completed(), composition=composition)


@dataclass(frozen=True)
class MeasuredLife(Life):
    """A run that was timed beside the yardstick, which took `yardstick_us` then."""

    yardstick_us: float = 200.0
    grade: str = "ok"
    stopped: str = ""

    def completed(self) -> events.RunCompleted:
        """The verdict, with one timed case."""
        completed = super().completed()
        (case,) = completed.cases
        case = structs.replace(case, yardstick_us=self.yardstick_us, grade=self.grade)
        return structs.replace(completed, cases=[case], stopped=self.stopped)


def evaluation_facts(id_: str) -> list[tuple[str, Fact]]:
    """An evaluation of six items in order: each ends in another way, and one verdict is cached.

    All evaluations have the same sources, so that the verdict of the first one stays.
    """
    requested = events.EvaluationRequested(
        account="ada",
        token="t1",
        problem="identity",
        problem_number=1,
        problem_digest="d" * 64,
        gpu="CPU",
        mode="test",
        source=BLOB,
        sources=[digit * 64 for digit in "012345"],
        chunk_items=2,
        item_s_max=5.0,
        deadline_at=T0,
        request_hash="",
        cached=[CachedVerdict(verdict="passed", results=BLOB, line=3)],
    )

    def chunk(first: int, count: int) -> Chunk:
        return Chunk(evaluation=id_, first=first, count=count)

    def leased(number: int, items: Chunk) -> Fact:
        return events.JobLeased(
            run=f"run-{id_}-{number}", agent=AGENT, attempt=1, lease_until_at=T0, chunk=items
        )

    def result(first: int, *verdicts: str) -> ChunkResult:
        results = Blob(digest=id_.rjust(64, "0"), bytes=1)
        return ChunkResult(
            evaluation=id_,
            first=first,
            verdicts=list(verdicts),
            results=results,
            harness="c" * 64,
            device_s=0.1,
        )

    first, second, third = (subjects.job(chunk_job_id(id_, item)) for item in (0, 2, 4))
    evaluation = subjects.evaluation(id_)
    requeued = events.JobRequeued(
        run=f"run-{id_}-1", reason="it ended early", chunk=chunk(1, 1), result=result(0, "passed")
    )
    lost = events.JobGivenUp(attempts=3, reason="it died", code="agents_lost", chunk=chunk(1, 1))
    judged = result(2, "wrong_answer", "timed_out")
    return [
        (evaluation, requested),
        (first, leased(1, chunk(0, 2))),
        (first, requeued),
        (second, leased(2, chunk(2, 2))),
        (first, leased(3, chunk(1, 1))),
        (second, events.JobFinished(run=f"run-{id_}-2", verdict="passed", result=judged)),
        (first, lost),
        (evaluation, events.EvaluationCancelRequested(reason="enough")),
        (third, events.JobCancelled(reason="enough", chunk=chunk(4, 1))),
        (
            evaluation,
            events.EvaluationFinished(
                outcome="cancelled", completed=4, failed=1, cancelled=1, device_s=0.3
            ),
        ),
    ]


def registration(harness_code: str = "") -> events.AgentRegistered:
    """What an agent of all lives offers."""
    details = {events.HARNESS_CODE: harness_code} if harness_code else {}
    return events.AgentRegistered(
        gpu="CPU",
        count=1,
        fingerprint="f",
        level="none",
        harness="1",
        details=details,
        modes=["test", "benchmark", "ranked"],
    )


async def say(log: EventLog, aggregate: str, fact: Fact, corr: str = "", at: datetime = T0) -> int:
    """Append a fact to whatever is there; a verdict is signed with the agent's key."""
    aggregate, actor = written(aggregate, fact)
    envelope = make_envelope(fact, aggregate, EventMetadata(new_id(), at, actor, corr, ""))
    if isinstance(fact, events.RunCompleted):
        envelope = structs.replace(envelope, sig=await signature(log, aggregate, envelope.data))
    return await log.append(NewEvent(envelope, None))


async def signature(log: EventLog, aggregate: str, data: Raw) -> str:
    """What the agent says of a verdict, for the assignment that its run began with."""
    assigned = await log.history(aggregate)
    token = assigned[0].seq if assigned else 0
    return signing.sign_verdict(KEY, subjects.history_of(aggregate), token, bytes(data))


async def enrol(log: EventLog, agent: str = AGENT) -> None:
    """Let an agent sign with the key of all tests."""
    enrolled = events.AgentEnrolled(sign_key=signing.public_key(KEY), owner="test")
    await say(log, subjects.agent(agent), enrolled)


async def begin(log: EventLog) -> None:
    """What every life needs: the agent that runs it, and the problem that it is about."""
    await enrol(log)
    await publish(log)


async def publish(log: EventLog) -> None:
    """The problem that every life is about."""
    await say(log, subjects.problem("identity"), problem())


def problem(number: int = 1) -> events.ProblemPublished:
    """A version of it."""
    return events.ProblemPublished(
        number=number,
        digest="d" * 64,
        title="Identity",
        manifest=BLOB,
        files={},
        gpus=["CPU"],
        cases_count={"tests": 1, "benchmarks": 1},
        ranking_by="last",
        budgets_s={"build": 1, "test": 1, "benchmark": 1, "ranked": 1},
        source_bytes_max=1000,
        roofs=[ROOF],
        lang="py",
    )


async def live(log: EventLog, *lives: Life, at: datetime = T0) -> None:
    """Say whole lives, one after the other."""
    for life in lives:
        for aggregate, fact in life.facts():
            await say(log, aggregate, fact, life.id, at)
