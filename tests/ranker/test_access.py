"""Access: closed leaderboards, others' submissions, sources after the deadline."""

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from shared import events, subjects
from shared.clock import now
from shared.reader import READER_HEADER, Reader, encode_reader
from tests.support.lives import RUN_KEY, Life, say
from tests.support.reading import Reads, as_
from tests.support.waits import eventually

pytestmark = pytest.mark.server
CLOSED = events.LeaderboardChanged(visibility="closed", reason="a contest")
LISTS = ("problems", "leaderboards", "submissions", "records")
PAGES = (
    "problems/identity",
    "problems/identity/files/task.py",
    "problems/identity/templates/python",
    "evaluation/eval.py?problem=identity",
    "leaderboards/identity/CPU",
    "leaderboards/identity/CPU/records",
    "leaderboards/identity/CPU/history",
    "leaderboards/identity/CPU/best-times",
    "leaderboards/identity/CPU/cases",
    "leaderboards/identity/CPU/events",
    "leaderboards/identity/CPU/history?participant=Ada",
    "participants/Ada/history?problem=identity&gpu=CPU",
)
SECRETS = ("kernel.py", "nul ", "hello ", "size=1", "profile.json", "log.txt")


@pytest.fixture
async def reads(reads: Reads) -> Reads:
    await reads.named("ada", "Ada")
    await reads.named("grace", "Grace")
    return reads


async def change(
    reads: Reads, fact: events.LeaderboardChanged | events.LeaderboardArchived
) -> None:
    await say(reads.log, subjects.problem("identity"), fact)
    await reads.settle()


async def status(reads: Reads, path: str, headers: dict[str, str]) -> int:
    return (await reads.http.get(f"/v1/{path}", headers=headers)).status_code


async def items(reads: Reads, path: str, headers: dict[str, str]) -> list[Any]:
    answer = await reads.http.get(f"/v1/{path}", headers=headers)
    assert answer.status_code == 200, answer.text
    items_: list[Any] = answer.json()["items"]
    return items_


