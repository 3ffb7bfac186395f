"""The pages of operators: who opens them, and that each form acts as its route of the API."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from msgspec import structs

from ingest.http.cookies import SESSION_COOKIE
from ingest.identity.login.web import NOTICE_COOKIE
from ingest.identity.scopes import SCOPES_BY_ROLE, STAFF_SCOPES
from ingest.site.admin.acts import FormField
from ingest.site.admin.catalogue import ACTS
from ingest.site.admin.pages import COUNTS, PAGES
from ingest.site.admin.tables import explain_delay
from shared import events, subjects
from shared.api.queues import Pool
from shared.api.submissions import SubmissionLine
from shared.errors import Refused
from shared.events import AgentRegistered, Fact, RunStarted
from tests.ingest.logins import LoginHarness, open_site_without_ranker
from tests.ingest.test_access_matrix import CALLERS
from tests.ingest.test_access_matrix import table as own_table
from tests.ingest.test_site_pages import STYLED, Run, name_account, page_of
from tests.ingest.ways import OPEN, Ways
from tests.support.api_examples import make_example
from tests.support.door import FINISHED
from tests.support.examples import example_event
from tests.support.lives import say
from tests.support.waits import eventually

KEY = "A" * 43 + "="
REASON = "<b>checked</b> & fine"
# The events of these routes have no reason.
WITHOUT_REASON = {"choose-canary", "open-account"}


async def send(ways: Ways, act: str, name: str = "admin", /, **fields: str) -> httpx.Response:
    """Send the form of an act and confirm it."""
    headers, token = ways.browser_credentials(name)
    data = {"csrf": token, "reason": REASON, "confirmed": "yes"} | fields
    async with ways.browser(name, headers) as browser:
        return await browser.post(f"/admin/acts/{act}", data=data)


async def act(ways: Ways, name: str, event: type[Fact], /, **fields: str) -> Fact:
    """Send the form of an act; its event, which names the admin and the reason."""
    before = await ways.door.log.last()
    answer = await send(ways, name, **fields)
    assert answer.status_code == 303, f"{name}: {answer.text}"
    notice = unquote(answer.cookies[NOTICE_COOKIE])
    actor = f"account:{ways.people['admin'].account}"
    recorded = [one for one in ways.door.log.since(before) if isinstance(one.fact, event)]
    assert recorded, f"{name} wrote no {event.__name__}"
    assert recorded[0].envelope.actor == actor
    assert any(str(one.seq) in notice for one in ways.door.log.since(before))
    if name not in WITHOUT_REASON:
        assert getattr(recorded[0].fact, "reason", None) == REASON, name
    return recorded[0].fact


@pytest.mark.parametrize("name", ACTS)
def test_a_form_is_offered_to_those_whom_the_api_lets_in(name: str) -> None:
    route = re.sub(r"\{\w+\}", "{}", ACTS[name].route)
    rows = {re.sub(r"\{\w+\}", "{}", row): cells for row, cells in own_table().items()}
    # The table has one row for acts that share a route.
    row = rows.get(route) or rows[f"{route.rpartition('/')[0]}/{{}}"]
    # A form is offered to every creator if the route admits the author of the leaderboard.
    for caller, role in (("author", "creator"), ("moderator", "moderator"), ("admin", "admin")):
        is_offered = any(scope in SCOPES_BY_ROLE[role] for scope in ACTS[name].scopes)
        is_let_in = row[CALLERS.index(caller)] == "yes"
        assert is_offered == is_let_in, f"{name} for {caller}"


def test_each_form_asks_a_reason_or_says_why_not() -> None:
    for name, act_ in ACTS.items():
        names = [field.name for field in act_.fields]
        assert ("reason" in names) == (name != "choose-canary")
        in_path = re.findall(r"\{(\w+)\}", act_.route)
        assert set(in_path) <= set(names), name


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (FormField("reason", "Reason"), ""),
        (FormField("count", "How many", kind="number"), "many"),
        (FormField("count", "How many", kind="number"), "1e99"),
    ],
)
def test_a_bad_value_names_its_field(field: FormField, text: str) -> None:
    with pytest.raises(Refused, match=field.label) as refusal:
        field.parse(text)
    assert refusal.value.field == field.name


@pytest.mark.parametrize("text", ["..", "a/b", "a?b", ""])
def test_a_value_in_the_path_of_a_request_cannot_leave_it(text: str) -> None:
    with pytest.raises(Refused):
        ACTS["drain"].request({"agent": text, "reason": "r"})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"state": "queued"}, ""),
        ({"state": "running"}, ""),
        ({"state": "assigned"}, "Stuck: assigned"),
        ({"state": "queued", "state_deadline_at": datetime(2026, 1, 1, tzinfo=UTC)}, "Overdue"),
    ],
)
def test_a_delay_is_explained(fields: dict[str, Any], expected: str) -> None:
    at = datetime(2026, 1, 1, 0, 2, tzinfo=UTC)
    pool = make_example(Pool, gpu="CPU", agents_online=1)
    line = make_example(SubmissionLine, **{"state_deadline_at": at + timedelta(1)} | fields)
    assert explain_delay(line, pool, at).startswith(expected)
    assert bool(explain_delay(line, pool, at)) == bool(expected)
    if fields == {"state": "queued"}:
        offline = make_example(Pool, gpu="CPU")
        assert "no agent" in explain_delay(line, offline, at)
        paused = make_example(Pool, gpu="CPU", agents_online=1, paused="a new disk")
        assert "a new disk" in explain_delay(line, paused, at)


@pytest.mark.server
async def test_each_page_is_for_those_whom_the_api_lets_in(ways: Ways) -> None:
    for page in PAGES:
        for name in ("nobody", "participant", "creator", "moderator", "admin"):
            headers, _ = ways.browser_credentials(name)
            async with ways.browser(name, headers) as browser:
                answer = await browser.get(page.path)
            role = "participant" if name == "nobody" else name
            is_open = not SCOPES_BY_ROLE[role].isdisjoint(page.scopes)
            expected = 303 if name == "nobody" else 200 if is_open else 403
            assert answer.status_code == expected, f"{page.path} for {name}: {answer.text}"
            if name == "nobody":
                assert answer.headers["location"] == f"/login?next={page.path}"
                continue
            assert answer.text.count("<h1>") == 1
            assert not STYLED.search(answer.text)
            assert "<script" not in answer.text
            if expected == 200:
                links = set(re.findall(r'<a href="(/admin[^"?]*)', answer.text))
                offered = {path.rpartition("/")[2] for path in links if "/acts/" in path}
                scopes = SCOPES_BY_ROLE[role]
                assert all(not scopes.isdisjoint(ACTS[act_].scopes) for act_ in offered)
                assert answer.headers["cache-control"] == "no-store"
    for name in ("participant", "moderator"):
        text = await page_of(ways, "/", name)
        is_staff = not SCOPES_BY_ROLE[name].isdisjoint(STAFF_SCOPES)
        assert ('<a href="/admin">Admin</a>' in text) == is_staff
    overview = await page_of(ways, "/admin", "moderator")
    assert "/admin/held" in overview
    assert "/admin/agents" not in overview
    # The form itself is refused, too, as its route is.
    for act_, fields in (("drain", {"agent": "a1"}), ("grant-role", {"name": "target"})):
        answer = await send(ways, act_, "moderator", **fields)
        assert answer.status_code == 403
        assert "his needs the scope admin" in answer.text
    assert (await send(ways, "nothing", "admin")).status_code == 404
    assert (await send(ways, "ban", "participant", name="target")).status_code == 403
    await page_of(ways, "/admin/participants/no-such", "admin", 404)
    await page_of(ways, "/admin/invites?leaderboard=no-such", "admin", 404)


@pytest.mark.server
async def test_each_form_about_the_platform_writes_the_event_of_its_route(ways: Ways) -> None:
    await act(ways, "pause-intake", events.IntakePaused)
    text = await page_of(ways, "/admin/intake", "admin")
    assert "&lt;b&gt;checked&lt;/b&gt; &amp; fine" in text
    assert "<b>checked" not in text
    await act(ways, "resume-intake", events.IntakeResumed)
    enrolled = await act(
        ways, "enroll", events.AgentEnrolled, agent="a9", sign_key=KEY, owner="lab"
    )
    assert enrolled == events.AgentEnrolled(sign_key=KEY, owner="lab", reason=REASON)
    await ways.door.say(subjects.agent("a9"), example_event(AgentRegistered))
    await act(ways, "cordon", events.AgentCordoned, agent="a9")
    await act(ways, "drain", events.AgentDrained, agent="a9")
    again = await send(ways, "drain", agent="a9")
    assert again.status_code == 409
    assert "This agent is already drained" in again.text
    await act(ways, "quarantine", events.AgentQuarantined, agent="a9")
    await act(ways, "release-agent", events.AgentReleased, agent="a9")
    await act(ways, "revoke-agent", events.AgentRevoked, agent="a9")
    await act(ways, "pause-pool", events.PoolPaused, gpu="H100")
    await act(ways, "resume-pool", events.PoolResumed, gpu="H100")
    number = ways.names["mine"]
    await ways.door.finish(int(number))
    canary = {"gpu": "CPU", "submission": number, "every_s": "60", "ratio_max": "1.5"}
    chosen = await act(ways, "choose-canary", events.CanaryChosen, **canary)
    assert isinstance(chosen, events.CanaryChosen)
    assert (chosen.every_s, chosen.ratio_max) == (60, 1.5)
    early = await send(ways, "choose-canary", **canary | {"every_s": "1"})
    assert early.status_code == 422
    assert 'aria-invalid="true"' in early.text.partition('name="every_s"')[2].partition(">")[0]
    await act(ways, "remove-canary", events.CanaryRemoved, gpu="CPU")
    await act(ways, "skip-event", events.EventSkipped, name="ranker", seq="1")
    inbox = await ways.door.bus.inbox("a1")
    await ways.door.say(subjects.run("a1", "r1"), example_event(RunStarted))
    delivery = await inbox.next(1)
    while delivery is not None:
        await delivery.retry(0)
        delivery = await inbox.next(0.01)
    (link,) = re.findall(
        r"/admin/acts/redrive\?consumer=([^&]+)&amp;seq=(\d+)",
        await page_of(ways, "/admin/dead-letters", "admin"),
    )
    await act(ways, "redrive", events.DeadLetterRedriven, consumer=link[0], seq=link[1])


@pytest.mark.server
async def test_each_form_about_submissions_writes_the_event_of_its_route(ways: Ways) -> None:
    number, owner = ways.names["mine"], ways.people["owner"].headers
    await act(ways, "cancel-submission", events.SubmissionCancelRequested, number=number)
    failed = await ways.number(OPEN)
    await ways.door.finish(int(failed), structs.replace(FINISHED, outcome="infra_failed"))

    async def is_listed() -> bool:
        text = await page_of(ways, "/admin/overdue", "moderator")
        return f"/admin/acts/retry-submission?number={failed}" in text

    await eventually(is_listed)
    await act(ways, "retry-submission", events.OperatorActed, number=failed)
    ended = await ways.number(OPEN)
    await ways.door.finish(int(ended))

    async def appeal(text: str) -> None:
        url = f"/v1/submissions/{ended}/appeal"
        answer = await ways.door.http.post(url, json={"text": text}, headers=owner)
        assert answer.status_code == 201, answer.text

    await act(ways, "hold", events.SubmissionHeld, number=ended, rule="too fast")

    async def held() -> str:
        text = await page_of(ways, "/admin/held", "moderator")
        return text if f"#{ended}<" in text else ""

    assert "too fast" in await eventually(held)
    await act(ways, "release-submission", events.SubmissionReleased, number=ended)
    await act(ways, "disqualify", events.SubmissionDisqualified, number=ended, rule="copied")
    await act(ways, "restore", events.SubmissionRestored, number=ended)
    await act(ways, "disqualify", events.SubmissionDisqualified, number=ended, rule="copied")
    await appeal("I wrote <it>\nmyself.")

    async def appealed() -> str:
        text = await page_of(ways, "/admin/appeals", "moderator")
        return text if f"accept-appeal?number={ended}" in text else ""

    assert "I wrote &lt;it&gt;\nmyself." in await eventually(appealed)
    rejected = await act(ways, "reject-appeal", events.AppealDecided, number=ended)
    assert rejected == events.AppealDecided(is_accepted=False, reason=REASON)
    await act(ways, "restore", events.SubmissionRestored, number=ended)
    await act(ways, "hold", events.SubmissionHeld, number=ended, rule="too fast")
    await appeal("again")
    accepted = await act(ways, "accept-appeal", events.AppealDecided, number=ended)
    assert accepted == events.AppealDecided(is_accepted=True, reason=REASON)


@pytest.mark.server
async def test_each_form_about_participants_writes_the_event_of_its_route(ways: Ways) -> None:
    await act(ways, "open-account", events.AccountOpened, name="newcomer")
    await act(ways, "grant-role", events.RoleGranted, name="target", role="creator")
    await act(ways, "revoke-role", events.RoleRevoked, name="target", role="creator")
    banned = await act(
        ways, "ban", events.AccountBanned, name="target", until_at="2999-01-02T03:04"
    )
    until_at = datetime(2999, 1, 2, 3, 4, tzinfo=UTC)
    assert banned == events.AccountBanned(reason=REASON, until_at=until_at)
    text = await page_of(ways, "/admin/participants/target", "moderator")
    assert "until 2999-01-02" in text
    assert "&lt;b&gt;checked" in text
    assert "/admin/acts/unban?name=target" in text
    # Only an admin is offered roles.
    assert "/admin/acts/grant-role" not in text
    assert "target" in await page_of(ways, "/admin/participants", "moderator")
    await act(ways, "unban", events.AccountUnbanned, name="target")
    renamed = await act(ways, "rename", events.OperatorActed, participant="target", name="renamed")
    assert isinstance(renamed, events.OperatorActed)
    assert renamed.command == "rename"
    await act(ways, "revoke-token", events.TokenRevoked, id=ways.names["token"])
    for answer, is_accepted in (("reject", False), ("accept", True)):
        if is_accepted:
            await act(ways, "unban", events.AccountUnbanned, name="banned")
            await act(ways, "ban", events.AccountBanned, name="banned")
        headers = ways.people["banned"].headers
        filed = await ways.door.http.post("/v1/me/appeal", json={"text": "<me>"}, headers=headers)
        assert filed.status_code == 201, filed.text
        text = await page_of(ways, "/admin/appeals", "moderator")
        assert "&lt;me&gt;" in text
        decided = await act(ways, f"{answer}-ban-appeal", events.BanAppealDecided, name="banned")
        assert decided == events.BanAppealDecided(is_accepted=is_accepted, reason=REASON)
        assert "&lt;me&gt;" not in await page_of(ways, "/admin/appeals", "moderator")


@pytest.mark.server
async def test_invites_are_created_saved_and_revoked(ways: Ways) -> None:
    fields = {"leaderboards": f"{OPEN}, club", "count": "3", "expires_at": "2999-01-02T03:04"}
    before = await ways.door.log.last()
    created = await send(ways, "create-invites", **fields)
    assert created.status_code == 200
    issued = [event.fact for event in ways.door.log.since(before)]
    assert len(issued) == 3
    for fact in issued:
        assert isinstance(fact, events.InviteIssued)
        assert (fact.problems, fact.reason) == ([OPEN, "club"], REASON)
    (url,) = re.findall(r'href="data:text/csv;charset=utf-8,([^"]*)" download', created.text)
    assert unquote(url).split()[0] == "code,leaderboards,expires_at"
    codes = re.findall(r"\b[a-z2-7]{26}\b", unquote(url))
    assert len(codes) == 3
    assert all(code in created.text.partition("<pre")[2] for code in codes)
    # A form that is sent twice is carried out once.
    text = await page_of(ways, "/admin/acts/create-invites", "admin")
    (form_id,) = re.findall(r'name="form_id" value="([^"]+)"', text)
    before = await ways.door.log.last()
    first, second = [
        await send(ways, "create-invites", form_id=form_id, **fields) for _ in range(2)
    ]
    assert len(ways.door.log.since(before)) == 3
    assert first.text.partition("<pre")[2] == second.text.partition("<pre")[2]
    text = await page_of(ways, "/admin/invites?leaderboard=club", "admin")
    assert all(code in text for code in codes)
    before = await ways.door.log.last()
    assert (await send(ways, "revoke-invite", code=codes[0])).status_code == 303
    (revoked,) = ways.door.log.since(before)
    assert revoked.fact == events.InviteRevoked(reason=REASON)
    # An author creates them for their own leaderboards alone.
    answer = await send(ways, "create-invites", "author", leaderboards=OPEN, count="1")
    assert answer.status_code == 200
    answer = await send(ways, "create-invites", "creator", leaderboards=OPEN, count="1")
    assert answer.status_code == 403
    assert "belongs to another author" in answer.text


@pytest.mark.server
async def test_a_form_needs_its_token_its_reason_and_a_confirmation(ways: Ways) -> None:
    await name_account(ways, "p1", "<script>alert(1)</script>")
    waiting = Run("waiting", "p1")
    for aggregate, fact in waiting.facts()[:1]:
        await say(ways.door.log, aggregate, fact, waiting.id)

    async def overdue() -> str:
        text = await page_of(ways, "/admin/overdue", "moderator")
        return text if "Overdue: scheduler" in text else ""

    text = await eventually(overdue)
    assert "&lt;script&gt;alert(1)" in text
    assert "<script" not in text
    last = await ways.door.log.last()
    hostile = '"><script>alert(1)</script>'
    form = await page_of(ways, f"/admin/acts/ban?name={hostile}&unknown=1", "admin")
    assert "<script" not in form
    assert "unknown" not in form
    for fields, status, words in (
        ({"csrf": "0" * 64}, 403, "out of date"),
        ({"csrf": ""}, 403, "out of date"),
        ({"reason": ""}, 422, "Reason: fill in this field"),
        ({"reason": "a\u202eb"}, 422, "eason: "),
        ({"name": "no-such"}, 404, "no-such"),
        ({"name": hostile}, 422, "Participant: use only letters"),
        ({"until_at": "soon"}, 422, "until_at"),
    ):
        answer = await send(ways, "ban", **{"name": "target"} | fields)
        assert answer.status_code == status, answer.text
        assert words in answer.text
        assert "<script" not in answer.text
    # Without scripts, the question is a page with a second form.
    answer = await send(ways, "ban", name="target", confirmed="", reason=hostile)
    assert answer.status_code == 200
    assert "leave the leaderboards" in answer.text
    assert "<script" not in answer.text
    assert await ways.door.log.last() == last
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', answer.text))
    assert hidden["name"] == "target"
    assert "&lt;script&gt;" in hidden["reason"]
    assert '<button name="confirmed" value="yes">Yes, ban</button>' in answer.text
    # Afterwards a page says once what was done.
    headers, _ = ways.browser_credentials("admin")
    done = await send(ways, "ban", name="target")
    headers["Cookie"] += f"; {NOTICE_COOKIE}={done.cookies[NOTICE_COOKIE]}"
    async with ways.browser("admin", headers) as browser:
        page = await browser.get(done.headers["location"])
    assert "target is banned." in page.text
    assert f"{NOTICE_COOKIE}=" in page.headers["set-cookie"]


@pytest.mark.server
async def test_the_overview_shows_what_it_can_while_services_are_down(
    doorway: LoginHarness,
) -> None:
    account, _ = await doorway.logins.people.open("olga", "test", "")
    admin = events.RoleGranted(role="admin", reason="r")
    await doorway.logins.people.decide(account, admin, "operator:olga")
    secret = await doorway.logins.sessions.open(account)
    async with open_site_without_ranker(doorway.logins) as browser:
        browser.cookies.set(SESSION_COOKIE, secret)
        page = await browser.get("/admin")
        # Appeals against bans do not depend on other services.
        assert page.text.count("unknown: a service does not respond") == len(COUNTS) - 1
        assert (await browser.get("/admin/held")).status_code == 503
