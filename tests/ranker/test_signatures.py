"""Only runs signed by an enrolled agent are ranked."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import pytest
from nacl.signing import SigningKey

from ranker.postgres import SCHEMA, ReadModels
from shared import events, signing, subjects
from shared.clock import new_id
from shared.event_log import NewEvent
from shared.events import SubmissionFinished
from shared.postgres import connect
from shared.wire import EventMetadata, make_envelope
from tests.support.lives import AGENT, T0, Life, enrol, publish, say
from tests.support.memory import MemoryLog
from tests.support.ranking import ranker_of, running
from tests.support.waits import eventually
from tests.support.writers import written

pytestmark = pytest.mark.server
STRANGER = SigningKey(bytes([7]) * 32)


@dataclass
class Signed:
    """A ranker, and verdicts signed with any key."""

    log: MemoryLog

    async def end(self, life: Life, key: SigningKey | None = None) -> SubmissionFinished:
        """The end of a life whose verdict is signed with another key, if one is given."""
        for aggregate, fact in life.facts():
            if key is not None and isinstance(fact, events.RunCompleted):
                await self._forge(aggregate, fact, key)
            else:
                await say(self.log, aggregate, fact)
        ends = await eventually(lambda: self._ends(life.id))
        return ends[0]

    async def _forge(self, aggregate: str, fact: events.Fact, key: SigningKey) -> None:
        where, actor = written(aggregate, fact)
        envelope = make_envelope(fact, where, EventMetadata(new_id(), T0, actor, "", ""))
        token = (await self.log.history(aggregate))[0].seq
        sig = signing.sign_verdict(key, aggregate, token, bytes(envelope.data))
        await self.log.append(NewEvent(msgspec.structs.replace(envelope, sig=sig), None))

    def _ends(self, submission: str) -> list[SubmissionFinished]:
        return [
            event.fact
            for event in self.log.since(0)
            if isinstance(event.fact, SubmissionFinished)
            and event.envelope.aggregate == subjects.submission(submission)
        ]


@pytest.fixture
async def signed(postgres_dsn: str) -> AsyncIterator[Signed]:
    log = MemoryLog()
    await publish(log)
    async with (
        await connect(postgres_dsn, SCHEMA) as writing,
        running(ranker_of(log, ReadModels(writing))),
    ):
        yield Signed(log)


async def test_what_an_enrolled_agent_signed_is_ranked(signed: Signed) -> None:
    await enrol(signed.log)
    assert (await signed.end(Life("s1"))).code == "ranked"


async def test_what_another_signed_is_the_platforms_failure(signed: Signed) -> None:
    await enrol(signed.log)
    end = await signed.end(Life("s1"), STRANGER)
    assert (end.outcome, end.is_eligible, end.code) == ("infra_failed", False, "bad_signature")
    assert (end.score_us, end.verdict) == (None, None)


@pytest.mark.parametrize("verdict", ["passed", "wrong_answer"])
async def test_what_a_stranger_measured_is_the_platforms_failure(
    signed: Signed, verdict: str
) -> None:
    end = await signed.end(Life("s1", verdict=verdict))
    assert (end.outcome, end.is_eligible, end.code) == ("infra_failed", False, "agent_not_enrolled")
    assert (end.score_us, end.verdict) == (None, None)


async def test_what_counts_for_nothing_may_be_run_by_a_stranger(signed: Signed) -> None:
    end = await signed.end(Life("s1", mode="test"))
    assert (end.outcome, end.code) == ("passed", "mode_not_ranked")


async def test_an_agent_enrolled_after_its_run_answers_for_the_next_alone(signed: Signed) -> None:
    assert (await signed.end(Life("s1"))).code == "agent_not_enrolled"
    await enrol(signed.log)
    assert (await signed.end(Life("s2"))).code == "ranked"


async def test_a_revoked_agent_ranks_nothing_more(signed: Signed) -> None:
    await enrol(signed.log)
    await say(signed.log, subjects.agent(AGENT), events.AgentRevoked(reason="lost"))
    assert (await signed.end(Life("s1"))).code == "agent_not_enrolled"


async def test_a_new_key_takes_the_place_of_the_old(signed: Signed) -> None:
    await enrol(signed.log)
    fresh = events.AgentEnrolled(sign_key=signing.public_key(STRANGER), owner="test")
    await say(signed.log, subjects.agent(AGENT), fresh)
    assert (await signed.end(Life("s1"))).code == "bad_signature"
    assert (await signed.end(Life("s2"), STRANGER)).code == "ranked"
