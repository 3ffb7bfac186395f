"""A verdict counts only if its writer, signature, key and harness code are the run's own."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import structs

from ranker.audit.leaderboards import audit
from ranker.audit.report import report_lines
from ranker.postgres import SCHEMA, ReadModels
from shared import events, signing, subjects
from shared.api.audits import AuditReport, AuditRequest
from shared.clock import new_id
from shared.event_log import NewEvent
from shared.events import Fact, SubmissionFinished
from shared.postgres import connect
from shared.verdicts import verify_verdict
from shared.wire import Envelope, EventMetadata, make_envelope
from tests.ranker.audit_platform import AuditPlatform
from tests.ranker.test_audit import List
from tests.support.lives import AGENT, KEY, T0, Life, enrol, publish, registration, say
from tests.support.memory import MemoryLog
from tests.support.ranking import ranker_of, running
from tests.support.waits import eventually
from tests.support.writers import written

CODE = "c" * 64
LIFE = Life("s1", harness_code=CODE)
RUN = subjects.run(AGENT, LIFE.run)
Forge = Callable[[events.RunCompleted], events.RunCompleted]
FORGED: dict[str, tuple[str, str, Forge]] = {
    "another writer": ("wrong_writer", "service:ranker", lambda fact: fact),
    "another agent": ("wrong_writer", "agent:thief", lambda fact: fact),
    "another harness": (
        "unknown_harness",
        f"agent:{AGENT}",
        lambda fact: structs.replace(fact, environment={events.HARNESS_CODE: "0" * 64}),
    ),
    "no harness": (
        "unknown_harness",
        f"agent:{AGENT}",
        lambda fact: structs.replace(fact, environment={}),
    ),
    "a zero key": (
        "bad_key",
        f"agent:{AGENT}",
        lambda fact: structs.replace(fact, key="0" * 64),
    ),
    "another key": (
        "bad_key",
        f"agent:{AGENT}",
        lambda fact: structs.replace(fact, key="cd" * 32),
    ),
    "no key": ("bad_key", f"agent:{AGENT}", lambda fact: structs.replace(fact, key="")),
}
# Every reader drops an event in another's name, so that nothing is decided on it.
DROPPED = "wrong_writer"


@dataclass
class Ranked:
    """A ranker over an in-memory log."""

    log: MemoryLog

    async def begin(self) -> int:
        """Append a life up to its verdict; returns the sequence of the order."""
        await enrol(self.log)
        await say(self.log, subjects.agent(AGENT), registration(CODE))
        for aggregate, fact in LIFE.facts()[:4]:
            await say(self.log, aggregate, fact)
        return (await self.log.history(RUN))[0].seq

    def ends(self) -> Sequence[Fact]:
        """The end of the submission."""
        aggregate, events_ = subjects.submission(LIFE.id), self.log.since(0)
        return [item.fact for item in events_ if item.envelope.aggregate == aggregate][1:]


@pytest.fixture
async def ranked(postgres_dsn: str) -> AsyncIterator[Ranked]:
    log = MemoryLog()
    await publish(log)
    async with (
        await connect(postgres_dsn, SCHEMA) as writing,
        running(ranker_of(log, ReadModels(writing))),
    ):
        yield Ranked(log)


def completed(fact: events.RunCompleted, actor: str, token: int) -> Envelope:
    """A verdict signed with the agent's own key."""
    aggregate, _ = written(RUN, fact)
    envelope = make_envelope(fact, aggregate, EventMetadata(new_id(), T0, actor, "", ""))
    sig = signing.sign_verdict(KEY, RUN, token, bytes(envelope.data))
    return structs.replace(envelope, sig=sig)


@pytest.mark.server
@pytest.mark.parametrize("reason", FORGED)
async def test_a_forged_verdict_that_its_agent_signed_is_not_ranked(
    ranked: Ranked, reason: str
) -> None:
    code, actor, forge = FORGED[reason]
    token = await ranked.begin()
    forged = completed(forge(LIFE.completed()), actor, token)
    await ranked.log.append(NewEvent(forged, None))
    if code == DROPPED:
        honest = completed(LIFE.completed(), f"agent:{AGENT}", token)
        await ranked.log.append(NewEvent(honest, None))
        code = "ranked"
    (end,) = await eventually(ranked.ends)
    assert isinstance(end, SubmissionFinished)
    assert (end.code, end.is_eligible) == (code, code == "ranked")


@pytest.mark.server
async def test_an_honest_verdict_of_the_registered_harness_is_ranked(ranked: Ranked) -> None:
    token = await ranked.begin()
    honest = completed(LIFE.completed(), f"agent:{AGENT}", token)
    await ranked.log.append(NewEvent(honest, None))
    (end,) = await eventually(ranked.ends)
    assert isinstance(end, SubmissionFinished)
    assert end.code == "ranked"


async def audited(folder: Path, reason: str, *, is_counted: bool) -> tuple[AuditReport, int]:
    """Audit a log with a forged verdict; also returns the verdict's sequence."""
    _, actor, forge = FORGED[reason]
    platform = await AuditPlatform(folder).found()
    await platform.say(subjects.agent(AGENT), registration(CODE))
    for aggregate, fact in LIFE.facts()[:4]:
        await platform.tell(aggregate, fact)
    token = next(
        event.seq for event in platform.log.since(0) if event.envelope.type == "JobAssigned"
    )
    where, _ = written(RUN, LIFE.completed())
    envelope = platform.envelope(where, forge(LIFE.completed()), actor)
    sig = signing.sign_verdict(platform.agent, RUN, token, bytes(envelope.data))
    seq = await platform.append(structs.replace(envelope, sig=sig))
    if is_counted:
        await platform.end(LIFE)
    question = AuditRequest("identity", "CPU", keys=[platform.seal_key])
    return await audit(question, List(platform.rows()), verify_verdict), seq


@pytest.mark.parametrize("reason", FORGED)
async def test_an_audit_is_not_clean_where_a_forged_verdict_counts(
    tmp_path: Path, reason: str
) -> None:
    report, seq = await audited(tmp_path, reason, is_counted=True)
    assert not report.is_clean
    named = {finding.seq for finding in (*report.findings, *report.ignored)}
    assert seq in named


@pytest.mark.parametrize("reason", FORGED)
async def test_an_audit_names_a_forged_verdict_that_counts_for_nothing(
    tmp_path: Path, reason: str
) -> None:
    report, seq = await audited(tmp_path, reason, is_counted=False)
    assert report.is_clean
    assert [item.seq for item in report.ignored] == [seq]
    assert f"ignored event {seq}" in "\n".join(report_lines(report))
