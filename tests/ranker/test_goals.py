"""Baselines stand beside the rows and take nobody's place; a milestone is reached once."""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import structs

from shared import events, subjects
from shared.events import Baseline, CaseResult, Fact, Milestone, MilestoneReached
from shared.reader import HEADER, Reader, encode
from shared.testing import eventually
from tests.ranker.replayed import replayed
from tests.support.lives import BLOB, Life, live, problem, say
from tests.support.reading import Reads, as_

pytestmark = pytest.mark.server
AUTHOR = {HEADER: encode(Reader(account="ann", owned=["identity"]))}


@dataclass(frozen=True)
class Sent(Life):
    """A submission to the version with goals; of the platform's own if it is a baseline."""

    problem_number: int = 2
    baseline: str = ""
    checked: str = "passed"

    def _received(self) -> Fact:
        fact = super()._received()
        assert isinstance(fact, events.SubmissionReceived)
        return structs.replace(fact, baseline=self.baseline)

    def completed(self) -> events.RunCompleted:
        """The verdict, with two checked cases beside the timed one."""
        whole = super().completed()
        checks = [
            CaseResult(name="size=1", stage="check", verdict="passed"),
            CaseResult(name="size=2", stage="check", verdict=self.checked),
        ]
        return structs.replace(whole, cases=[*checks, *whole.cases])


def wanted(id_: str, metric: str, op: str, value: float) -> Milestone:
    return Milestone(id=id_, title=id_.title(), metric=metric, op=op, value=value)


GOALS = structs.replace(
    problem(number=2),
    baselines=[
        Baseline(name="eager", file="baselines/eager.py", source=BLOB, note="as it is"),
        Baseline(name="slow", file="baselines/slow.py", source=BLOB),
        Baseline(name="gpu", file="baselines/gpu.py", source=BLOB, gpus=["H200"]),
    ],
    milestones=[
        wanted("twice", "vs_baseline.eager", ">=", 2.0),
        wanted("quick", "score", "<=", 1.1e-4),
        wanted("half", "cases_passed", ">=", 1.0),
        wanted("roof", "roofline", ">=", 0.1),
    ],
)


@pytest.fixture
async def reads(reads: Reads) -> Reads:
    await say(reads.log, subjects.problem("identity"), GOALS)
    return reads


def met(reads: Reads) -> list[tuple[str, str]]:
    """Who reached what, in order."""
    facts = [one.fact for one in reads.log.since(0)]
    return [(one.milestone, one.account) for one in facts if isinstance(one, MilestoneReached)]


async def board(reads: Reads, who: dict[str, str] | None = None) -> dict[str, Any]:
    answer = await reads.http.get("/v1/leaderboards/identity/CPU", headers=who)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def over(reads: Reads, *lives: Sent) -> None:
    """Say whole lives, and wait until all are over."""
    await live(reads.log, *lives)
    ends = {subjects.submission(life.id) for life in lives}

    async def is_over() -> bool:
        said = {
            one.envelope.agg
            for one in reads.log.since(0)
            if isinstance(one.fact, events.SubmissionFinished)
        }
        checkpoint = (await reads.get("leaderboards"))["as_of"]
        return ends <= said and checkpoint == await reads.log.last()

    await eventually(is_over)


async def test_a_baseline_is_shown_beside_the_rows_and_takes_no_place(
    reads: Reads, postgres_dsn: str
) -> None:
    eager = Sent("b1", "platform:baseline", 50.0, baseline="eager")
    await over(reads, Sent("s1", time_us=100.0, source="same"), eager)
    found = await board(reads)
    (row,) = found["items"]
    assert (row["submission"], row["rank"], row["vs_baseline"]) == ("s1", 1, {"eager": 0.5})
    measured, absent = found["baselines"]
    assert (measured["name"], measured["state"], measured["score_us"]) == ("eager", "measured", 50)
    assert (measured["note"], measured["vs_leader"]) == ("as it is", 0.5)
    assert (absent["name"], absent["state"], absent["score_us"]) == ("slow", "absent", None)
    records = [one.fact for one in reads.log.since(0) if isinstance(one.fact, events.RecordSet)]
    assert [one.submission for one in records] == ["s1"]
    stats = (await reads.http.get("/internal/stats")).json()
    assert (stats["num_submissions"], stats["num_run.CPU"]) == (1, 1)
    listed = await reads.get("submissions")
    assert [one["id"] for one in listed["items"]] == ["s1"]
    assert (await reads.get("submissions/" + str(row["number"])))["cases"][-1]["vs_baseline"] == {
        "eager": 0.5
    }
    assert (await replayed(postgres_dsn, reads.log)).differences == []


