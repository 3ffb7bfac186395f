"""Only the report that the agent of a check signed counts, and equal files need no second check."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from nacl.signing import SigningKey

from shared import events, signing, subjects
from shared.checks.request import REPORT_NAME
from shared.clock import new_id
from shared.event_log import NewEvent
from shared.events import Fact
from shared.wire import EventMetadata, make_envelope
from tests.support.door import ADA, FILES, OPERATOR, Door, opened
from tests.support.examples import clean_report
from tests.support.memory import MemoryLog
from tests.support.writers import written

SLUG, AGENT, RUN = "mine", "a1", "r1"
KEY, STRANGER = SigningKey(bytes([1]) * 32), SigningKey(bytes([2]) * 32)
T0 = datetime(2026, 1, 1, tzinfo=UTC)
FOREIGN_DIGEST = "f" * 64


@dataclass
class Clock:
    """A clock that tests set."""

    at: datetime = T0

    def __call__(self) -> datetime:
        return self.at


@dataclass
class Checking:
    """A door, and what an agent does with a check."""

    door: Door
    clock: Clock
    check: dict[str, Any] = field(default_factory=dict)

    async def request(self, **fields: Any) -> Any:
        """Ask for a check; return the status and the answer."""
        files = [("files", (name, data)) for name, data in FILES.items()]
        data = {"slug": SLUG, "gpu": ["CPU", "H100"]} | fields
        answer = await self.door.http.post("/v1/checks", data=data, files=files, headers=ADA)
        return answer.status_code, answer.json()

    async def begin(self) -> None:
        """Ask for a check, and give it to an agent."""
        status, self.check = await self.request()
        assert status == 202, self.check

    async def read(self) -> Any:
        """Return the check as its author sees it."""
        answer = await self.door.http.get(f"/v1/checks/{self.check['id']}", headers=ADA)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def publish(self) -> Any:
        """Publish what was checked; return the status and the answer."""
        path = f"/v1/checks/{self.check['id']}/publish"
        answer = await self.door.http.post(path, json={}, headers=ADA)
        return answer.status_code, answer.json()

    async def say(self, aggregate: str, fact: Fact, sig: str | None = None, **stamp: str) -> int:
        """Put an event of another service into the log; return its sequence."""
        place, actor = written(aggregate, fact)
        about = EventMetadata(new_id(), self.clock(), stamp.get("actor", actor), "", "")
        envelope = make_envelope(fact, stamp.get("place", place), about)
        return await self.door.log.append(
            NewEvent(msgspec.structs.replace(envelope, sig=sig), None)
        )

    async def run(
        self, key: SigningKey | None = KEY, *, digest: str = "", token: int = 0, **stamp: str
    ) -> None:
        """Let an agent run the check and report it clean, signed with a key."""
        run, job = subjects.run(AGENT, RUN), subjects.job_id_of(self.check["id"])
        soon = self.clock() + timedelta(minutes=1)
        enrolled = events.AgentEnrolled(sign_key=signing.public_key(KEY), owner="olga")
        await self.say(subjects.agent(AGENT), enrolled, actor="operator:olga")
        leased = events.JobLeased(run=RUN, agent=AGENT, attempt=1, lease_until_at=soon)
        await self.say(subjects.job(job), leased)
        blobs = self.door.commands.ports.blobs
        assigned = events.JobAssigned(
            job=job,
            submission=self.check["id"],
            attempt=1,
            problem=SLUG,
            problem_digest=digest or self.check["digest"],
            source=await blobs.put(b"{}"),
            name="check.json",
            gpu="H100",
            mode="check",
            session="s1",
            lease_until_at=soon,
            deadline_at=soon,
        )
        seq = await self.say(run, assigned)
        report = await blobs.put(clean_report(SLUG, FILES).encode())
        completed = events.RunCompleted(
            verdict="passed",
            stage="",
            reason="",
            cases=[],
            took_s=1.0,
            key="",
            environment={},
            artefacts=[events.Artefact(name=REPORT_NAME, media="application/json", blob=report)],
        )
        data = bytes(make_envelope(completed, run, EventMetadata("", T0, "", "", "")).data)
        sig = signing.sign_verdict(key, run, token or seq, data) if key else None
        await self.say(run, completed, sig, **stamp)
        await self.say(subjects.job(job), events.JobFinished(run=RUN, verdict="passed"))


@pytest.fixture
async def checking() -> AsyncIterator[Checking]:
    clock = Clock()
    async with opened(MemoryLog(), clock=clock) as door:
        yield Checking(door, clock)


async def test_a_report_that_its_agent_signed_is_published(checking: Checking) -> None:
    await checking.begin()
    assert (await checking.publish())[1]["code"] == "check_failed"
    await checking.run()
    check = await checking.read()
    assert (check["state"], check["tested_gpus"]) == ("clean", ["CPU", "H100"])
    status, published = await checking.publish()
    assert (status, published["digest"]) == (201, checking.check["digest"])


@pytest.mark.parametrize(
    "forgery",
    [
        {"key": None},
        {"key": STRANGER},
        # The signature of another order.
        {"token": 1},
        # The order was for other files.
        {"digest": FOREIGN_DIGEST},
        # A service, or another agent, writes in the place of the agent.
        {"actor": "service:ingest"},
        {"actor": "agent:a2"},
        {"place": subjects.run(AGENT, RUN)},
    ],
    ids=["unsigned", "foreign key", "other order", "other files", "service", "agent", "place"],
)
async def test_a_forged_report_is_no_result(checking: Checking, forgery: dict[str, Any]) -> None:
    await checking.begin()
    await checking.run(**forgery)
    check = await checking.read()
    assert check["state"] == "failed", check
    assert f"agent {AGENT} did not sign the report of this version" in check["text"]
    status, refusal = await checking.publish()
    assert (status, refusal["code"]) == (409, "check_failed")


async def test_a_revoked_agent_has_signed_nothing(checking: Checking) -> None:
    await checking.begin()
    await checking.run()
    assert (await checking.read())["state"] == "clean"
    answer = await checking.door.http.post(
        f"/v1/admin/agents/{AGENT}/revoke", json={"reason": "stolen"}, headers=OPERATOR
    )
    assert answer.status_code == 200, answer.text
    assert (await checking.read())["state"] == "failed"
    assert (await checking.publish())[0] == 409


async def test_equal_files_need_no_second_check_for_a_day(checking: Checking) -> None:
    await checking.begin()
    first = checking.check["id"]
    assert (await checking.request())[1]["id"] == first
    # Other GPU types, or another type to check on, are another check.
    assert (await checking.request(check_on="CPU"))[1]["id"] != first
    await checking.run()
    again = await checking.request()
    assert (again[1]["id"], again[1]["state"]) == (first, "clean")
    checking.clock.at += timedelta(hours=25)
    assert (await checking.request())[1]["id"] != first


async def test_a_check_that_failed_is_made_again(checking: Checking) -> None:
    await checking.begin()
    await checking.run(key=None)
    assert (await checking.request())[1]["id"] != checking.check["id"]


async def test_of_several_gpu_types_a_gpu_checks(checking: Checking) -> None:
    status, check = await checking.request()
    assert (status, check["gpu"], check["gpus"]) == (202, "H100", ["CPU", "H100"])
    assert (await checking.request(check_on="cpu"))[1]["gpu"] == "CPU"
    status, refusal = await checking.request(check_on="B200")
    assert (status, refusal["code"]) == (400, "unknown_gpu")
    assert "B200 is none of the leaderboards' GPU types CPU, H100" in refusal["detail"]
