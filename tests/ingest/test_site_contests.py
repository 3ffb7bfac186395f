"""The pages of contests, with their forms, exports and calendars, over a real read side."""

import csv
import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from shared import events, subjects
from shared.clock import now
from shared.contests.definition import (
    REVIEW_ITEMS,
    Contest,
    ContestPlace,
    ContestProblem,
    Division,
    Phase,
    QuotaCategory,
    Scoring,
    TeamRules,
)
from tests.ingest.test_site_pages import Run, page_of, run
from tests.ingest.test_site_people import page_with, send
from tests.ingest.ways import OPEN, Ways
from tests.support.door import FILES, OPERATOR, report_of
from tests.support.lives import T0, problem, say

pytestmark = pytest.mark.server

HOUR = timedelta(hours=1)
SLUG = "summer"
PAGE = f"/contests/{SLUG}"
TITLE = "Sort; count, and \\ é" + "é" * 60
TERMS = "Be <b>fair</b>."


@pytest.fixture
async def ways(ways: Ways) -> Ways:
    await say(ways.door.log, subjects.problem("identity"), problem(2))
    return ways


def contest(*phases: Phase, **changes: Any) -> Contest:
    """Return a contest of two problems, of which the second is not public, over these phases."""
    start, end = phases[0].starts_at, phases[-1].starts_at
    problems = [
        ContestProblem(slug=slug, round="main", starts_at=start, ends_at=end, gpu="CPU")
        for slug in ("identity", "secret")
    ]
    problems[0] = structs.replace(problems[0], scoring=Scoring(points=[25, 18]))
    usual = Contest(
        slug=SLUG,
        title="Summer 2026",
        terms=TERMS,
        organisers=[],
        problems=problems,
        divisions=[
            Division(slug="open", title="Open"),
            Division(slug="assisted", title="Assisted", declare=["model"]),
        ],
        phases=list(phases),
        register_until_at=end,
    )
    return structs.replace(usual, **changes)


async def publish(ways: Ways, definition: Contest, number: int = 1) -> None:
    """Publish a contest, and name it on the leaderboards of its problems."""
    published = events.ContestPublished(number=number, contest=definition)
    await say(ways.door.log, subjects.contest(SLUG), published)
    if number == 1:
        for one in definition.problems:
            changed = events.LeaderboardChanged(visibility=None, reason="r", contest=SLUG)
            await say(ways.door.log, subjects.problem(one.slug), changed)


async def publish_problem(ways: Ways, slug: str, visibility: str, deadline: str) -> None:
    """Publish a problem with a deadline, by the author."""
    title = json.dumps(TITLE, ensure_ascii=False)
    files = FILES | {"warpboard.yml": f"title: {title}\n".encode()}
    data = {
        "slug": slug,
        "deadline": deadline,
        "visibility": visibility,
        "report": report_of(files, slug),
    }
    parts = [("files", (name, text)) for name, text in files.items()]
    author = ways.people["author"].headers
    answer = await ways.door.http.post("/v1/problems", data=data, files=parts, headers=author)
    assert answer.status_code == 201, answer.text


async def download(ways: Ways, path: str, name: str = "nobody") -> tuple[int, bytes]:
    """Return the status and the content of a file, as somebody's browser gets it."""
    headers, _ = ways.browser_credentials(name)
    async with ways.browser(name, headers) as browser:
        answer = await browser.get(path)
    return answer.status_code, answer.content


def read_calendar(data: bytes) -> list[dict[str, str]]:
    """Return the events of a calendar, unfolded and unescaped. Source: RFC 5545."""
    lines = data.decode().replace("\r\n ", "").split("\r\n")
    assert (lines[0], lines[-2], lines[-1]) == ("BEGIN:VCALENDAR", "END:VCALENDAR", "")
    entries: list[dict[str, str]] = []
    for line in lines:
        name, _, value = line.partition(":")
        if line == "BEGIN:VEVENT":
            entries.append({})
        elif entries:
            entries[-1].setdefault(
                name, re.sub(r"\\(.)", lambda match: match[1].replace("n", "\n"), value)
            )
    return entries


async def check_quotas(ways: Ways) -> None:
    """Check what a team has left in the phase, and that an operator's limit overrides it."""
    answer = await ways.door.http.get("/v1/quota", headers=ways.people["member"].headers)
    (left,) = answer.json()["items"]
    assert (left["bucket"], left["contest"]) == ("identity.registration.test", SLUG)
    limit = {"bucket": "*.*.test", "limit": 9, "contest": SLUG, "team": "<b>fast</b>"}
    for more, status in (({}, 200), ({"window_s": 60}, 422), ({"role": "creator"}, 422)):
        body = limit | more | {"reason": "r"}
        answer = await ways.door.http.put("/v1/admin/quota", json=body, headers=OPERATOR)
        assert answer.status_code == status, answer.text
    assert "9 of 9 test for identity" in await page_of(ways, PAGE, "owner")


