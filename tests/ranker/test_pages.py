"""Reads for people: histories, records, decisions, queues, agents, deadlines."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from shared import events, subjects
from shared.clock import now
from tests.support.lives import AGENT, Life, live, problem, registration, say
from tests.support.reading import Reads
from tests.support.waits import eventually

pytestmark = pytest.mark.server
BOARD = "leaderboards/identity/CPU"


@pytest.fixture
async def reads(reads: Reads) -> Reads:
    await reads.named("ada", "Ada")
    return reads


@pytest.mark.feature("P19")
async def test_a_history_says_what_was_best_when_it_came(reads: Reads) -> None:
    lives = [
        Life("first", time_us=100),
        Life("slower", time_us=120),
        Life("wrong", verdict="wrong_answer"),
        Life("faster", time_us=80),
        Life("test", mode="test"),
    ]
    for life in lives:
        await reads.ended(life)
    items = (await reads.get("participants/Ada/history?problem=identity&gpu=cpu"))["items"]
    assert [(item["id"], item["was_best"]) for item in items] == [
        ("faster", True),
        ("wrong", False),
        ("slower", False),
        ("first", True),
    ]
    assert (items[0]["score_us"], items[0]["interval_us"][0]) == pytest.approx((80.0, 72.0))
    # Whoever was called otherwise is found by what they were called, too.
    await reads.renamed("Ada", "lovelace")
    for name in ("Ada", "lovelace"):
        history = await reads.get(f"participants/{name}/history?problem=identity&gpu=cpu")
        assert (history["participant"], len(history["items"])) == ("lovelace", 4)
        assert len((await reads.get(f"submissions?participant={name}"))["items"]) == len(lives)


@pytest.mark.feature("P22")
async def test_a_participant_has_places_and_records(reads: Reads) -> None:
    for life in (Life("a", time_us=100), Life("b", "grace", 50), Life("c", time_us=90)):
        await reads.ended(life)
    await reads.named("grace", "Grace")

    async def records() -> list[Any]:
        items: list[Any] = (await reads.get(f"{BOARD}/records"))["items"]
        return items if len(items) == 2 else []

    await eventually(records)
    ada, grace = [await reads.get(f"participants/{name}") for name in ("Ada", "Grace")]
    ((entry,), (record,)) = ada["entries"], ada["records"]
    assert (entry["rank"], entry["is_tied"], entry["entries_count"]) == (2, False, 2)
    assert (entry["score_us"], entry["best_us"], entry["title"]) == (90, 50, "Identity")
    assert (record["score_us"], record["previous_us"], record["is_standing"]) == (100, None, True)
    assert [entry["rank"] for entry in grace["entries"]] == [1]
    assert [record["previous_us"] for record in grace["records"]] == [100]
    await say(reads.log, subjects.account("grace"), events.AccountBanned(reason="spam"))

    async def is_first() -> bool:
        (entry,) = (await reads.get("participants/Ada"))["entries"]
        return bool((entry["rank"], entry["entries_count"]) == (1, 1))

    await eventually(is_first)
    banned = await reads.get("participants/Grace")
    assert banned["entries"] == []
    assert not banned["records"][0]["is_standing"]


@pytest.mark.parametrize(
    "path",
    [
        "participants/Nobody",
        "participants/Nobody/history?problem=identity&gpu=CPU",
        "participants/Ada/history?problem=nope&gpu=CPU",
        "participants/Ada/history?problem=identity&gpu=H200",
        "rejudges/nope",
    ],
)
async def test_what_is_not_there_is_said_to_be_missing(reads: Reads, path: str) -> None:
    answer = await reads.http.get(f"/v1/{path}")
    assert answer.status_code == 404, answer.text
    assert answer.json()["detail"].startswith(("there is no", "identity has no"))


async def test_records_are_listed_and_say_whether_they_stand(reads: Reads) -> None:
    await reads.ended(Life("a", time_us=100))
    await reads.ended(Life("b", "grace", 50))

    async def records() -> list[Any]:
        items: list[Any] = (await reads.get(f"{BOARD}/records"))["items"]
        return items if len(items) == 2 else []

    newest, oldest = await eventually(records)
    assert (newest["submission"], newest["previous_us"], newest["is_standing"]) == ("b", 100, True)
    assert (oldest["participant"], oldest["previous_us"]) == ("Ada", None)
    recent = (await reads.get("records?limit=1"))["items"]
    assert recent == [newest]
    assert (await reads.get(f"{BOARD}?records=1"))["records"] == recent
    cheat = events.SubmissionDisqualified(rule="r", reason="cheat")
    await say(reads.log, subjects.moderation("b"), cheat)

    async def fallen() -> bool:
        return not (await records())[0]["is_standing"]

    await eventually(fallen)
    assert (await reads.get("records"))["items"] == [oldest]


async def test_leaderboards_are_listed_with_their_leaders_and_records(reads: Reads) -> None:
    for life in (Life("a", time_us=100), Life("b", "grace", 50), Life("c", "linus", 50.1)):
        await reads.ended(life)

    async def both() -> list[Any]:
        (line,) = (await reads.get("leaderboards?top=3&records=5"))["items"]
        return line if len(line["records"]) == 2 else []

    line: Any = await eventually(both)
    assert [record["score_us"] for record in line["records"]] == [100, 50]
    leaders = [(leader["rank"], leader["participant_id"]) for leader in line["leaders"]]
    assert leaders == [(1, "grace"), (1, "linus"), (3, "ada")]
    (line,) = (await reads.get("leaderboards?top=3&records=1"))["items"]
    assert [record["score_us"] for record in line["records"]] == [50]


@pytest.mark.feature("P19")
async def test_a_leaderboard_shows_how_its_first_entries_became_faster(reads: Reads) -> None:
    for life in (
        Life("first", time_us=100),
        Life("slower", time_us=120),
        Life("faster", time_us=80),
        Life("wrong", verdict="wrong_answer"),
        Life("other", "grace", 90),
    ):
        await reads.ended(life)
    board = await reads.get(f"{BOARD}?progress=2")
    scores = {
        line["participant_id"]: [point["score_us"] for point in line["points"]]
        for line in board["progress"]
    }
    assert scores == {"ada": [100, 80], "grace": [90]}
    board = await reads.get(f"{BOARD}?progress=1")
    assert [line["participant_id"] for line in board["progress"]] == ["ada"]
    assert (await reads.get(BOARD))["progress"] == []


async def test_a_leaderboard_shows_the_entries_of_one_language_or_toolchain(reads: Reads) -> None:
    for life in (
        Life("a", "p1", 100, name="k.py", toolchains=("triton",)),
        Life("b", "p2", 200, name="k.cpp", toolchains=("g++",)),
        Life("c", "p3", 400, name="k.py"),
        Life("d", "p4", 800, name="k.cu", toolchains=("nvcc",)),
    ):
        await reads.ended(life)

    async def entries(query: str) -> list[Any]:
        board = await reads.get(f"{BOARD}?{query}")
        assert board["best_us"] == 100
        return [(entry["rank"], entry["language"]) for entry in board["items"]]

    assert await entries("") == [(1, "python"), (2, "cpp"), (3, "python"), (4, "cuda")]
    assert await entries("language=python") == [(1, "python"), (3, "python")]
    assert await entries("toolchain=nvcc") == [(4, "cuda")]
    assert await entries("language=cuda&toolchain=triton") == []
    # The next page begins behind the last entry that was shown.
    page = await reads.get(f"{BOARD}?language=python&limit=1")
    assert [entry["rank"] for entry in page["items"]] == [1]
    path = f"{BOARD}?language=python&limit=1&cursor={page['next_cursor']}"
    page = await reads.get(path)
    assert ([entry["rank"] for entry in page["items"]], page["next_cursor"]) == ([3], None)


async def test_a_disqualified_submission_says_why_and_so_does_the_list(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1"))
    aggregate = subjects.moderation("s1")
    await say(
        reads.log, aggregate, events.SubmissionDisqualified(rule="r7", reason="reads the clock")
    )
    text = await reads.blobs.put(b"the clock is\nnot read")
    await say(reads.log, aggregate, events.AppealFiled(text=text))
    path = f"submissions/{submission['number']}"

    async def decided() -> Any:
        page = await reads.get(path)
        return page if (page["moderation"] or {}).get("appeal") == "filed" else None

    page = await eventually(decided)
    assert (page["ranking"]["status"], page["ranking"]["reason"]) == (
        "removed",
        "reads the clock",
    )
    assert [item["type"] for item in page["timeline"]][-2:] == [
        "SubmissionDisqualified",
        "AppealFiled",
    ]
    (decision,) = (await reads.get("moderation?open=true"))["items"]
    assert (decision["number"], decision["rule"], decision["appeal"]) == (
        submission["number"],
        "r7",
        "filed",
    )
    assert decision["appeal_text"] == "the clock is\nnot read"
    await say(reads.log, aggregate, events.AppealDecided(is_accepted=True, reason="right"))

    async def ranked() -> bool:
        return bool((await reads.get(path))["ranking"]["status"] == "ranked")

    await eventually(ranked)
    assert (await reads.get("moderation?open=true"))["items"] == []
    assert len((await reads.get("moderation"))["items"]) == 1


async def test_what_the_platform_holds_waits_on_the_list(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1", verdict="suspicious"))
    (decision,) = (await reads.get("moderation?open=true"))["items"]
    assert (decision["number"], decision["is_held_by_rule"]) == (submission["number"], True)


async def test_a_banned_participants_submission_says_so(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1"))
    until_at = now() + timedelta(hours=1)
    banned = events.AccountBanned(reason="spam", until_at=until_at)
    await say(reads.log, subjects.account("ada"), banned)

    async def status() -> bool:
        ranking = (await reads.get(f"submissions/{submission['number']}"))["ranking"]
        return bool(ranking["code"] == "banned" and ranking["reason"] == "spam")

    await eventually(status)
    assert await reads.board() == []


LAUNCHER = {
    "name": "cloud",
    "kind": "github",
    "running": 1,
    "running_max": 2,
    "cost_today": 0.5,
    "daily_cost_max": 10.0,
    "toolchains": ["g++"],
}


async def test_who_waits_is_told_what_the_scheduler_expects(reads: Reads) -> None:
    (aggregate, received), *_ = Life("s0").facts()
    assert isinstance(received, events.SubmissionReceived)
    await say(reads.log, aggregate, structs.replace(received, baseline="eager"))
    for aggregate, fact in Life("s1").facts()[:1]:
        await say(reads.log, aggregate, fact)
    reads.live.queues["CPU"] = {
        "gpu": "CPU",
        "paused": "new driver",
        "free": 1,
        "busy": 2,
        "run_s": {"p50": 3.0, "p90": 9.0},
        "jobs": [["s0", 1, 3.0, 9.0, "", "contest"], ["s1", 2, 6.0, 18.0, "paused", "practice"]],
        "launchers": [LAUNCHER],
    }

    async def waiting() -> Any:
        items = (await reads.get("submissions"))["items"]
        page = items and await reads.get(f"submissions/{items[0]['number']}")
        return page and page["state"] == "queued" and page

    page = await eventually(waiting)
    queue = page["queue"]
    assert (queue["position"], queue["ahead"], queue["eta_s"]) == (2, 1, 6.0)
    assert (queue["eta_p90_s"], queue["why"]) == (18.0, "paused")
    assert (page["state_owner"], page["state_deadline_at"]) == ("scheduler", page["deadline_at"])
    (pool,) = (await reads.get("queue"))["pools"]
    assert (pool["waiting"], pool["paused"], pool["run_s"]["p90"]) == (1, "new driver", 9.0)
    assert pool["launchers"] == [LAUNCHER]
    assert (await reads.get("queue/CPU"))["launchers"] == [LAUNCHER]
    assert (await reads.get("agents"))["launched"] == ["CPU"]
    (first, mine) = pool["forecast"]
    assert (mine["submission"], mine["number"]) == ("s1", page["number"])
    assert (first["is_baseline"], mine["is_baseline"]) == (True, False)
    assert (first["queue_class"], mine["queue_class"]) == ("contest", "practice")
    assert page["timeline"][0]["actor"]


async def test_an_agent_says_what_was_decided_about_it(reads: Reads) -> None:
    aggregate = subjects.agent(AGENT)
    await say(reads.log, aggregate, events.AgentCordoned(reason="looks odd"))
    await say(reads.log, aggregate, events.AgentQuarantined(reason="failed thrice", failures=3))

    async def agent() -> Any:
        items = (await reads.get("agents"))["items"]
        return next((item for item in items if item["standing"] == "quarantined"), None)

    quarantined = await eventually(agent)
    assert (quarantined["standing_reason"], quarantined["cordoned"]) == (
        "failed thrice",
        "looks odd",
    )
    walls = [events.Missing(wall="uid", reason="not root", fix="run as root")]
    await say(reads.log, aggregate, structs.replace(registration(), missing=walls))
    await say(reads.log, aggregate, events.AgentReleased(reason="fixed"))

    async def enrolled() -> bool:
        return bool((await reads.get("agents"))["items"][0]["standing"] == "enrolled")

    await eventually(enrolled)
    (registered,) = (await reads.get("agents"))["items"]
    assert registered["missing"] == [{"wall": "uid", "reason": "not root", "fix": "run as root"}]
    # One that leaves after its job is listed only while it is alive.
    details = registration().details | {events.EPHEMERAL: "true"}
    await say(reads.log, aggregate, structs.replace(registration(), details=details))

    async def is_gone() -> bool:
        return not (await reads.get("agents"))["items"]

    await eventually(is_gone)


async def test_a_boards_top_is_whole_where_a_tie_crosses_the_limit(reads: Reads) -> None:
    lives = [Life(f"s{number}", f"p{number}", 100.0 + number / 1000) for number in range(80)]
    await live(reads.log, *lives)

    async def all_there() -> bool:
        return len(await reads.board()) == 80

    await eventually(all_there)
    items = (await reads.get(f"{BOARD}?limit=5"))["items"]
    assert [(item["number"], item["rank"]) for item in items] == [
        (item["number"], 1) for item in (await reads.board())[:5]
    ]
    assert all(item["is_tied"] for item in items)


@pytest.mark.feature("C4")
async def test_old_scores_stay_with_the_old_version(reads: Reads) -> None:
    await reads.ended(Life("s1"))
    await say(reads.log, subjects.problem("identity"), problem(number=2))

    async def newest() -> bool:
        return bool((await reads.get(BOARD))["problem_version"] == 2)

    await eventually(newest)
    assert await reads.board() == []
    assert len((await reads.get(f"{BOARD}?version=1"))["items"]) == 1
