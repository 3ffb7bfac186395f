"""Who may read a source: by policy, deadline and consent."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ranker.http.access import SourceRelease, find_hidden_reason
from shared import events, subjects
from shared.clock import now
from shared.events import Blob
from shared.problems.compilation import compile_problem
from tests.access.table import YES, table
from tests.support.door import FILES
from tests.support.lives import T0, Life, problem, say
from tests.support.reading import Reads, as_, reading

POLICIES = st.sampled_from(["owner", "after_close", "always", None, "never heard of"])
INSTANTS = st.integers(-3, 3).map(lambda days: T0 + timedelta(days=days))
BOARD = "leaderboards/identity/CPU"
ASKED = Blob(digest="c" * 64, bytes=1, media="text/plain")
GIVEN = events.ConsentGiven(problem="identity", number=1, digest=ASKED.digest)
BACK = events.ConsentWithdrawn(problem="identity", digest=ASKED.digest)


@pytest.mark.feature("P21")
@given(POLICIES, st.none() | INSTANTS, st.booleans(), st.booleans(), INSTANTS)
def test_nobody_reads_a_source_before_its_policy_its_deadline_and_its_owner_say_so(
    policy: str | None, deadline: datetime | None, gone: bool, is_consented: bool, at: datetime
) -> None:
    is_over = deadline is not None and deadline <= at
    is_open = policy == "always" or (policy == "after_close" and is_over)
    why = find_hidden_reason(SourceRelease(policy, deadline, gone, is_consented), at)
    assert (why is None) == (is_open and is_consented and not gone)
    if policy == "after_close" and deadline is not None and why and is_consented and not gone:
        assert f"from {deadline.astimezone(UTC):%Y-%m-%d %H:%M} UTC on" in why


DAY = timedelta(days=1)
# What the columns of the table mean, at T0.
MOMENTS = {
    "before the deadline": SourceRelease("", T0 + DAY, is_withdrawn=False, is_consented=True),
    "no deadline": SourceRelease("", None, is_withdrawn=False, is_consented=True),
    "after it": SourceRelease("", T0 - DAY, is_withdrawn=False, is_consented=True),
    "put off again": SourceRelease("", T0 + DAY, is_withdrawn=False, is_consented=True),
    "withdrawn": SourceRelease("", T0 - DAY, is_withdrawn=True, is_consented=True),
    "what is asked is not accepted": SourceRelease(
        "", T0 - DAY, is_withdrawn=False, is_consented=False
    ),
}


@pytest.mark.feature("P21")
def test_sources_are_shown_as_the_table_says() -> None:
    for policy, cells in table("Sources").items():
        answers = {
            name: "403" if find_hidden_reason(source._replace(policy=policy), T0) else YES
            for name, source in MOMENTS.items()
        }
        assert answers == cells, policy


@pytest.fixture
async def reads(postgres_dsn: str) -> AsyncIterator[Reads]:
    """Four versions of the problem with different policies, and a submission to each, s1 to s4."""
    async with reading(postgres_dsn) as running:
        await running.named("ada", "Ada")
        await running.named("grace", "Grace")
        source = await running.blobs.put(b"the source")
        manifest = await running.blobs.put(compile_problem("identity", FILES).manifest)
        for number, policy, files in (
            (2, "always", {}),
            (3, "owner", {}),
            (4, "always", {"CONSENT.md": ASKED}),
        ):
            version = replace(
                problem(number),
                manifest=manifest,
                source_visible=policy,
                files=files,
                consent="CONSENT.md" if files else "",
            )
            await say(running.log, subjects.problem("identity"), version)
        lives = [
            Life(f"s{number}", source=source.digest, problem_number=number)
            for number in (1, 2, 3, 4)
        ]
        await running.ended(*lives)
        yield running


async def read_source(reads: Reads, life: int) -> tuple[int, str]:
    """The response to another participant who asks for the source of a life."""
    items = (await reads.get("submissions"))["items"]
    (number,) = [item["number"] for item in items if item["problem_version"] == life]
    url = f"/v1/submissions/{number}?source=true"
    answer = await reads.http.get(url, headers=as_("grace"))
    return answer.status_code, str(answer.json().get("detail"))


async def entry(reads: Reads, life: int) -> Any:
    """The leaderboard row of a life as another participant sees it."""
    answer = await reads.http.get(f"/v1/{BOARD}?version={life}", headers=as_("grace"))
    (entry_,) = answer.json()["items"]
    return entry_


async def dated(reads: Reads, hours: int | None) -> None:
    at = None if hours is None else now() + timedelta(hours=hours)
    moved = events.LeaderboardChanged(
        visibility=None, reason="", has_deadline=at is not None, deadline_at=at
    )
    await append_fact(reads, subjects.problem("identity"), moved)


async def append_fact(reads: Reads, aggregate: str, fact: events.Fact) -> None:
    await say(reads.log, aggregate, fact)
    await reads.settle()


@pytest.mark.feature("N14")
@pytest.mark.server
async def test_each_version_has_its_policy_until_the_deadline_and_after(reads: Reads) -> None:
    for hours, first in ((None, 403), (1, 403), (-1, 200), (2, 403), (None, 403)):
        await dated(reads, hours)
        assert [(await read_source(reads, life))[0] for life in (1, 2, 3)] == [first, 200, 403]
        entries = [await entry(reads, life) for life in (1, 2, 3)]
        assert [item["source_visible"] for item in entries] == [first == 200, True, False]
        assert "policy" not in entries[0]
    assert "deadline is over, and it has none yet" in (await read_source(reads, 1))[1]
    assert "owners alone" in (await read_source(reads, 3))[1]


@pytest.mark.server
async def test_a_source_is_seen_while_its_owner_accepts_what_is_asked(reads: Reads) -> None:
    for fact, status in ((None, 403), (GIVEN, 200), (BACK, 403), (GIVEN, 200)):
        if fact is not None:
            await append_fact(reads, subjects.account("ada"), fact)
        assert (await read_source(reads, 4))[0] == status
        assert (await entry(reads, 4))["source_visible"] is (status == 200)


@pytest.mark.server
async def test_a_dropped_gpu_type_keeps_its_leaderboard(reads: Reads) -> None:
    fact = events.LeaderboardChanged(visibility=None, reason="", gpus=["H100"])
    await append_fact(reads, subjects.problem("identity"), fact)
    page = await reads.get("problems/identity")
    assert (page["gpus"], page["gpus_closed"]) == (["H100"], ["CPU"])
    assert len((await reads.get(f"{BOARD}?version=2"))["items"]) == 1
    assert (await reads.get("leaderboards/identity/h100"))["items"] == []
    listing = (await reads.get("leaderboards?problem=identity"))["items"]
    assert {item["gpu"] for item in listing} == {"CPU"}
    assert (await reads.get("leaderboards?problem=other"))["items"] == []


@pytest.mark.server
async def test_a_gpu_type_on_which_nothing_was_run_is_named(reads: Reads) -> None:
    aggregate = subjects.problem("identity")
    changed = partial(events.LeaderboardChanged, visibility=None, reason="")
    await append_fact(reads, aggregate, changed(gpus=["CPU", "H100"]))
    page = await reads.get("problems/identity")
    assert page["untested_gpus"] == ["CPU", "H100"]
    await append_fact(reads, aggregate, changed(tested_gpus=["CPU"]))
    assert (await reads.get("problems/identity"))["untested_gpus"] == ["H100"]
    (line,) = (await reads.get("problems"))["items"]
    assert line["untested_gpus"] == ["H100"]
    board = await reads.get("leaderboards/identity/h100")
    tested = {row["gpu"]: row["is_tested"] for row in board["gpu_leaderboards"]}
    assert tested == {"CPU": True, "H100": False}


@pytest.mark.server
async def test_a_version_says_what_its_check_found(reads: Reads) -> None:
    page = await reads.get("problems/identity")
    assert page["check"]["state"] == "unchecked"
    assert page["check"]["reason"]