@pytest.mark.feature("P25")
async def test_a_closed_board_is_there_for_members_and_staff_alone(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1"))

    async def has_record() -> bool:
        return bool(await items(reads, "records", as_(None)))

    await eventually(has_record)
    await change(reads, CLOSED)
    number = submission["number"]
    pages = (*PAGES, *(f"submissions/{number}{suffix}" for suffix in ("", "/cases", "/events")))
    pages = (*pages, f"submissions/{number}/files/log.txt", f"compare?a={number}&b={number}")
    for headers in (as_(None), as_("grace"), as_("ada")):
        assert [await status(reads, page, headers) for page in pages] == [404] * len(pages)
        assert [await items(reads, item, headers) for item in LISTS] == [[]] * len(LISTS)
        profile = (await reads.http.get("/v1/participants/Ada", headers=headers)).json()
        assert (profile["entries"], profile["records"]) == ([], [])
    assert all([await items(reads, item, as_("grace", "identity")) for item in LISTS])
    answer = await reads.http.get("/v1/participants/Ada", headers=as_("grace", "identity"))
    assert len(answer.json()["entries"]) == 1
    assert await status(reads, f"submissions/{number}", as_("grace", "identity")) == 200


async def test_a_closed_board_is_unknown_in_the_words_of_one_that_is_not(reads: Reads) -> None:
    await change(reads, CLOSED)
    answers = []
    for slug in ("identity", "nothing1"):
        answer = (await reads.http.get(f"/v1/problems/{slug}", headers=as_(None))).json()
        answers.append((answer["code"], answer["detail"].replace(slug, "x")))
    assert answers[0] == answers[1]


async def test_of_others_a_ranked_submission_shows_a_summary(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1"))
    path = f"/v1/submissions/{submission['number']}"
    answer = await reads.http.get(path, headers=as_("grace"))
    page = answer.json()
    assert (page["participant"], page["ranking"]["rank"], page["verdict"]) == (
        "Ada",
        1,
        "passed",
    )
    assert [word for word in SECRETS if word in answer.text] == ["size=1"]
    assert not any(line["note"] or line["actor"] for line in page["timeline"])
    (case,) = page["cases"]
    assert (case["name"], case["time_us"], case["is_hidden"]) == ("size=1", 100.0, False)
    assert not {"message", "mismatches", "process_us"} & set(case)
    listing = (await reads.http.get("/v1/submissions", headers=as_("grace"))).text
    assert "kernel.py" not in listing
    for suffix in ("/cases", "/files/log.txt", "?source=true"):
        assert (await reads.http.get(path + suffix, headers=as_("grace"))).status_code == 403
    history = await reads.http.get(
        f"{path}/events", headers=as_("grace") | {"Accept": "application/json"}
    )
    assert not [word for word in SECRETS if word in history.text]


async def test_of_others_what_is_not_on_the_leaderboard_shows_no_case(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1", verdict="wrong_answer"))
    answer = await reads.http.get(f"/v1/submissions/{submission['number']}", headers=as_("grace"))
    assert answer.json()["cases"] == []
    assert not [word for word in SECRETS if word in answer.text]


async def test_the_list_of_leaderboards_says_ones_own_best(reads: Reads) -> None:
    await reads.ended(Life("s1"), Life("s2", "grace", 50.0))
    for name, best in (("ada", 100.0), ("grace", 50.0), (None, None)):
        (line,) = await items(reads, "leaderboards", as_(name))
        assert (line["best_us"], line["own_us"]) == (50.0, best)


async def test_of_others_nothing_but_what_is_ranked_exists(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1", mode="test"))
    path = f"submissions/{submission['number']}"
    assert await status(reads, path, as_("grace")) == 404
    assert await items(reads, "submissions", as_("grace")) == []
    assert await status(reads, path, as_("ada")) == 200
    assert len(await items(reads, "submissions", as_("ada"))) == 1


async def test_ones_own_is_as_others_to_a_token_for_other_problems(reads: Reads) -> None:
    ranked, test = await reads.ended(Life("s1"), Life("s2", mode="test"))
    limited = {READER_HEADER: encode_reader(Reader(account="ada", problems=["another"]))}
    mine = {READER_HEADER: encode_reader(Reader(account="ada", problems=["another", "identity"]))}
    path = f"submissions/{ranked['number']}"
    for headers in (mine, as_("ada")):
        assert len(await items(reads, "me/submissions", headers)) == 2
        assert await status(reads, f"{path}/cases", headers) == 200
        assert await status(reads, f"submissions/{test['number']}", headers) == 200
    assert await items(reads, "me/submissions", limited) == []
    assert [item["number"] for item in await items(reads, "submissions", limited)] == [
        ranked["number"]
    ]
    assert await status(reads, f"submissions/{test['number']}", limited) == 404
    assert await status(reads, f"submissions/{test['number']}/events", limited) == 404
    for suffix in ("/cases", "/files/log.txt", "?source=true"):
        assert await status(reads, path + suffix, limited) == 403
    pages = (path, "submissions", "leaderboards/identity/CPU/history?participant=Ada")
    for page in (*pages, "leaderboards/identity/CPU"):
        answer = (await reads.http.get(f"/v1/{page}", headers=limited)).text
        others = (await reads.http.get(f"/v1/{page}", headers=as_("grace"))).text
        assert [word in answer for word in SECRETS] == [word in others for word in SECRETS]
        assert '"source_visible":true' not in answer
    held = events.SubmissionHeld(rule="r", reason="look")
    await say(reads.log, subjects.moderation("s1"), held)
    await reads.settle()
    submission = [len(await items(reads, "moderation", headers)) for headers in (mine, limited)]
    assert submission == [1, 0]


async def test_a_source_is_everybodys_after_the_deadline_and_never_before(reads: Reads) -> None:
    blob = await reads.blobs.put(b"the source")
    (submission,) = await reads.ended(Life("s1", source=blob.digest))
    path = f"submissions/{submission['number']}?source=true"
    mine = await reads.http.get(f"/v1/{path}", headers=as_("ada"))
    assert mine.json()["source"] == "the source"
    assert await status(reads, path, as_(None)) == 403
    for hours, expected in ((1, 403), (-1, 200)):
        at = now() + timedelta(hours=hours)
        moved = events.LeaderboardChanged(
            visibility=None, reason="", has_deadline=True, deadline_at=at
        )
        await change(reads, moved)
        assert await status(reads, path, as_(None)) == expected
    (entry,) = await items(reads, "leaderboards/identity/CPU", as_(None))
    assert entry["source_visible"] is True
    await say(reads.log, subjects.moderation("s1"), events.SubmissionWithdrawn(reason="mine"))
    await reads.settle()
    assert await status(reads, path, as_(None)) == 403


@pytest.mark.feature("N13")
async def test_a_hidden_case_says_its_verdict_and_nothing_else(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1"))
    (case,) = await reads.get(f"submissions/{submission['number']}/cases")
    assert (case["is_hidden"], case["name"]) == (False, "size=1")
    life = Life("s2")
    hidden = [
        events.CaseResult(
            name="size=7", stage="hidden_check", verdict="wrong_answer", is_hidden=True
        )
    ]
    for aggregate, fact in life.facts():
        if isinstance(fact, events.RunCompleted):
            fact = replace(fact, cases=hidden, verdict="wrong_answer")  # noqa: PLW2901
        await say(reads.log, aggregate, fact, life.id)
    await reads.settle()

    async def over() -> Any:
        submission = await items(reads, "submissions?state=finished", as_("ada"))
        return submission[0] if len(submission) == 2 else None

    number = (await eventually(over))["number"]
    for path in (f"submissions/{number}", f"submissions/{number}/cases"):
        answer = await reads.http.get(f"/v1/{path}", headers=as_("ada"))
        assert "size=7" not in answer.text
        assert "wrong_answer" in answer.text


async def test_what_operators_decide_is_shown_to_whom_it_is_about(reads: Reads) -> None:
    await reads.ended(Life("s1"))
    held = events.SubmissionHeld(rule="r", reason="look")
    await say(reads.log, subjects.moderation("s1"), held)
    await reads.settle()
    assert len(await items(reads, "moderation", as_("ada"))) == 1
    assert await items(reads, "moderation", as_("grace")) == []
    assert await items(reads, "moderation", as_(None)) == []


async def test_authors_see_decisions_about_ranked_submissions_to_their_problems(
    reads: Reads,
) -> None:
    for life in (Life("s1"), Life("s2", mode="test"), Life("s3", account="grace")):
        await reads.ended(life)
        held = events.SubmissionHeld(rule="r", reason="look")
        await say(reads.log, subjects.moderation(life.id), held)
    appeal = events.AppealFiled(text=events.Blob(digest="d", bytes=1, media="text/plain"))
    await say(reads.log, subjects.moderation("s1"), appeal)
    await reads.settle()
    author = {"Warpboard-Reader": encode_reader(Reader(account="ann", owned=["identity"]))}
    listed = await items(reads, "moderation", author)
    assert [row["id"] for row in listed] == ["s3", "s1"]
    assert [row["appeal_text"] for row in listed] == [None, None]
    assert len(await items(reads, "moderation?authored=true", author)) == 2
    assert [row["id"] for row in await items(reads, "moderation", as_("grace"))] == ["s3"]
    assert await items(reads, "moderation?authored=true", as_("grace")) == []


async def test_an_archived_board_is_listed_when_it_is_asked_for(reads: Reads) -> None:
    await change(reads, events.LeaderboardArchived(reason="over"))
    assert await items(reads, "problems", as_(None)) == []
    (submission,) = await items(reads, "problems?state=archived", as_(None))
    assert submission["state"] == "archived"
    assert await status(reads, "leaderboards/identity/CPU", as_(None)) == 200


async def test_a_withdrawn_submission_is_off_its_board_and_says_so(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1"))
    await say(reads.log, subjects.moderation("s1"), events.SubmissionWithdrawn(reason="mine"))
    await reads.settle()
    assert await reads.board() == []
    page = await reads.get(f"submissions/{submission['number']}")
    assert (page["ranking"]["status"], page["ranking"]["code"]) == ("removed", "withdrawn")
    assert (await items(reads, "submissions", as_("ada")))[0]["is_withdrawn"] is True


async def test_nobody_is_told_what_the_keys_of_a_run_were(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1"))
    assert "key" not in submission
    assert submission["key_commit"] == hashlib.sha256(bytes.fromhex(RUN_KEY)).hexdigest()


async def test_a_header_that_cannot_be_read_makes_nobody_of_its_sender(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1", mode="test"))
    for text in ("", "{", '{"is_staff": "yes"}', "null", "[]"):
        headers = {"Warpboard-Reader": text}
        assert await status(reads, f"submissions/{submission['number']}", headers) == 404
