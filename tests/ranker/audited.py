"""A log whose every run is signed and whose every decision follows, and the chain over it."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from nacl.signing import SigningKey

from ranker.domain.kept import Kept, kept
from ranker.domain.score import scored
from shared import chain, events, subjects
from shared.clock import new_id
from shared.event_log import New
from shared.events import AuditSealed, Fact, SubmissionFinished
from shared.memory import MemoryLog
from shared.signing import load_key, public_key, sign
from shared.wire import Envelope, Stamp, seal
from tests.support.lives import AGENT, T0, Life, publish
from tests.support.writers import written

DEMANDED = "ranked"


class Town:
    """Everything that happens, said as the services would say it."""

    def __init__(self, folder: Path) -> None:
        self.log = MemoryLog()
        self.at = T0
        self.agent = load_key(folder / "agent.key")
        self.sealer = load_key(folder / "seal.key")

    @property
    def seal_key(self) -> str:
        """What seals are checked with."""
        return public_key(self.sealer)

    async def found(self) -> "Town":
        """A problem, and an agent that may sign."""
        await publish(self.log)
        enrolled = events.AgentEnrolled(sign_key=public_key(self.agent), owner="op")
        await self.say(subjects.agent(AGENT), enrolled, "operator:op")
        return self

    async def say(self, agg: str, fact: Fact, actor: str = "service:test") -> int:
        """The next event."""
        return await self.append(self.envelope(agg, fact, actor))

    async def tell(self, agg: str, fact: Fact) -> int:
        """The next event, as who may write it says it."""
        where, actor = written(agg, fact)
        return await self.say(where, fact, actor)

    async def append(self, envelope: Envelope) -> int:
        """The next event, as it is."""
        return await self.log.append(New(envelope, None))

    def envelope(self, agg: str, fact: Fact, actor: str = "service:test") -> Envelope:
        """An event that was not said yet."""
        return seal(fact, agg, Stamp(new_id(), self.at, actor, "", ""))

    async def live(self, *lives: Life, key: SigningKey | None = None) -> None:
        """Whole lives with their ends, with runs signed by the agent or by another's key."""
        for life in lives:
            await self.run(life, key)
            await self.end(life)

    async def run(self, life: Life, key: SigningKey | None = None) -> None:
        """A life up to its verdict."""
        token = 0
        for agg, fact in life.facts():
            where, actor = written(agg, fact)
            envelope = self.envelope(where, fact, actor)
            if isinstance(fact, events.RunCompleted):
                sig = sign(key or self.agent, agg, token, bytes(envelope.data))
                envelope = msgspec.structs.replace(envelope, sig=sig)
            seq = await self.append(envelope)
            token = seq if isinstance(fact, events.JobAssigned) else token

    async def end(self, life: Life, score_us: float | None = None, code: str = DEMANDED) -> None:
        """The decision that follows from a life, or one that gives another score."""
        timed = life.completed().cases
        score = scored("last", timed, 0.0)
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
        """Seal what is there."""
        rows = chained(kept(event) for event in self.log.since(0))
        seq, h = rows[-1].seq, rows[-1].h
        assert h is not None, "every row is chained"
        agg = subjects.audit("seal")
        plain = self.envelope(agg, AuditSealed(seq=seq, chain=h.hex(), count=seq))
        sig = sign(key or self.sealer, agg, seq, bytes(plain.data))
        await self.append(msgspec.structs.replace(plain, sig=sig))

    def rows(self) -> list[Kept]:
        """The archive of it."""
        return chained(kept(event) for event in self.log.since(0))


def chained(log: Iterable[Kept]) -> list[Kept]:
    """Events with the chain up to each."""
    found, h = [], chain.START
    for one in log:
        h = chain.after(h, one.link)
        found.append(one._replace(h=h))
    return found
