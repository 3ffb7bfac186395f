"""The read API over a real Postgres: ties, equal sources, reasons, and downloads."""

import asyncio
from typing import Any

import pytest

from ingest.submissions.normal_form import normal_digest
from ranker.domain.conclusion import Demand
from shared import events, subjects
from tests.support.lives import DoubtedLife, Life, say
from tests.support.reading import Reads, reading
from tests.support.waits import eventually

pytestmark = pytest.mark.server
SOURCE = "def custom_kernel(data):\n    source, out = data\n    out[:] = source\n    return out\n"
# One program with another comment, other white space or other local names.
VARIANTS = (
    SOURCE,
    SOURCE + "# once more\n",
    SOURCE.replace("    ", "  "),
    SOURCE.replace("source", "given").replace("out", "made"),
    SOURCE.replace("data):\n", 'data):\n    """Copy."""\n\n'),
)


@pytest.mark.feature("P17")
async def test_what_cannot_be_told_apart_shares_a_rank_in_the_order_of_scores(
    reads: Reads,
) -> None:
    lives = [
        Life("slower", account="ada", time_us=100.2),
        Life("faster", account="grace", time_us=100.0),
        Life("slow", account="linus", time_us=150.0),
    ]
    submission = await reads.ended(*lives)
    board = await reads.board()
    assert [(item["rank"], item["is_tied"]) for item in board] == [(1, True), (1, True), (3, False)]
    assert [item["participant_id"] for item in board] == ["grace", "ada", "linus"]
    assert [item["ranking"]["rank"] for item in submission] == [1, 1, 3]
    behind = [
        (item["ranking"]["delta_to_best"], item["ranking"]["delta_to_next"]) for item in submission
    ]
    assert behind[:2] == [(0.0, None), (0.0, None)]
    # The rank before is that of both, of which the slower is the nearer.
    assert behind[2] == pytest.approx((50.0e-6, 49.8e-6))
    assert (board[0]["grade"], board[0]["is_provisional"]) == ("ok", True)


@pytest.mark.feature("N5")
async def test_the_same_source_again_is_pooled_and_never_the_better_of_two(reads: Reads) -> None:
    lives = [
        Life("first", source="x", process_us=(100.0, 102.0, 101.0), time_us=101.0),
        Life("lucky", source="x", process_us=(80.0, 81.0, 82.0), time_us=81.0),
    ]
    _, lucky = await reads.ended(*lives)
    (entry,) = await reads.board()
    assert entry["pooled_over"] == [entry["number"], lucky["number"]]
    assert entry["run_us"] == pytest.approx(101.0, rel=1e-3)
    assert 89.0 < entry["score_us"] < 92.0
    low_us, high_us = entry["interval_us"]
    assert low_us < 85.0
    assert high_us > 96.0
    ranking = lucky["ranking"]
    assert (ranking["status"], ranking["code"], ranking["rank"]) == ("ranked", "pooled", 1)
    assert ranking["score_us"] == entry["score_us"]


async def test_variants_of_one_source_are_pooled_and_a_copy_of_one_stays_behind_it(
    reads: Reads,
) -> None:
    times_us = (10.9, 7.3, 6.6, 3.0, 6.1)
    digests = [normal_digest({"k.py": text}) for text in VARIANTS]
    lives = [
        Life(f"v{number}", normal_digest=digest, time_us=time_us, process_us=(time_us,) * 3)
        for number, (digest, time_us) in enumerate(zip(digests, times_us, strict=True))
    ]
    copy = Life("copy", "grace", 6.0, normal_digest=digests[0], process_us=(6.0, 6.0, 6.0))
    *shown, _ = await reads.ended(*lives, copy)
    mine, theirs = await reads.board()
    assert mine["pooled_over"] == [each["number"] for each in shown]
    assert 6.0 < mine["score_us"] < 7.0
    assert {each["ranking"]["score_us"] for each in shown} == {mine["score_us"]}
    assert (mine["participant_id"], theirs["participant_id"]) == ("ada", "grace")
    assert theirs["pooled_over"] == []


async def test_a_stranger_who_sends_the_same_source_moves_nobody_else(reads: Reads) -> None:
    await reads.ended(Life("mine", source="x", time_us=7.9, process_us=(7.9, 7.9, 7.9)))
    (alone,) = await reads.board()
    copies = [
        Life(f"copy{account}", account, source="x", time_us=us, process_us=(us, us, us))
        for account, us in (("grace", 26.4), ("linus", 36.3))
    ]
    await reads.ended(*copies)
    board = await reads.board()
    assert board[0] == alone | {"is_tied": True}
    assert [item["score_us"] for item in board] == pytest.approx([7.9, 26.4, 36.3])
    # The same kernel has the same rank, whatever the machine did while it was timed.
    assert [item["rank"] for item in board] == [1, 1, 1]
    assert [item["pooled_over"] for item in board] == [[], [], []]


