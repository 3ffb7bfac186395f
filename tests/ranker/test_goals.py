"""Baselines are shown beside the rows without a rank; milestones are reached once."""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import structs

from shared import events, subjects
from shared.events import Baseline, CaseResult, Fact, Milestone, MilestoneReached
from shared.reader import READER_HEADER, Reader, encode_reader
from tests.ranker.replays import replayed
from tests.support.lives import BLOB, Life, live, problem, say
from tests.support.reading import Reads, as_
from tests.support.waits import eventually

pytestmark = pytest.mark.server
AUTHOR = {READER_HEADER: encode_reader(Reader(account="ann", owned=["identity"]))}


@dataclass(frozen=True)
class Sent(Life):
    """A submission to the version with goals; a baseline belongs to the platform."""

    problem_number: int = 2
    baseline: str = ""
    checked: str = "passed"
    problem: str = "identity"

    def _received(self) -> Fact:
        fact = super()._received()
        assert isinstance(fact, events.SubmissionReceived)
        return structs.replace(fact, baseline=self.baseline, problem=self.problem)

    def completed(self) -> events.RunCompleted:
        """The verdict, with two checked cases beside the timed one."""
        completed = super().completed()
        checks = [
            CaseResult(name="size=1", stage="check", verdict="passed"),
            CaseResult(name="size=2", stage="check", verdict=self.checked),
        ]
        return structs.replace(completed, cases=[*checks, *completed.cases])


def make_milestone(id_: str, metric: str, op: str, value: float) -> Milestone:
    return Milestone(id=id_, title=id_.title(), metric=metric, op=op, value=value)


GOALS = structs.replace(
    problem(number=2),
    baselines=[
        Baseline(name="eager", file="baselines/eager.py", source=BLOB, note="as it is"),
        Baseline(name="slow", file="baselines/slow.py", source=BLOB),
        Baseline(name="gpu", file="baselines/gpu.py", source=BLOB, gpus=["H200"]),
    ],
    milestones=[
        make_milestone("twice", "vs_baseline.eager", ">=", 2.0),
        make_milestone("quick", "score", "<=", 1.1e-4),
        make_milestone("half", "cases_passed", ">=", 1.0),
        make_milestone("roof", "roofline", ">=", 0.1),
    ],
)


@pytest.fixture
async def reads(reads: Reads) -> Reads:
    await say(reads.log, subjects.problem("identity"), GOALS)
    return reads


def met(reads: Reads) -> list[tuple[str, str]]:
    """Who reached which milestone, in order."""
    facts = [event.fact for event in reads.log.since(0)]
    return [(fact.milestone, fact.account) for fact in facts if isinstance(fact, MilestoneReached)]


async def board(reads: Reads, headers: dict[str, str] | None = None) -> dict[str, Any]:
    answer = await reads.http.get("/v1/leaderboards/identity/CPU", headers=headers)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def over(reads: Reads, *lives: Sent) -> None:
    """Append whole lives, and wait until all are over and announced."""
    await live(reads.log, *lives)
    await reads.settle()


@pytest.mark.feature("P23", "N6")
async def test_a_baseline_is_shown_beside_the_rows_and_takes_no_place(
    reads: Reads, postgres_dsn: str
) -> None:
    eager = Sent("b1", "platform:baseline", 50.0, baseline="eager")
    await over(reads, Sent("s1", time_us=100.0, source="same"), eager)
    page = await board(reads)
    (row,) = page["items"]
    assert (row["submission"], row["rank"], row["vs_baseline"]) == ("s1", 1, {"eager": 0.5})
    measured, absent = page["baselines"]
    assert (measured["name"], measured["state"], measured["score_us"]) == ("eager", "measured", 50)
    assert (measured["note"], measured["vs_leader"]) == ("as it is", 0.5)
    assert (absent["name"], absent["state"], absent["score_us"]) == ("slow", "absent", None)
    records = [
        event.fact for event in reads.log.since(0) if isinstance(event.fact, events.RecordSet)
    ]
    assert [record.submission for record in records] == ["s1"]
    stats = (await reads.http.get("/internal/stats")).json()
    assert (stats["num_submissions"], stats["num_run.CPU"]) == (1, 1)
    listing = await reads.get("submissions")
    assert [item["id"] for item in listing["items"]] == ["s1"]
    assert (await reads.get("submissions/" + str(row["number"])))["cases"][-1]["vs_baseline"] == {
        "eager": 0.5
    }
    assert (await replayed(postgres_dsn, reads.log)).differences == []