@pytest.mark.feature("C3", "N8")
async def test_contests_and_their_calendar_show_the_deadlines(ways: Ways) -> None:
    await publish_problem(ways, "titled", "public", "2999-01-02T03:04:00Z")
    await publish_problem(ways, "secret", "closed", "2999-01-03T00:00:00+01:00")
    await page_with(ways, "/contests", "/problems/secret", "author")
    text = await page_of(ways, "/contests")
    assert 'data-until="2999-01-02T03:04:00+00:00"' in text
    assert 'href="/deadlines.ics"' in text
    assert "/problems/secret" not in text
    assert f"/problems/{OPEN}" not in text
    headers, _ = ways.browser_credentials("author")
    async with ways.browser("author", headers) as browser:
        calendar = await browser.get("/deadlines.ics")
        assert calendar.headers["content-type"] == "text/calendar; charset=utf-8"
    data_bytes = calendar.content
    assert b"\n" not in data_bytes.replace(b"\r\n", b"")
    assert all(len(line) <= 75 for line in data_bytes.split(b"\r\n"))
    titled, secret = read_calendar(data_bytes)
    assert titled["SUMMARY"] == f"Deadline: {TITLE}"
    assert titled["DESCRIPTION"] == f"GPU types: CPU, H100.\n{titled['URL']}"
    assert (titled["DTSTART"], secret["DTSTART"]) == ("29990102T030400Z", "29990102T230000Z")
    assert re.fullmatch(r"\d{8}T\d{6}Z", titled["DTSTAMP"])
    assert titled["UID"] != secret["UID"]
    # A calendar program sends no cookie, and so sees what is public.
    async with ways.browser("nobody", {}) as browser:
        assert len(read_calendar((await browser.get("/deadlines.ics")).content)) == 1


async def enter(ways: Ways, *accounts: str) -> None:
    """Register people for the contest, in its first division."""
    for account in accounts:
        registered = events.ContestRegistered(account=account, division="open", terms_digest="d")
        await say(ways.door.log, subjects.contest(SLUG), registered)


async def hold_contest(ways: Ways, *phases: Phase) -> dict[str, int]:
    """Hold a contest around the time of all lives: two people send to its first problem."""
    await publish_problem(ways, "secret", "closed", "2999-01-03T00:00:00Z")
    await publish(ways, contest(*phases, prizes="A <i>medal</i>."))
    accounts = ways.people["owner"].account, "p1"
    await enter(ways, *accounts)
    runs = Run("first", accounts[0], 50.0), Run("second", accounts[1], 90.0)
    return await run(ways, *(replace(one, contest=SLUG) for one in runs))


MAIN = Phase(kind="main", starts_at=T0 - HOUR, ends_at=T0 + HOUR, modes=["ranked"])
OVER = Phase(kind="archive", starts_at=T0 + HOUR)


@pytest.mark.feature("C3")
async def test_a_contest_shows_its_standing_leaders_and_rules(ways: Ways) -> None:
    numbers = await hold_contest(ways, MAIN, OVER)
    text = await page_with(ways, PAGE, ">25<")
    assert re.findall(r'data-label="points">(\d+)<', text) == ["25", "18"]
    assert text.count(f'href="/submissions/{numbers["first"]}"') == 2
    assert text.index(f'"/submissions/{numbers["first"]}"') < text.index("name deleted")
    assert "Be &lt;b&gt;fair&lt;/b&gt;." in text
    assert "A &lt;i&gt;medal&lt;/i&gt;." in text
    assert "This contest is over." in text
    assert "/problems/identity" in text
    # A problem that the visitor cannot see has no link; nobody sees its leaders.
    assert "/problems/secret" not in text
    assert "/problems/secret" in await page_of(ways, PAGE, "author")
    assert ">you<" in await page_of(ways, PAGE, "owner")
    assert f"{PAGE}/organise" not in text + await page_of(ways, PAGE, "owner")
    listed = await page_of(ways, "/contests")
    assert f'<a href="{PAGE}">Summer 2026</a>' in listed
    # Its problems are not listed once more, beside it.
    assert "/problems/identity" not in listed
    await page_of(ways, "/contests/winter", status=404)
    status, data = await download(ways, f"{PAGE}/standing.csv")
    rows = list(csv.DictReader(data.decode().splitlines()))
    assert status == 200
    assert [(row["contestant"], row["points"], row["identity place"]) for row in rows] == [
        ("owner", "25.0", "1"),
        ("", "18.0", "2"),
    ]


