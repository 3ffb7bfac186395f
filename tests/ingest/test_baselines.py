"""Baselines: each runs once for a version and once more for each request, whatever dies."""

import asyncio

import pytest

from ingest.domain.baselines import WAIT_S_MAX
from shared import subjects
from shared.errors import Failed, Refused
from shared.event_log import New
from shared.events import (
    ProblemPublished,
    QuotaTaken,
    SubmissionCancelRequested,
    SubmissionFinished,
    SubmissionReceived,
)
from shared.ids import BASELINE_ACCOUNT
from shared.memory import MemoryLog
from shared.wire import Stamp, seal
from tests.ingest.taking_in import ANN, T0, Counter, counter
from tests.support.door import FILES, FINISHED, OPERATOR, opened, publication

EAGER = b"#!POPCORN gpus CPU H100\ndef custom_kernel(data):\n    return data\n"
OURS = {
    **FILES,
    "warpboard.yml": b"""\
baselines:
  - {name: eager, file: baselines/eager.py, note: "a copy"}
  - {name: cpp, file: baselines/fast.cpp}
milestones:
  - {id: twice, title: "Twice", when: {metric: vs_baseline.eager, op: ">=", value: 2}}
""",
    "baselines/eager.py": EAGER,
    "baselines/fast.cpp": b"// quick\nint main() {}\n",
}
FOUR = {("eager", "CPU"), ("eager", "H100"), ("cpp", "CPU"), ("cpp", "H100")}


def runs(log: MemoryLog) -> list[SubmissionReceived]:
    """What was sent in for baselines, in order."""
    facts = [one.fact for one in log.since(0)]
    return [one for one in facts if isinstance(one, SubmissionReceived) and one.baseline]


def is_run_of(fact: object, name: str) -> bool:
    """Whether a baseline was sent in by that."""
    return isinstance(fact, SubmissionReceived) and fact.baseline == name


async def publish(at: Counter) -> None:
    await at.commands.authors.publish(publication("copy", OURS), ANN)


async def end(at: Counter, baseline: str, fact: SubmissionFinished = FINISHED) -> None:
    """Let every run of a baseline end."""
    for one in at.log.since(0):
        if isinstance(one.fact, SubmissionReceived) and one.fact.baseline == baseline:
            agg = one.envelope.agg
            stamp = Stamp(f"end of {agg}", T0, "service:test", "", "")
            if len(await at.log.history(agg)) == 1:
                await at.log.append(New(seal(fact, agg, stamp), None))


async def test_a_new_version_is_measured_by_its_baselines_on_each_gpu_type() -> None:
    async with counter() as at:
        await publish(at)
        found = runs(at.log)
        assert {(one.baseline, one.gpu) for one in found} == FOUR
        one = next(one for one in found if one.baseline == "cpp")
        assert (one.account, one.mode, one.class_, one.bucket) == (
            BASELINE_ACCOUNT,
            "ranked",
            "rejudge",
            "",
        )
        assert one.requires.toolchains == ["g++"]
        assert (one.deadline_at - T0).total_seconds() > WAIT_S_MAX
        assert await at.blobs.get(one.source.digest) == OURS["baselines/fast.cpp"]
        version = [e.fact for e in at.log.since(0) if isinstance(e.fact, ProblemPublished)][-1]
        assert not {name for name in version.files if "baselines" in name}
        assert [one.id for one in version.milestones] == ["twice"]
        assert not [e for e in at.log.since(0) if isinstance(e.fact, QuotaTaken)]


async def test_publishing_the_same_again_runs_nothing_twice() -> None:
    async with counter() as at:
        await asyncio.gather(publish(at), publish(at))
        await publish(at)
        assert len(runs(at.log)) == 4


async def test_a_newer_version_leaves_no_baseline_of_the_one_before_waiting() -> None:
    async with counter() as at:
        await publish(at)
        await end(at, "eager")
        open_ones = [e.envelope.agg for e in at.log.since(0) if is_run_of(e.fact, "cpp")]
        newer = {**OURS, "baselines/eager.py": EAGER + b"# better\n"}
        await at.commands.authors.publish(publication("copy", newer), ANN)
        wished = [e for e in at.log.since(0) if isinstance(e.fact, SubmissionCancelRequested)]
        assert sorted(e.envelope.agg for e in wished) == sorted(open_ones)
        assert len(open_ones) == 2
        await at.commands.authors.publish(publication("copy", FILES), ANN)
        wished = [e for e in at.log.since(0) if isinstance(e.fact, SubmissionCancelRequested)]
        assert len(wished) == 2 + 4


class Dying(MemoryLog):
    """A log that takes so many events more, and is gone."""

    left = 1000

    async def append(self, event: New) -> int:
        self.left -= 1
        if self.left < 0:
            raise Failed("the power is gone")
        return await super().append(event)


async def test_who_died_between_a_version_and_its_baselines_makes_up_for_it() -> None:
    log = Dying()
    async with counter(log=log) as at:
        # One event is the version, two are runs.
        log.left = 3
        with pytest.raises(Failed):
            await publish(at)
        assert len(runs(log)) == 2
        log.left = 1000
        await publish(at)
        assert {(one.baseline, one.gpu) for one in runs(log)} == FOUR
        assert len(runs(log)) == 4


async def test_an_operator_runs_again_what_is_over_and_no_more() -> None:
    async with counter() as at:
        await publish(at)
        baselines = at.commands.baselines
        assert not any(one.is_new for one in await baselines.again("copy", "operator:olga"))
        await end(at, "eager")
        twice = await asyncio.gather(*(baselines.again("copy", "operator:olga") for _ in "ab"))
        new = [one for ordered in twice for one in ordered if one.is_new]
        assert sorted((one.name, one.gpu) for one in new) == [("eager", "CPU"), ("eager", "H100")]
        assert len(runs(at.log)) == 6
        history = await at.log.history(subjects.submission(new[0].submission))
        assert history[0].envelope.actor == "operator:olga"


async def test_a_problem_without_baselines_has_none_to_run() -> None:
    async with counter() as at:
        with pytest.raises(Refused, match="has no baselines"):
            await at.commands.baselines.again("copy", "operator:olga")


@pytest.mark.server
async def test_operators_ask_for_baselines_over_http() -> None:
    async with opened(MemoryLog()) as door:
        assert (await door.publish(OURS)).status_code == 201
        url, body = "/v1/admin/problems/COPY/baselines", {"reason": "a new driver"}
        answer = await door.http.post(url, json=body, headers=OPERATOR)
        assert answer.status_code == 202, answer.text
        said = answer.json()
        assert {(one["name"], one["gpu"], one["is_new"]) for one in said["items"]} == {
            (*one, False) for one in FOUR
        }
        assert door.log.since(0)[-1].envelope.type == "OperatorActed"