async def test_a_noisy_time_sets_no_record_and_reaches_milestones_by_its_slow_end(
    reads: Reads,
) -> None:
    noisy = Sent("n1", "ada", 100.0, process_us=(80.0, 100.0, 125.0), grade="noisy")
    await over(reads, noisy)
    assert met(reads) == [("half", "ada")]
    quiet = Sent("s1", "grace", 105.0, process_us=(105.0, 105.0, 105.0))
    await over(reads, quiet)
    assert set(met(reads)) == {("half", "ada"), ("half", "grace"), ("quick", "grace")}
    ranks = {
        row["submission"]: (row["best_rank"], row["rank"]) for row in (await board(reads))["items"]
    }
    assert ranks == {"s1": (None, 1), "n1": (None, 1)}
    facts = [event.fact for event in reads.log.since(0)]
    # It shares the first rank with a noisy one.
    assert not any(isinstance(fact, events.RecordSet) for fact in facts)
    await over(reads, Sent("s2", "linus", 101.0, process_us=(101.0, 101.0, 101.0)))
    facts = [event.fact for event in reads.log.since(0)]
    records = [fact.submission for fact in facts if isinstance(fact, events.RecordSet)]
    assert records == ["s2"]


async def test_why_a_baseline_failed_is_its_authors_and_operators_to_know(reads: Reads) -> None:
    await over(reads, Sent("b1", "platform:baseline", verdict="wrong_answer", baseline="eager"))
    baselines_ = [
        (await board(reads, headers))["baselines"][0] for headers in (None, AUTHOR, as_("ada"))
    ]
    assert [item["state"] for item in baselines_] == ["failed"] * 3
    assert [item["code"] for item in baselines_] == ["time_failed", "time_failed", None]
    number = baselines_[0]["number"]
    url = f"/v1/submissions/{number}"
    answers = [
        await reads.http.get(url, headers=headers) for headers in (AUTHOR, as_("ada"), as_(None))
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 404]
    assert [item["items"] for item in [await board(reads)]] == [[]]
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
        baseline = (await board(reads))["baselines"][0]
        return (baseline["state"], baseline["score_us"]) == ("measured", 70.0)

    await eventually(first)
    out = events.SubmissionDisqualified(rule="r", reason="the wrong file")
    await say(reads.log, subjects.moderation("b2"), out)

    async def is_off() -> bool:
        return bool((await board(reads))["baselines"][0]["state"] == "failed")

    await eventually(is_off)


async def test_fast_p_is_a_share_of_all_problems_of_a_set(reads: Reads) -> None:
    for slug in ("kb-1-add", "kb-1-relu", "kb-1-none", "kb-1-other", "kb-10-add"):
        gpus = ["H200"] if slug == "kb-1-other" else ["CPU"]
        version = structs.replace(GOALS, number=1, gpus=gpus, milestones=[])
        await say(reads.log, subjects.problem(slug), version)
    closed = events.LeaderboardChanged(visibility="closed", reason="r")
    await say(reads.log, subjects.problem("kb-1-none"), closed)

    def sent(id_: str, account: str, time_us: float, slug: str, baseline: str = "") -> Sent:
        return Sent(id_, account, time_us, problem=slug, problem_number=1, baseline=baseline)

    await over(
        reads,
        sent("s1", "ada", 100.0, "kb-1-add"),
        sent("s2", "ada", 100.0, "kb-1-relu"),
        sent("s3", "grace", 60.0, "kb-1-add"),
        sent("b1", "platform:baseline", 150.0, "kb-1-add", "eager"),
        sent("b2", "platform:baseline", 60.0, "kb-1-relu", "eager"),
    )
    scores = (await reads.http.get("/v1/sets/KB-1/cpu", headers=as_(None))).json()
    assert (scores["gpu"], scores["problems_count"], scores["baselines"]) == ("CPU", 2, ["eager"])
    # Both are faster than the baseline once; who is right more often comes first.
    ada, grace = scores["items"]
    assert (ada["participant_id"], ada["correct"]) == ("ada", 2)
    assert ada["fast"] == {
        "eager": {"0": 1.0, "0.5": 1.0, "0.8": 0.5, "1": 0.5, "1.5": 0.0, "2": 0.0}
    }
    assert (grace["participant_id"], grace["correct"]) == ("grace", 1)
    assert set(grace["fast"]["eager"].values()) == {0.5}
    # Staff also see the closed problem, which nobody solved.
    whole = await reads.get("sets/kb-1/CPU")
    share = whole["items"][0]["fast"]["eager"]["0"]
    assert (whole["problems_count"], round(share, 3)) == (3, 0.667)
    missing = await reads.http.get("/v1/sets/nothing/CPU")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


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
    assert [item["reached"] for item in (twice, quick, half, roof)] == [2, 2, 3, 0]
    assert [item["is_reached"] for item in (twice, roof)] == [True, False]
    assert twice["when"] == {
        "metric": "vs_baseline.eager", "op": ">=", "value": 2.0, "gpu": None
    }  # fmt: skip
    # Another version keeps what was reached, and nobody reaches it again.
    await say(reads.log, subjects.problem("identity"), structs.replace(GOALS, number=3))
    await over(reads, Sent("s6", time_us=70.0, problem_number=3))
    mine = (await reads.http.get("/v1/me/milestones", headers=as_("ada"))).json()["items"]
    assert {(item["id"], item["problem_version"]) for item in mine} == {
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
