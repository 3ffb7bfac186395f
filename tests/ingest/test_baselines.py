"""Baselines: each runs once for a version and once more for each request, whatever dies."""

import asyncio

import pytest

from ingest.baselines.rules import WAIT_S_MAX
from shared import subjects
from shared.errors import Failed, Refused
from shared.event_log import NewEvent
from shared.events import (
    ProblemPublished,
    QuotaTaken,
    SubmissionCancelRequested,
    SubmissionFinished,
    SubmissionReceived,
)
from shared.subjects import BASELINE_ACCOUNT
from shared.wire import EventMetadata, make_envelope
from tests.ingest.taking_in import ANN, T0, IntakeHarness, open_intake
from tests.support.door import FILES, FINISHED, OPERATOR, opened, publication
from tests.support.memory import MemoryLog

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
    facts = [event.fact for event in log.since(0)]
    return [event for event in facts if isinstance(event, SubmissionReceived) and event.baseline]


def is_run_of(fact: object, name: str) -> bool:
    """Whether a baseline was sent in by that."""
    return isinstance(fact, SubmissionReceived) and fact.baseline == name


async def publish(at: IntakeHarness) -> None:
    await at.commands.problems.publish(publication("copy", OURS), ANN)


async def end(at: IntakeHarness, baseline: str, fact: SubmissionFinished = FINISHED) -> None:
    """Let every run of a baseline end."""
    for event in at.log.since(0):
        if isinstance(event.fact, SubmissionReceived) and event.fact.baseline == baseline:
            aggregate = event.envelope.aggregate
            stamp = EventMetadata(f"end of {aggregate}", T0, "service:test", "", "")
            if len(await at.log.history(aggregate)) == 1:
                await at.log.append(NewEvent(make_envelope(fact, aggregate, stamp), None))


async def test_a_new_version_runs_its_baselines_on_each_gpu_type() -> None:
    async with open_intake() as at:
        await publish(at)
        started = runs(at.log)
        assert {(run.baseline, run.gpu) for run in started} == FOUR
        run = next(run for run in started if run.baseline == "cpp")
        assert (run.account, run.mode, run.class_, run.bucket) == (
            BASELINE_ACCOUNT,
            "ranked",
            "rejudge",
            "",
        )
        assert run.requires.toolchains == ["g++"]
        assert (run.deadline_at - T0).total_seconds() > WAIT_S_MAX
        assert await at.blobs.get(run.source.digest) == OURS["baselines/fast.cpp"]
        version = [e.fact for e in at.log.since(0) if isinstance(e.fact, ProblemPublished)][-1]
        assert not {name for name in version.files if "baselines" in name}
        assert [run.id for run in version.milestones] == ["twice"]
        assert not [e for e in at.log.since(0) if isinstance(e.fact, QuotaTaken)]


async def test_publishing_again_runs_no_baseline_twice() -> None:
    async with open_intake() as at:
        await asyncio.gather(publish(at), publish(at))
        await publish(at)
        assert len(runs(at.log)) == 4


async def test_a_newer_version_cancels_waiting_baselines_of_the_previous() -> None:
    async with open_intake() as at:
        await publish(at)
        await end(at, "eager")
        open_ones = [e.envelope.aggregate for e in at.log.since(0) if is_run_of(e.fact, "cpp")]
        newer = {**OURS, "baselines/eager.py": EAGER + b"# better\n"}
        await at.commands.problems.publish(publication("copy", newer), ANN)
        wished = [e for e in at.log.since(0) if isinstance(e.fact, SubmissionCancelRequested)]
        assert sorted(e.envelope.aggregate for e in wished) == sorted(open_ones)
        assert len(open_ones) == 2
        await at.commands.problems.publish(publication("copy", FILES), ANN)
        wished = [e for e in at.log.since(0) if isinstance(e.fact, SubmissionCancelRequested)]
        assert len(wished) == 2 + 4


class Dying(MemoryLog):
    """A log that takes so many events more, and is gone."""

    left = 1000

    async def append(self, event: NewEvent) -> int:
        self.left -= 1
        if self.left < 0:
            raise Failed("the power is gone")
        return await super().append(event)


async def test_baselines_missed_by_a_crash_run_later() -> None:
    log = Dying()
    async with open_intake(log=log) as at:
        # One event is the version, two are runs.
        log.left = 3
        with pytest.raises(Failed):
            await publish(at)
        assert len(runs(log)) == 2
        log.left = 1000
        await publish(at)
        assert {(run.baseline, run.gpu) for run in runs(log)} == FOUR
        assert len(runs(log)) == 4


async def test_an_operator_reruns_only_ended_baselines() -> None:
    async with open_intake() as at:
        await publish(at)
        baselines = at.commands.baselines
        assert not any(run.is_new for run in await baselines.run_again("copy", "operator:olga"))
        await end(at, "eager")
        twice = await asyncio.gather(*(baselines.run_again("copy", "operator:olga") for _ in "ab"))
        new = [run for ordered in twice for run in ordered if run.is_new]
        assert sorted((run.name, run.gpu) for run in new) == [("eager", "CPU"), ("eager", "H100")]
        assert len(runs(at.log)) == 6
        history = await at.log.history(subjects.submission(new[0].submission))
        assert history[0].envelope.actor == "operator:olga"


async def test_an_archived_leaderboard_runs_no_baselines() -> None:
    async with open_intake() as at:
        await publish(at)
        await end(at, "eager")
        waiting = [e.envelope.aggregate for e in at.log.since(0) if is_run_of(e.fact, "cpp")]
        for _ in "ab":
            await at.commands.boards.archive("copy", "over", "operator:olga")
        cancelled = [e for e in at.log.since(0) if isinstance(e.fact, SubmissionCancelRequested)]
        assert sorted(e.envelope.aggregate for e in cancelled) == sorted(waiting)
        assert len(waiting) == 2
        with pytest.raises(Refused, match="is archived"):
            await at.commands.baselines.run_again("copy", "operator:olga")
        await at.commands.problems.publish(
            publication("copy", {**OURS, "baselines/eager.py": EAGER + b"# better\n"}), ANN
        )
        assert len(runs(at.log)) == 4


async def test_a_problem_without_baselines_has_none_to_run() -> None:
    async with open_intake() as at:
        with pytest.raises(Refused, match="has no baselines"):
            await at.commands.baselines.run_again("copy", "operator:olga")


@pytest.mark.server
async def test_operators_start_baselines_over_http() -> None:
    async with opened(MemoryLog()) as door:
        assert (await door.publish(OURS)).status_code == 201
        url, body = "/v1/admin/problems/COPY/baselines", {"reason": "a new driver"}
        answer = await door.http.post(url, json=body, headers=OPERATOR)
        assert answer.status_code == 202, answer.text
        answer_body = answer.json()
        assert {(item["name"], item["gpu"], item["is_new"]) for item in answer_body["items"]} == {
            (*item, False) for item in FOUR
        }
        assert door.log.since(0)[-1].envelope.type == "OperatorActed"