async def test_frozen_ranks_are_marked_and_hidden_ones_are_nowhere(ways: Ways) -> None:
    freeze = Phase(kind="freeze", starts_at=T0 + HOUR, ranks="frozen")
    numbers = await hold_contest(ways, MAIN, freeze, replace_phase(OVER, 2999))
    text = await page_with(ways, PAGE, ">25<")
    assert ">frozen<" in text
    assert "received before" in text
    hidden = contest(MAIN, structs.replace(freeze, ranks="hidden"), replace_phase(OVER, 2999))
    await publish(ways, hidden, number=2)
    text = await page_with(ways, PAGE, "Ranks are hidden in this phase.")
    assert f"/submissions/{numbers['first']}" not in text
    assert "25" not in text.split('id="standing"')[1].split("<section")[0]
    _, data = await download(ways, f"{PAGE}/standing.csv")
    assert data.decode().splitlines()[1:] == []


def replace_phase(phase: Phase, year: int) -> Phase:
    """Return a phase that starts in another year."""
    return structs.replace(phase, starts_at=phase.starts_at.replace(year=year))


async def test_a_person_registers_forms_a_team_and_leaves(ways: Ways) -> None:
    at = now()
    quotas: dict[QuotaCategory, int] = {"test": 3}
    registration = Phase(kind="registration", starts_at=at - HOUR, modes=["test"], quotas=quotas)
    later = replace_phase(OVER, 2999)
    author = ways.people["author"].account
    await publish(
        ways, contest(registration, later, organisers=[author], teams=TeamRules(size_max=2))
    )
    assert "Log in to register" in await page_with(ways, PAGE, "Register")
    text = await page_of(ways, PAGE, "owner")
    (digest,) = re.findall(r'name="terms_digest" value="([0-9a-f]+)"', text)
    form = {"action": "register", "division": "assisted", "terms_digest": digest}
    status, text = await send(ways, "owner", PAGE, **form, **{"declare-model": "m <1>"})
    assert (status, "accept the terms" in text) == (422, True)
    assert 'value="m &lt;1&gt;"' in text
    status, text = await send(ways, "owner", PAGE, **form, accepts="yes")
    assert status == 422, text
    accepted = form | {"accepts": "yes", "declare-model": "m <1>"}
    assert (await send(ways, "owner", PAGE, **accepted))[0] == 303
    assert "You take part in the division" not in await page_of(ways, PAGE, "member")
    status, text = await send(ways, "owner", PAGE, action="create-team", name="<b>Fast</b>")
    assert (status, "<b>Fast" in text) == (200, False)
    (code,) = re.findall(r'<code class="secret">([^<]+)</code>', text)
    member = form | {"division": "open", "accepts": "yes"}
    assert (await send(ways, "member", PAGE, **member))[0] == 303
    assert (await send(ways, "member", PAGE, action="join-team", code="wrong"))[0] >= 400
    assert (await send(ways, "member", PAGE, action="join-team", code=code))[0] == 303
    text = await page_of(ways, PAGE, "member")
    assert "in the team <strong>&lt;b&gt;Fast" in text
    assert "Your team has left in this phase: 3 of 3 test for identity." in text
    await check_quotas(ways)
    assert "Remove" not in text
    assert "Remove" in await page_of(ways, PAGE, "owner")
    # Nobody else reads what was declared; its organiser does, in the file, too.
    assert "m &lt;1&gt;" not in await page_of(ways, PAGE)
    for name, expected in (("nobody", 303), ("member", 403), ("creator", 403), ("author", 200)):
        for page in ("organise", "registrations.csv"):
            assert (await download(ways, f"{PAGE}/{page}", name))[0] == expected, (page, name)
    _, data = await download(ways, f"{PAGE}/registrations.csv", "author")
    rows = list(csv.DictReader(data.decode().splitlines()))
    assert [row["participant"] for row in rows] == ["owner", "member"]
    assert {row["declaration"] for row in rows} == {"model: m <1>"}
    decision = {"act": "question", "contestant": "owner", "reason": "which <i> model?"}
    status, text = await send(ways, "author", f"{PAGE}/organise", **decision | {"reason": ""})
    assert (status, "reason: fill in this field" in text.lower()) == (422, True)
    assert (await send(ways, "member", f"{PAGE}/organise", **decision))[0] == 403
    status, text = await send(ways, "author", f"{PAGE}/organise", **decision)
    assert status == 303, text
    assert "in question" in await page_of(ways, f"{PAGE}/organise", "author")
    assert "which &lt;i&gt; model?" in await page_of(ways, PAGE, "owner")
    assert "which" not in await page_of(ways, PAGE)
    assert (await send(ways, "member", PAGE, action="withdraw"))[0] == 422
    assert (await send(ways, "member", PAGE, action="withdraw", is_sure="yes"))[0] == 303