async def test_why_a_baseline_failed_is_its_authors_and_operators_to_know(reads: Reads) -> None:
    await over(reads, Sent("b1", "platform:baseline", verdict="wrong_answer", baseline="eager"))
    shown = [(await board(reads, who))["baselines"][0] for who in (None, AUTHOR, as_("ada"))]
    assert [one["state"] for one in shown] == ["failed"] * 3
    assert [one["code"] for one in shown] == ["time_failed", "time_failed", None]
    number = shown[0]["number"]
    url = f"/v1/submissions/{number}"
    answers = [await reads.http.get(url, headers=who) for who in (AUTHOR, as_("ada"), as_(None))]
    assert [one.status_code for one in answers] == [200, 404, 404]
    assert [one["items"] for one in [await board(reads)]] == [[]]
    # One that passes later takes its place, and one that nobody ran does not.
    await over(reads, Sent("b2", "platform:baseline", 70.0, baseline="eager"))
    await say(
        reads.log,
        subjects.submission("b3"),
        structs.replace(Sent("b3")._received(), baseline="eager"),
    )
    await say(
        reads.log,
        subjects.submission("b3"),
        events.SubmissionFinished(outcome="cancelled", is_eligible=False, code="c", reason="r"),
    )

    async def first() -> bool:
        one = (await board(reads))["baselines"][0]
        return (one["state"], one["score_us"]) == ("measured", 70.0)

    await eventually(first)
    out = events.SubmissionDisqualified(rule="r", reason="the wrong file")
    await say(reads.log, subjects.moderation("b2"), out)

    async def is_off() -> bool:
        return bool((await board(reads))["baselines"][0]["state"] == "failed")

    await eventually(is_off)


async def test_a_milestone_is_reached_by_what_counts_and_once(
    reads: Reads, postgres_dsn: str
) -> None:
    held = events.SubmissionHeld(rule="r", reason="r")
    await say(reads.log, subjects.moderation("s2"), held)
    await over(
        reads,
        Sent("s1", time_us=100.0),
        Sent("s2", "grace", 100.0),
        Sent("s3", "linus", verdict="wrong_answer", checked="wrong_answer"),
    )
    await eventually(lambda: len(met(reads)) >= 3)
    assert set(met(reads)) == {("quick", "ada"), ("half", "ada"), ("half", "linus")}
    # What is held against the baseline is known once that was run.
    await over(reads, Sent("b1", "platform:baseline", 300.0, baseline="eager"))
    await eventually(lambda: ("twice", "ada") in met(reads))
    await say(reads.log, subjects.moderation("s2"), events.SubmissionReleased(reason="r"))
    await eventually(lambda: ("twice", "grace") in met(reads))
    await over(reads, Sent("s4", time_us=90.0), Sent("s5", "grace", 80.0))
    await eventually(lambda: len(met(reads)) >= 7)
    assert len(met(reads)) == len(set(met(reads))) == 7
    twice, quick, half, roof = (await board(reads, as_("ada")))["milestones"]
    assert [one["reached"] for one in (twice, quick, half, roof)] == [2, 2, 3, 0]
    assert [one["is_reached"] for one in (twice, roof)] == [True, False]
    assert twice["when"] == {
        "metric": "vs_baseline.eager", "op": ">=", "value": 2.0, "gpu": None
    }  # fmt: skip
    # Another version keeps what was reached, and nobody reaches it again.
    await say(reads.log, subjects.problem("identity"), structs.replace(GOALS, number=3))
    await over(reads, Sent("s6", time_us=70.0, problem_number=3))
    mine = (await reads.http.get("/v1/me/milestones", headers=as_("ada"))).json()["items"]
    assert {(one["id"], one["problem_version"]) for one in mine} == {
        ("twice", 2), ("quick", 2), ("half", 2)
    }  # fmt: skip
    assert len(met(reads)) == 7
    # Who is thrown out is not counted while they are.
    out = events.SubmissionDisqualified(rule="r", reason="r")
    await say(reads.log, subjects.moderation("s1"), out)

    async def count() -> int:
        return int((await board(reads))["milestones"][1]["reached"])

    async def is_one() -> bool:
        return await count() == 1

    await eventually(is_one)
    assert (await replayed(postgres_dsn, reads.log)).differences == []
