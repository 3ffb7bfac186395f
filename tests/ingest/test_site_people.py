"""The pages of participants, queue, agents and notifications, over a real read side."""

import re
from datetime import timedelta

import pytest
from msgspec import structs

from ingest.site import people
from ranker.service import rating as ratings
from shared import events, subjects
from tests.ingest.test_site_pages import Run, name_account, page_of, run
from tests.ingest.ways import CLOSED, OPEN, Ways
from tests.support.holders import submit
from tests.support.lives import AGENT, T0, Life, problem, registration, say
from tests.support.waits import eventually

pytestmark = pytest.mark.server

HOUR = timedelta(hours=1)
ODD_NAME = "<img src=x>"
LAUNCHER = {
    "name": "cluster",
    "kind": "<cloud>",
    "running": 1,
    "running_max": 2,
    "cost_today": 3.5,
    "daily_cost_max": 10.0,
}
TITLE = "Sort; count, and \\ é" + "é" * 60


@pytest.fixture
async def ways(ways: Ways) -> Ways:
    await say(ways.door.log, subjects.problem("identity"), problem(2))
    return ways


async def page_with(ways: Ways, path: str, text: str, name: str = "nobody") -> str:
    """Return a page once it has a text, because the read side follows the log."""

    async def read() -> str:
        page = await page_of(ways, path, name)
        return page if text in page else ""

    return await eventually(read)


async def send(ways: Ways, name: str, path: str, /, **fields: str | list[str]) -> tuple[int, str]:
    """Send a form of a page, and return the status and the text of the answer."""
    headers, csrf = ways.browser_credentials(name)
    async with ways.browser(name, headers) as browser:
        answer = await browser.post(path, data={"csrf": csrf} | fields)
    return answer.status_code, answer.text


@pytest.mark.feature("P22")
async def test_a_profile_shows_strangers_what_the_api_shows_them(
    ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ratings, "KEPT_S", 0.5)
    owner = ways.people["owner"].account
    await name_account(ways, "p1", "<script>alert(1)</script>")
    await name_account(ways, "p2", ODD_NAME)
    await run(ways, Run("first", owner, 200.0))
    # A record is announced after the result.
    await page_with(ways, "/people/owner", "Records")
    numbers = await run(
        ways,
        Run("other", "p1", 100.0),
        Run("odd", "p2", 300.0),
        Run("slower", owner, 250.0),
        Run("better", owner, 150.0),
        Run("wrong", owner, verdict="wrong_answer"),
        Run("quick", owner, mode="test"),
    )
    headers = ways.people["owner"].headers
    answer = await submit(ways.door, headers, problem=CLOSED, mode="ranked")
    closed = answer.json()["submissions"][0]["number"]
    text = await page_of(ways, "/people/owner")
    assert '<strong class="figure">2</strong> of 3' in text
    assert "+50 %" in text
    # Two of the three scores were the best when they came.
    assert (text.count('class="standing"'), text.count('class="undone"')) == (2, 1)
    assert "3 scores of owner on identity, CPU: the first 200 µs, the newest 150 µs." in text
    assert "wrong answer" in text
    # A stranger sees neither other modes, closed leaderboards nor milestones.
    assert f"/submissions/{numbers['quick']}" not in text
    assert (CLOSED in text, ">you<" in text, "Milestones" in text) == (False, False, False)
    own = await page_with(ways, "/people/owner", f"/submissions/{closed}", "owner")
    assert ">you<" in own
    assert "Only you see this part." in own
    assert f"/submissions/{closed}" in await page_of(ways, "/people/owner", "member")
    # Names are links, and an odd one is never markup.
    board = await page_of(ways, "/leaderboards/identity/CPU")
    assert 'href="/people/owner">owner</a>' in board
    assert 'href="/people/%3Cimg%20src%3Dx%3E">&lt;img src=x&gt;</a>' in board
    odd = await page_of(ways, "/people/%3Cimg%20src%3Dx%3E")
    assert "<h1>&lt;img src=x&gt;</h1>" in odd
    assert "<img" not in odd
    # The rating is on its own page and on that of a participant: 100 x 1 / (2 + 5).
    rating = await page_with(ways, "/rating", '<td role="cell" class="figure">14.3</td>', "owner")
    assert ">you<" in rating
    assert 'href="/people/owner">owner</a>' in rating
    assert CLOSED not in rating
    then = await page_of(ways, "/rating?as_of=2026-01-31T12:30", status=400)
    assert "no archive" in then, then
    rated = '<a href="/rating">Rating</a> <strong class="figure">14.3</strong>, rank 2.'
    assert rated in await page_with(ways, "/people/owner", rated)
    missing = await page_of(ways, "/people/%3Cscript%3E", status=404)
    assert "<script>" not in missing + board
    # Someone who was renamed is found by the former name.
    await ways.logins.people.rename("walker", "strider", "asked", "operator:o")
    async with ways.browser("nobody", {}) as browser:
        moved = await browser.get("/people/walker")
        assert (moved.status_code, moved.headers["location"]) == (303, "/people/strider")
        assert "On no leaderboard that you can see" in (await browser.get("/people/strider")).text