async def test_a_copy_shares_the_rank_of_what_it_copies_and_stands_behind_it(reads: Reads) -> None:
    mine = Life("mine", source="x", time_us=120.0, process_us=(120.0, 120.0, 120.0))
    copy = Life("copy", "grace", source="x", time_us=90.0, process_us=(90.0, 90.0, 90.0))
    other = Life("other", "linus", source="y", time_us=100.0, process_us=(100.0, 100.0, 100.0))
    pages = await reads.ended(mine, copy, other)
    board = await reads.board()
    assert [(item["participant_id"], item["rank"]) for item in board] == [
        *(("linus", 1), ("ada", 2), ("grace", 2)),
    ]
    ranking = pages[1]["ranking"]
    assert (ranking["rank"], ranking["tied_with"], ranking["delta_to_next"]) == (2, 1, None)


async def test_a_quiet_run_of_a_source_replaces_its_noisy_ones(reads: Reads) -> None:
    lives = [
        Life("busy", source="x", time_us=90.0, process_us=(60.0, 90.0, 135.0), grade="noisy"),
        Life("lucky", source="x", time_us=70.0, process_us=(50.0, 70.0, 98.0), grade="noisy"),
    ]
    await reads.ended(*lives)
    (entry,) = await reads.board()
    assert (entry["score_us"], entry["grade"]) == (pytest.approx(90.0), "noisy")
    quiet = Life("quiet", source="x", time_us=100.0, process_us=(100.0, 100.1, 99.9))
    (quiet_page,) = await reads.ended(quiet)
    (entry,) = await reads.board()
    assert (entry["number"], entry["score_us"]) == (quiet_page["number"], pytest.approx(100.0))
    assert (entry["grade"], entry["pooled_over"]) == ("ok", [])
    items = (await reads.get("submissions"))["items"]
    noisy = [await reads.get(f"submissions/{item['number']}") for item in items[1:]]
    assert [page["ranking"]["code"] for page in noisy] == ["replaced", "replaced"]
    assert [page["ranking"]["rank"] for page in noisy] == [None, None]


async def test_every_read_shows_one_score_of_a_submission(reads: Reads) -> None:
    lives = [
        Life("first", source="x", process_us=(100.0, 102.0, 101.0), time_us=101.0),
        Life("other", source="y", time_us=300.0),
        Life("again", source="x", process_us=(80.0, 81.0, 82.0), time_us=81.0),
    ]
    await reads.named("ada", "ada")
    pages = {item["number"]: item for item in await reads.ended(*lives)}
    pages = {number: await reads.get(f"submissions/{number}") for number in pages}
    (entry,) = await reads.board()
    listing = (await reads.get("submissions"))["items"]
    past = (await reads.get("participants/ada/history?problem=identity&gpu=CPU"))["items"]
    pooled, others = entry["pooled_over"], pages.keys() - set(entry["pooled_over"])
    for number, page in pages.items():
        scores = [
            (value["score_us"], value["pooled_over"])
            for value in (
                page,
                page["ranking"],
                *page["results"],
                *(item for item in (*listing, *past) if item["number"] == number),
            )
        ]
        assert len(scores) == 5
        expected = (entry["score_us"], pooled) if number in pooled else (300.0, [])
        assert scores == [expected] * 5
    assert len(others) == 1
    # What its own run measured stands beside it.
    runs_us = sorted(pages[number]["run_us"] for number in pooled)
    assert runs_us == pytest.approx([81.0, 101.0], rel=1e-3)


async def test_a_source_that_turns_out_slower_gives_way_to_ones_other_source(reads: Reads) -> None:
    await reads.ended(Life("fast", source="x", time_us=100.0), Life("second", time_us=105.0))
    assert [item["score_us"] for item in await reads.board()] == pytest.approx([100.0])
    await reads.ended(Life("again", source="x", time_us=130.0))
    (entry,) = await reads.board()
    assert entry["score_us"] == pytest.approx(105.0)


async def test_a_time_below_the_demand_says_what_was_needed(postgres_dsn: str) -> None:
    async with reading(postgres_dsn, Demand("strong", ("C1",))) as strict:
        (submission,) = await strict.ended(Life("s1"))
        board = await strict.board()
    assert (submission["ranking"]["status"], submission["ranking"]["code"]) == (
        "not_ranked",
        "not_ranked_level",
    )
    assert "strong" in submission["ranking"]["reason"]
    assert submission["score_us"] == pytest.approx(100.0)
    assert board == []


