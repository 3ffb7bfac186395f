"""A log with signed runs and consistent decisions, and the chain over it."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from nacl.signing import SigningKey

from ranker.domain.score import compute_score
from ranker.domain.stored_log import CHAIN_START, StoredEvent, to_stored_event
from shared import events, subjects
from shared.clock import new_id
from shared.event_log import NewEvent
from shared.events import AuditSealed, Fact, SubmissionFinished
from shared.signing import load_key, public_key, sign_verdict
from shared.wire import Envelope, EventMetadata, make_envelope
from tests.support.lives import AGENT, T0, Life, publish
from tests.support.memory import MemoryLog
from tests.support.writers import written

DEMANDED = "ranked"


class AuditPlatform:
    """Writes events as the services would."""

    def __init__(self, folder: Path) -> None:
        self.log = MemoryLog()
        self.at = T0
        self.agent = load_key(folder / "agent.key")
        self.sealer = load_key(folder / "seal.key")

    @property
    def seal_key(self) -> str:
        """The public key of the seals."""
        return public_key(self.sealer)

    async def found(self) -> "AuditPlatform":
        """Publish a problem and enroll an agent that may sign."""
        await publish(self.log)
        enrolled = events.AgentEnrolled(sign_key=public_key(self.agent), owner="op")
        await self.say(subjects.agent(AGENT), enrolled, "operator:op")
        return self

    async def say(self, aggregate: str, fact: Fact, actor: str = "service:test") -> int:
        """Append an event."""
        return await self.append(self.envelope(aggregate, fact, actor))

    async def tell(self, aggregate: str, fact: Fact) -> int:
        """Append an event as the service that may write it."""
        where, actor = written(aggregate, fact)
        return await self.say(where, fact, actor)

    async def append(self, envelope: Envelope) -> int:
        """Append an envelope as it is."""
        return await self.log.append(NewEvent(envelope, None))

    def envelope(self, aggregate: str, fact: Fact, actor: str = "service:test") -> Envelope:
        """An event that is not appended yet."""
        return make_envelope(fact, aggregate, EventMetadata(new_id(), self.at, actor, "", ""))

    async def live(self, *lives: Life, key: SigningKey | None = None) -> None:
        """Append whole lives with their ends; runs are signed by the agent or with another key."""
        for life in lives:
            await self.run(life, key)
            await self.end(life)

    async def run(self, life: Life, key: SigningKey | None = None) -> None:
        """Append a life up to its verdict."""
        token = 0
        for aggregate, fact in life.facts():
            where, actor = written(aggregate, fact)
            envelope = self.envelope(where, fact, actor)
            if isinstance(fact, events.RunCompleted):
                sig = sign_verdict(key or self.agent, aggregate, token, bytes(envelope.data))
                envelope = msgspec.structs.replace(envelope, sig=sig)
            seq = await self.append(envelope)
            token = seq if isinstance(fact, events.JobAssigned) else token

    async def end(
        self,
        life: Life,
        score_us: float | None = None,
        code: str = DEMANDED,
        *,
        rule: str = "last",
    ) -> None:
        """Append the decision that follows from a life, or one with another score."""
        timed = life.completed().cases
        score = compute_score(rule, timed, 0.0)
        assert score is not None, "a life has a time"
        finished = SubmissionFinished(
            outcome="passed",
            is_eligible=life.mode == code == DEMANDED,
            is_held=code != DEMANDED,
            code=code,
            reason="passed every case",
            job=life.job,
            run=life.run,
            verdict="passed",
            score_us=score_us or score.score_us,
            process_us=score.process_us,
            error=score.error,
            freedom=score.freedom,
            delta=0.003,
        )
        await self.say(subjects.submission(life.id), finished, "service:ranker")

    async def seal(self, key: SigningKey | None = None) -> None:
        """Seal the log so far."""
        rows = chain_events(to_stored_event(event) for event in self.log.since(0))
        seq, h = rows[-1].seq, rows[-1].h
        assert h is not None, "every row is chained"
        aggregate = subjects.audit("seal")
        plain = self.envelope(aggregate, AuditSealed(seq=seq, chain=h.hex(), count=seq))
        sig = sign_verdict(key or self.sealer, aggregate, seq, bytes(plain.data))
        await self.append(msgspec.structs.replace(plain, sig=sig))

    def rows(self) -> list[StoredEvent]:
        """The archive of the log."""
        return chain_events(to_stored_event(event) for event in self.log.since(0))


def chain_events(log: Iterable[StoredEvent]) -> list[StoredEvent]:
    """The events with the chain up to each."""
    chained, h = [], CHAIN_START
    for event in log:
        h = event.chain_after(h)
        chained.append(event._replace(h=h))
    return chained