@pytest.mark.feature("P18")
async def test_own_submissions_are_filtered_and_paged(
    ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = ways.people["owner"].headers
    answer = await submit(ways.door, headers, tag="tiles", note="a <b>note</b>", gpu="H100")
    tagged = str(answer.json()["submissions"][0]["number"])
    text = await page_with(ways, "/me/submissions", f">#{tagged}<", "owner")
    mine, closed = ways.names["mine"], ways.names["closed"]
    assert "a &lt;b&gt;note&lt;/b&gt;" in text

    async def listed(query: str, name: str = "owner") -> list[str]:
        page = await page_of(ways, f"/me/submissions?{query}", name)
        return re.findall(r'scope="row"><a href="/submissions/([0-9]+)">', page)

    assert await listed("") == [tagged, closed, mine]
    assert await listed("tag=tiles") == await listed("gpu=h100") == [tagged]
    assert await listed(f"problem={CLOSED}&mode=test&state=open") == [closed]
    assert await listed("mode=ranked") == await listed("state=passed") == []
    assert "No submission matches" in await page_of(ways, "/me/submissions?mode=ranked", "owner")
    assert "You have not submitted anything yet" in await page_of(ways, "/me/submissions", "member")
    assert (await page_of(ways, "/me/submissions?mode=test", "owner")).count(" selected>test<") == 1
    await page_of(ways, "/me/submissions?cursor=nonsense", "owner", status=400)
    monkeypatch.setattr(people, "OWN_SUBMISSIONS_PER_PAGE", 2)
    first = await page_of(ways, "/me/submissions?state=open", "owner")
    match = re.search(r'href="(/me/submissions\?state=open&amp;cursor=[^"]+)" rel="next"', first)
    assert match
    last = await page_of(ways, match[1].replace("&amp;", "&"), "owner")
    assert f">#{mine}<" in last
    assert 'rel="next"' not in last
    async with ways.browser("nobody", {}) as browser:
        assert (await browser.get("/me/submissions")).headers[
            "location"
        ] == "/login?next=/me/submissions"


async def test_the_queue_and_the_agents_show_what_the_api_shows(ways: Ways) -> None:
    log, live = ways.door.log, ways.reads.live
    agent = subjects.agent(AGENT)
    walls = [events.Missing(wall="uid", reason="not <root>", fix="run as root")]
    await say(log, agent, structs.replace(registration(), missing=walls))
    await say(log, agent, events.AgentQuarantined(reason="canary drifted: 9 %", failures=0))
    for ratio, is_good in ((0.98, True), (1.25, False), (0.0, False)):
        await say(log, agent, events.CanaryJudged(run="c", ratio=ratio, is_good=is_good))
    live.agents[AGENT] = {"registration": {"gpu": "CPU"}, "is_free": False}
    waiting = Life("waiting", ways.people["owner"].account)
    for aggregate, fact in waiting.facts()[:1]:
        await say(log, aggregate, fact, waiting.id)
    live.queues["CPU"] = {
        "gpu": "CPU",
        "free": 0,
        "busy": 1,
        "run_s": {"p50": 3.0, "p90": 9.0},
        "jobs": [["another", 1, 3.0, 9.0, ""], [waiting.id, 2, 6.0, 18.0, "<turns>"]],
        "runs": [[AGENT, "submission", waiting.id, T0.isoformat()]],
        "launchers": [LAUNCHER],
    }
    live.queues["H100"] = {"gpu": "H100", "free": 0, "busy": 0, "launchers": [LAUNCHER]}
    text = await page_with(ways, "/queue", ">owner</a>")
    assert "of another participant" in text
    assert "6 s" in text
    assert "&lt;turns&gt;" in text
    number = re.findall(r'href="/submissions/([0-9]+)"', text)
    # The unfinished ranked submission is public; its place in the forecast is its owner's.
    assert len(number) == 1
    own = await page_of(ways, "/queue", "owner")
    assert own.count(f'href="/submissions/{number[0]}"') == 2
    # Only operators see what launchers run and cost.
    assert "cluster" not in text + own
    (row,) = re.findall(r"<tr.*>cluster</th>.*", await page_of(ways, "/queue", "admin"))
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", row)
    assert cells == ["&lt;cloud&gt;", "CPU, H100", "1 of 2", "3.50 of 10.00"]
    text = await page_with(ways, "/agents", "quarantined")
    assert ">quarantined<" in text
    assert "canary drifted: 9 %" in text
    assert re.search(r'runs submission <a href="/submissions/\d+">#\d+</a> for \d', text)
    assert (text.count('class="standing"'), text.count('class="undone"')) == (1, 2)
    assert "from 0.000 to 1.250 times the usual time, 2 failed or too slow" in text
    assert "uid is missing: not &lt;root&gt;; run as root" in text
    async with ways.browser("nobody", {}) as browser:
        for path in ("/queue", "/queue?all=1", "/agents"):
            page = await browser.get(path)
            assert (
                "script-src 'self'; connect-src 'self'" in page.headers["content-security-policy"]
            )
            assert '<noscript><meta http-equiv="refresh"' in page.text
            assert page.text.count("data-refresh-s") == 1
            script = re.findall(r'<script src="([^"]+)" defer>', page.text)[-1]
            assert (await browser.get(script)).status_code == 200
    live.agents.clear()
    assert ">silent, quarantined<" in await page_of(ways, "/agents")


async def test_an_account_chooses_its_notifications_and_webhooks(ways: Ways) -> None:
    path = "/account/notifications"
    text = await page_of(ways, path, "owner")
    assert "no Discord identity yet" in text
    status, _ = await send(ways, "owner", f"{path}/discord", overtaken="dm", threads="per_problem")
    assert status == 303
    text = await page_of(ways, path, "owner")
    assert '<option value="dm" selected>' in text
    assert '<option value="per_problem" selected>' in text
    status, text = await send(ways, "owner", f"{path}/discord", overtaken="pigeon")
    assert status == 422
    assert "Overtaken: Input should be" in text
    webhooks = f"{path}/webhooks"
    for fields, message in (
        ({"url": "https://example.org/<b>"}, "choose at least one event"),
        ({"url": "http://example.org/hook", "event": "submission.ended"}, "expected https://"),
        ({"url": "https://example.org/hook", "event": "nothing"}, "events: input should be"),
        (
            {"url": "https://example.org/hook", "event": "submission.ended", "secret": "short"},
            "secret: string",
        ),
    ):
        status, text = await send(ways, "owner", webhooks, **fields)
        assert status in (400, 422), message
        assert message in text.lower()
        assert "<details open>" in text
        assert "<b>" not in text
    right = {"url": "https://example.org/hook", "problems": f"{OPEN}, {CLOSED}"}
    status, text = await send(ways, "owner", webhooks, **right, event=["submission.ended"])
    assert status == 200
    match = re.search(r">(wbhook_[A-Za-z0-9_-]+)<", text)
    assert match
    text = await page_of(ways, path, "owner")
    assert match[1] not in text
    (link,) = re.findall(r'href="(/account/notifications/webhooks/[^"]+)"', text)
    assert "None yet" in await page_of(ways, link, "owner")
    assert (await send(ways, "owner", f"{link}/test"))[0] == 303
    assert "<code>test</code>" in await page_of(ways, link, "owner")
    # It is its owner's, and nothing happens without the token of a form.
    await page_of(ways, link, "participant", status=404)
    assert (await send(ways, "participant", f"{link}/remove"))[0] == 404
    headers, _ = ways.browser_credentials("owner")
    async with ways.browser("owner", headers) as browser:
        assert (await browser.post(f"{link}/remove", data={"csrf": "x"})).status_code == 403
    async with ways.browser("nobody", {}) as browser:
        assert (await browser.get(link)).headers["location"] == f"/login?next={link}"
    assert (await send(ways, "owner", f"{link}/remove"))[0] == 303
    assert "None yet" in await page_of(ways, path, "owner")


async def test_the_archive_page_searches_and_says_what_there_is(ways: Ways) -> None:
    text = await page_of(ways, "/archive")
    for part in ("There is no release yet", "pandas.read_parquet", "import polars", "duckdb.sql"):
        assert part in text
    assert "No source is public yet" in text
    assert "No kernel that you may read matches" in await page_of(ways, "/archive?q=fused+softmax")
    assert "There is no language" in await page_of(ways, "/archive?language=cobol")


@pytest.mark.feature("N9")
async def test_two_accounts_become_one_on_their_page_and_two_again(ways: Ways) -> None:
    path = "/account/merge"
    status, text = await send(ways, "member", f"{path}/code")
    assert status == 200
    (code,) = re.findall(r'<code class="secret">([^<]+)</code>', text)
    assert "Make a code" in await page_of(ways, path, "participant")
    assert code not in await page_of(ways, path, "member")
    status, text = await send(ways, "participant", path, code="not-a-code")
    assert (status >= 400, 'role="alert"' in text) == (True, True)
    # The account that remains is asked first, and no leaves both as they are.
    status, text = await send(ways, "participant", path, code=code)
    assert (status, "Are both accounts yours?" in text) == (200, True)
    assert re.findall(r"<dd>(member|participant)</dd>", text) == ["member", "participant"]
    assert (await send(ways, "participant", f"{path}/answer", code=code, answer="no"))[0] == 303
    assert "Part of this account" not in await page_of(ways, path, "participant")
    assert (await send(ways, "participant", f"{path}/answer", code=code, answer="yes"))[0] == 303
    text = await page_of(ways, path, "participant")
    assert "<strong>member</strong>" in text
    account = ways.people["member"].account
    assert f'action="{path}/{account}/undo"' in text
    # A code works once.
    assert (await send(ways, "participant", path, code=code))[0] >= 400
    assert (await send(ways, "participant", f"{path}/{account}/undo"))[0] == 303
    assert "Part of this account" not in await page_of(ways, path, "participant")
    status, text = await send(ways, "participant", f"{path}/{account}/undo")
    assert (status >= 400, 'role="alert"' in text) == (True, True)