async def test_what_is_suspicious_is_shown_as_held(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1", verdict="suspicious"))
    assert (submission["ranking"]["status"], submission["ranking"]["code"]) == (
        "held",
        "suspicious",
    )
    assert submission["ranking"]["reason"].startswith("held for review")


@pytest.mark.feature("A6")
async def test_a_doubted_run_is_held_with_its_evidence_until_it_is_released(reads: Reads) -> None:
    (submission,) = await reads.ended(DoubtedLife("s1"))
    ranking = submission["ranking"]
    assert (ranking["status"], ranking["code"]) == ("held", "policy_review")
    assert ranking["reason"] == "held for review: aten::mm ran 1 times"
    assert submission["score_us"] == pytest.approx(100.0)
    assert submission["composition"] == {
        "shares": {"torch": 1.0},
        "operators": [],
        "doubts": ["aten::mm ran 1 times"],
    }
    assert await reads.board() == []
    released = events.SubmissionReleased(reason="its own product")
    await say(reads.log, subjects.moderation("s1"), released)

    async def is_ranked() -> bool:
        return [row["submission"] for row in await reads.board()] == ["s1"]

    assert await eventually(is_ranked)
    ranking = (await reads.get(f"submissions/{submission['number']}"))["ranking"]
    assert (ranking["status"], ranking["code"]) == ("ranked", "ranked")
    assert ranking["reason"] == "released by an operator: its own product"


async def test_a_runs_files_are_listed_and_downloaded(reads: Reads) -> None:
    blob = await reads.blobs.put(b"a profile", "application/json")
    life = Life("s1", artefact=blob)
    (submission,) = await reads.ended(life)
    assert [file["name"] for file in submission["files"]] == ["log.txt", "profile.json"]
    answer = await reads.http.get(f"/v1/submissions/{submission['number']}/files/profile.json")
    assert (answer.status_code, answer.content) == (200, b"a profile")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(("name", "status"), [("nope", 404), ("log.txt", 404), ("..%2Fkey", 404)])
async def test_a_file_that_is_not_there_is_refused(reads: Reads, name: str, status: int) -> None:
    (submission,) = await reads.ended(Life("s1"))
    answer = await reads.http.get(f"/v1/submissions/{submission['number']}/files/{name}")
    assert answer.status_code == status, answer.text


async def test_a_ranked_job_that_no_agent_may_take_says_why(reads: Reads) -> None:
    why = "isolation is weak, strong is demanded"
    registration = {
        "gpu": "CPU",
        "modes": ["test"],
        "details": {"ranked_not_offered": why},
    }
    reads.live.agents["a1"] = {"is_free": True, "registration": registration}
    for aggregate, fact in Life("s1").facts()[:1]:
        await say(reads.log, aggregate, fact)

    async def waiting() -> Any:
        items = (await reads.get("submissions"))["items"]
        return items and (await reads.get(f"submissions/{items[0]['number']}"))["queue"]

    queue = await eventually(waiting)
    assert (queue["state"], queue["agents_online"]) == ("no_agent", 1)
    assert queue["reason"] == f"no live agent with CPU takes mode ranked: agent a1: {why}"


async def test_an_agent_in_quarantine_says_so_to_who_waits(reads: Reads) -> None:
    registration = {"gpu": "CPU", "modes": ["ranked"], "quarantine": "a process is left"}
    reads.live.agents["a1"] = {"is_free": False, "registration": registration}
    for aggregate, fact in Life("s1").facts()[:1]:
        await say(reads.log, aggregate, fact)

    async def reason() -> Any:
        items = (await reads.get("submissions"))["items"]
        return items and (await reads.get(f"submissions/{items[0]['number']}"))["queue"]["reason"]

    assert "agent a1: in quarantine: a process is left" in await eventually(reason)


async def test_a_number_that_was_just_told_means_its_submission_at_once(reads: Reads) -> None:
    number = 0
    for place in range(20):
        ((aggregate, fact), *_) = Life(f"s{place}").facts()
        number = await say(reads.log, aggregate, fact)
        inside = f"/internal/submissions/{number}"
        requests = [reads.http.get(f"/v1/submissions/{number}{part}") for part in ("", "/cases")]
        for answer in await asyncio.gather(reads.http.get(inside), *requests):
            assert answer.status_code == 200, answer.text
        assert (await reads.http.get(inside)).json()["id"] == f"s{place}"
    nobodys = await reads.http.get(f"/internal/submissions/{number + 1}")
    assert (nobodys.status_code, nobodys.json()["code"]) == (404, "unknown_submission")