async def test_organisers_review_the_winners_and_make_the_results_final(ways: Ways) -> None:
    author, owner = ways.people["author"].account, ways.people["owner"].account
    at = now()
    registration = Phase(kind="registration", starts_at=at - 2 * HOUR)
    main = Phase(kind="main", starts_at=T0 - HOUR, ends_at=at - HOUR, modes=["ranked"])
    review = Phase(kind="review", starts_at=at - HOUR)
    definition = contest(main, review, organisers=[author], podium=1, appeal_hours=0)
    definition = structs.replace(definition, phases=[registration, main, review])
    await publish(ways, definition)
    person = events.ContestRegistered(account=owner, division="open", terms_digest="d")
    await say(ways.door.log, subjects.contest(SLUG), person)
    await run(ways, Run("won", owner, 100.0, contest=SLUG))
    page = f"{PAGE}/organise"
    assert "Announce the provisional results" in await page_with(ways, page, "Results", "author")
    await page_with(ways, PAGE, ">25<")
    place = ContestPlace(contestant=owner, division="open", place=1, points=25.0)
    proposed = events.ContestResultsProposed(places=[place], as_of_seq=1)
    await say(ways.door.log, subjects.contest(SLUG), proposed)
    text = await page_with(ways, page, "Run again", "author")
    assert "Make the results final" in text
    assert "confirmed by 0 of 1 agents" in text
    assert "no equal or similar source of another contestant" in text
    for item in REVIEW_ITEMS:
        check = {"contestant": owner, "item": item, "is_passed": "true", "note": f"see {item}"}
        status, text = await send(ways, "author", page, act="review", **check)
        assert status in {200, 303}, text
    assert "see appeals" in await page_with(ways, page, "see appeals", "author")
    confirmed = events.ContestResultsConfirmed(places=[place], as_of_seq=1)
    await say(ways.door.log, subjects.contest(SLUG), confirmed)
    assert "Make the results final" not in await page_with(ways, page, ">final<", "author")
    status, data = await download(ways, f"{PAGE}/results.csv", "author")
    (row,) = csv.DictReader(data.decode().splitlines())
    assert (status, row["state"], row["code decision"], row["code note"]) == (
        *(200, "final"),
        *("passed", "see code"),
    )
    assert (await download(ways, f"{PAGE}/results.csv", "member"))[0] == 403


async def test_a_problem_whose_window_is_over_leaves_to_its_contest_what_it_takes(
    ways: Ways,
) -> None:
    await publish_problem(ways, "late", "public", "2126-12-01 18:00")
    await page_with(ways, "/contests", "/problems/late")
    over = events.LeaderboardChanged(
        visibility=None, reason="r", has_deadline=True, deadline_at=now() - HOUR
    )
    await say(ways.door.log, subjects.problem("late"), over)
    paths = ("/problems/late", "/problems/late/submit")
    for path in paths:
        await page_with(ways, path, "It accepts no more submissions.", "owner")
    entered = events.LeaderboardChanged(visibility=None, reason="r", contest=SLUG)
    await say(ways.door.log, subjects.problem("late"), entered)
    for path in paths:
        text = await page_with(ways, path, f'<a href="{PAGE}">{SLUG}</a>, whose phases', "owner")
        assert "It accepts no more submissions." not in text


async def test_phases_are_in_calendars(ways: Ways) -> None:
    await publish(ways, contest(MAIN, replace_phase(OVER, 2999)))
    await page_with(ways, "/contests", SLUG)
    _, data = await download(ways, f"{PAGE}/phases.ics")
    main, archive = read_calendar(data)
    assert main["SUMMARY"] == "Summer 2026: Main round"
    assert (main["DTSTART"], main["DTEND"]) == ("20251231T230000Z", "20260101T010000Z")
    assert "DTEND" not in archive
    assert main["UID"] != archive["UID"]
    _, data = await download(ways, "/deadlines.ics")
    assert [event["SUMMARY"] for event in read_calendar(data)[-2:]] == [
        main["SUMMARY"],
        archive["SUMMARY"],
    ]
