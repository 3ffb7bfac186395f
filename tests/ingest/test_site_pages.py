"""The pages of leaderboards, problems and submissions, over a real read side."""

import csv
import hashlib
import io
import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from xml.etree import ElementTree as ET

import pytest
from msgspec import structs

from shared import events, subjects
from shared.events import Baseline, Blob, CaseResult, Fact
from shared.postgres import connect
from tests.ingest.logins import BASE, LoginHarness, open_site_without_ranker
from tests.ingest.ways import CLOSED, OPEN, Ways
from tests.support.door import FILES, report_of
from tests.support.lives import BLOB, Life, MeasuredLife, live, problem, say
from tests.support.waits import eventually

pytestmark = pytest.mark.server

BOARD = "/leaderboards/identity/CPU"
ATOM = "{http://www.w3.org/2005/Atom}"
# The statements of the page of a leaderboard.
STATEMENTS_MAX = 3
STYLED = re.compile(r"<style|\sstyle=|\son[a-z]+=")


@dataclass(frozen=True)
class Run(Life):
    """A submission of a version with baselines, for which agents print colours."""

    problem_number: int = 2
    baseline: str = ""

    def _received(self) -> Fact:
        return structs.replace(super()._received(), baseline=self.baseline)

    def completed(self) -> events.RunCompleted:
        """The verdict of a run that printed colours."""
        return structs.replace(super().completed(), log_head="\x1b[31mred\x1b[0m <b>")


@dataclass(frozen=True)
class FailedRun(Life):
    """A submission that fails before it is timed, and its source."""

    text: str = ""
    stage: str = "check"
    error: str = ""
    problem_number: int = 2

    @property
    def blob(self) -> Blob:
        """Its source."""
        data = self.text.encode()
        return Blob(digest=hashlib.sha256(data).hexdigest(), bytes=len(data))

    def completed(self) -> events.RunCompleted:
        """The verdict and the error; a build has no cases."""
        is_build = self.stage == "build"
        case = CaseResult(name="size=1", stage=self.stage, verdict=self.verdict, message=self.error)
        return structs.replace(
            super().completed(),
            stage=self.stage,
            reason=f"{self.stage} failed ({self.verdict})"
            f"{'' if is_build else ' on size=1'}: {self.error}",
            cases=[] if is_build else [case],
        )


@dataclass(frozen=True)
class MeasuredRun(MeasuredLife):
    """A submission of the same version that was timed beside the yardstick."""

    problem_number: int = 2


@pytest.fixture
async def ways(ways: Ways) -> Ways:
    baselines = [
        Baseline(name="eager", file="baselines/eager.py", source=BLOB, note="as it is"),
        Baseline(name="absent", file="baselines/absent.py", source=BLOB),
    ]
    version = structs.replace(problem(2), title="<i>Identity</i>", baselines=baselines)
    await say(ways.door.log, subjects.problem("identity"), version)
    return ways


async def name_account(ways: Ways, account: str, name: str) -> None:
    """Give an account a name that ingest itself would refuse."""
    async with await connect(ways.reads.dsn, "accounts") as connection:
        statement = b"insert into participant (account, name) values (%(account)s, %(name)s)"
        await connection.execute(statement, {"account": account, "name": name})


async def run(ways: Ways, *lives: Life) -> dict[str, int]:
    """Append whole lives; their numbers, by id, once all are over."""
    await live(ways.door.log, *lives)

    async def numbers() -> dict[str, int]:
        items = (await ways.reads.get("submissions?limit=200&state=finished"))["items"]
        known = {item["id"]: item["number"] for item in items}
        # The list leaves out the baselines.
        expected = [life.id for life in lives if not getattr(life, "baseline", "")]
        checkpoint = (await ways.reads.get("leaderboards"))["as_of"]
        is_folded = checkpoint == await ways.door.log.last()
        return known if is_folded and all(id_ in known for id_ in expected) else {}

    return await eventually(numbers)


async def page_of(ways: Ways, path: str, name: str = "nobody", status: int = 200) -> str:
    """The text of a page as somebody's browser gets it; it has one heading and no inline style."""
    headers, _ = ways.browser_credentials(name)
    async with ways.browser(name, headers) as browser:
        page = await browser.get(path)
    assert page.status_code == status, page.text
    assert page.text.count("<h1>") == 1
    assert not STYLED.search(page.text)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "'unsafe" not in page.headers["content-security-policy"]
    return page.text


@pytest.mark.feature("P17")
async def test_a_leaderboard_shows_intervals_ties_baselines_and_records(ways: Ways) -> None:
    await name_account(ways, "p1", "<script>alert(1)</script>")
    for count, life in enumerate((Run("slow", "p1", 130.0), Run("fast", "p2", 100.0)), 1):
        await run(ways, life)
        await eventually(partial(has_records, ways, count))
    numbers = await run(
        ways,
        Run("close", ways.people["owner"].account, 100.05),
        Run("b1", "platform:baseline", 110.0, baseline="eager"),
    )
    text = await page_of(ways, BOARD)
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "&lt;i&gt;Identity&lt;/i&gt; on CPU" in text
    # Both of the first are marked and explained; the baseline is between the entries.
    assert text.count(">1=</a>") == 2
    assert text.count("tied: the intervals touch") == 2
    table = text[text.index('<table class="ranking"') :]
    order = [table.index(mark) for mark in (f"#{numbers['fast']}<", ">eager<", "&lt;script")]
    assert order == sorted(order)
    assert "Baselines without a time here: absent (not run)" in text
    assert "100 ± 10 µs" in text
    assert "+30 %" in text
    assert text.count('<svg class="interval"') == 4
    assert 'aria-sort="ascending"' in text
    assert f'href="/submissions/{numbers["slow"]}#why"' in text
    assert "2 records, from 130 µs to 100 µs" in text
    assert 'property="og:description"' in text
    assert f'href="{BASE}{BOARD}"' in text
    assert ">you<" not in text
    assert ">you<" in await page_of(ways, BOARD, "owner")
    await check_previews(ways, text, numbers)
    # Another version has no entries, but is offered.
    first = await page_of(ways, f"{BOARD}?version=1")
    assert "No entry yet" in first
    assert '<option value="2">' in first
    assert f"--leaderboard identity --gpu CPU --url {BASE}" in first


async def test_a_noisy_entry_has_a_range_of_ranks(ways: Ways) -> None:
    quiet = [
        Run(f"quiet{number}", f"p{number}", us, process_us=(us, us, us))
        for number, us in enumerate((90.0, 100.0, 110.0, 150.0))
    ]
    noisy = Run("noisy", "p9", 99.0, process_us=(90.0, 99.0, 109.0), grade="noisy")
    numbers = await run(ways, *quiet, noisy)
    text = await page_of(ways, BOARD)
    assert re.findall(r'class="rank"><a [^>]*>([^<]+)<', text) == [
        "1",
        "2",
        "3=",
        "1\N{EN DASH}3",
        "5",
    ]
    assert "its interval touches those of these ranks" in text
    page = await page_of(ways, f"/submissions/{numbers['noisy']}")
    assert "<strong>1\N{EN DASH}3</strong>" in page


async def test_pages_say_how_a_score_was_measured(ways: Ways) -> None:
    measured = MeasuredRun("measured", "p1", 100.0, yardstick_us=150.0)
    numbers = await run(ways, measured, Run("alone", "p2", 120.0))
    text = await page_of(ways, BOARD)
    assert "1.50 times as fast as the yardstick (1.36 to 1.67)" in text
    assert text.count(">measured alone<") == 1
    page = await page_of(ways, f"/submissions/{numbers['measured']}")
    assert page.count("1.50 times as fast as the yardstick (1.36 to 1.67)") == 1
    assert "<dt>yardstick</dt>" in page
    assert '<span class="figure">1.50x (1.36 to 1.67)</span>' in page
    page = await page_of(ways, f"/submissions/{numbers['alone']}")
    assert "measured alone" in page
    assert "yardstick" not in page


async def has_records(ways: Ways, count: int) -> bool:
    """Whether the leaderboard has so many records."""
    return len((await ways.reads.get("records"))["items"]) == count


async def check_previews(ways: Ways, text: str, numbers: dict[str, int]) -> None:
    """The feed, the image and the times of cases that the page of a leaderboard links to."""
    assert f'data-events="/v1{BOARD}/events"' in text
    (feed_path,) = re.findall(r'type="application/atom\+xml" title="[^"]+" href="([^"]+)"', text)
    (image,) = re.findall(r'property="og:image" content="([^"]+)"', text)
    async with ways.browser("nobody", {}) as browser:
        page = await browser.get(feed_path)
        picture = await browser.get(image)
        tag = {"If-None-Match": picture.headers["etag"]}
        assert (await browser.get(image, headers=tag)).status_code == 304
    assert page.headers["content-type"].startswith("application/atom+xml")
    feed = ET.fromstring(page.content)  # noqa: S314  (ours)
    ids = [entry.findtext(f"{ATOM}id") for entry in feed.findall(f"{ATOM}entry")]
    assert len(set(ids)) == 2
    titles = [entry.findtext(f"{ATOM}title") for entry in feed.findall(f"{ATOM}entry")]
    assert titles == ["100 µs by a deleted name", "130 µs by <script>alert(1)</script>"]
    for updated in feed.iter(f"{ATOM}updated"):
        assert datetime.fromisoformat(updated.text or "").tzinfo is not None
    assert feed.findtext(f"{ATOM}id") == f"{BASE}{BOARD}"
    assert picture.headers["content-type"] == "image/png"
    assert picture.content.startswith(b"\x89PNG\r\n")
    assert (await page_of(ways, f"{BOARD}/cases")).count("<strong>") == 1
    front = await page_of(ways, "/?gpu=CPU")
    assert "Recent records" in front
    assert f'href="/submissions/{numbers["fast"]}"' in front
    assert "No active leaderboard matches" in await page_of(ways, "/?gpu=MI300")
    assert "<option selected>MI300</option>" in await page_of(ways, "/?gpu=MI300&language=cuda")


async def test_a_page_asks_little_and_is_sent_once(ways: Ways) -> None:
    await run(ways, Run("s1", "p1"), Run("b1", "platform:baseline", 110.0, baseline="eager"))
    async with ways.browser("nobody", {}) as browser:
        del ways.reads.statements[:]
        page = await browser.get(BOARD)
        assert 0 < len(ways.reads.statements) <= STATEMENTS_MAX
        assert ">eager<" in page.text
        del ways.reads.statements[:]
        assert (await browser.get(f"{BOARD}?version=1")).status_code == 200
        assert 0 < len(ways.reads.statements) <= STATEMENTS_MAX
        assert page.headers["cache-control"] == "private, no-cache"
        tag = {"If-None-Match": f'W/{page.headers["etag"]}, "another"'}
        again = await browser.get(BOARD, headers=tag)
        assert (again.status_code, again.content) == (304, b"")
        head = await browser.head(BOARD)
        assert (head.status_code, head.headers["etag"]) == (200, page.headers["etag"])
        await run(ways, Run("s2", "p2", 50.0))
        assert (await browser.get(BOARD, headers=tag)).status_code == 200


async def test_a_page_that_cannot_be_shown_names_the_next_step(ways: Ways) -> None:
    for path, status, step in (
        ("/leaderboards/nothing/CPU", 404, "/login?next=/leaderboards/nothing/CPU"),
        (f"/leaderboards/{CLOSED}/CPU", 404, f"/login?next=/leaderboards/{CLOSED}/CPU"),
        ("/leaderboards/identity/B200", 404, "identity has no GPU type"),
        ("/problems/nothing", 404, "there is no problem"),
        ("/submissions/999999", 404, "There is no submission 999999"),
        (f"/submissions/{ways.names['mine']}", 404, "log in"),
        ("/submissions/nothing", 422, "Number"),
        (f"{BOARD}?version=new", 422, f'href="{BOARD}"'),
        (f"{BOARD}?as_of=yesterday", 422, "2026-01-31T12:30"),
        (f"{BOARD}?as_of=2026-01-31", 400, "no archive"),
        (f"{BOARD}?cursor=nonsense", 400, "start without one"),
        (f"/?q={'x' * 101}", 422, "100 characters"),
    ):
        text = await page_of(ways, path, status=status)
        assert step.lower() in text.lower(), path
        assert 'href="/"' in text
    async with ways.browser("nobody", {"Accept": "text/html,*/*;q=0.8"}) as browser:
        assert "There is no page /nothing" in (await browser.get("/nothing")).text
        for path in ("/v1/nothing", "/v1/problems/nothing"):
            assert (await browser.get(path)).json()["code"]
    # Whom the leaderboard is open to sees it, and what next.
    assert "No entry yet" in await page_of(ways, f"/leaderboards/{CLOSED}/CPU", "member")
    # Only those who log in on the web are known on it.
    text = await page_of(ways, f"/leaderboards/{CLOSED}/CPU", "operator's token", 404)
    assert f"/problems/{CLOSED}" not in await page_of(ways, f"/?q={CLOSED}")
    assert f"/problems/{CLOSED}" in await page_of(ways, f"/?q={CLOSED}", "member")


async def test_a_problem_shows_its_statement_safely_and_how_to_start(ways: Ways) -> None:
    statement = (
        "# Copy\n\n<script>alert(1)</script> ![x](https://x.example/x.png) [go](javascript:alert)\n"
        "\n| a | b |\n|---|---|\n| `x` | $y_1 < y_2$ |\n"
    )
    files = FILES | {"statement.md": statement.encode()}
    author = ways.people["author"].headers
    for version in (FILES, files):
        report = report_of(version, "stated")
        fields = {"slug": "stated", "report": report, "deadline": "2999-01-02T03:04:00Z"}
        parts = [("files", (name, text)) for name, text in version.items()]
        answer = await ways.door.http.post("/v1/problems", data=fields, files=parts, headers=author)
        assert answer.status_code == 201, answer.text

    async def has_read_the_log() -> str:
        async with ways.browser("nobody", {}) as browser:
            text = (await browser.get("/problems/stated")).text
        return text if "Version 2" in text and "2999-01-02 03:04 UTC" in text else ""

    text = await eventually(has_read_the_log)
    assert "&lt;script&gt;" in text
    assert "<script>" not in text
    assert "<img" not in text
    assert 'href="javascript' not in text
    assert "<msub><mi>y</mi><mn>1</mn></msub><mo>&lt;</mo>" in text
    assert "<h3>Copy</h3>" not in text
    assert f"warpboard init stated --url {BASE}" in text
    assert "/v1/problems/stated/files/reference.py?version=2" in text
    assert 'href="/v1/evaluation/eval.py?problem=stated&amp;version=2">eval.py</a>' in text
    assert "<summary>Reference: reference.py</summary>" in text
    assert "<summary>Starter for Python: kernel.py</summary>" in text
    assert '<span class="name">custom_kernel</span>' in text
    assert 'href="/problems/stated/submit"' in text
    assert 'href="/leaderboards/stated/H100"' in text
    assert "seed" not in text.replace("draws new seeds", "")
    old = await page_of(ways, "/problems/stated?version=1")
    assert "This is an older version" in old
    assert '<option value="1" selected>' in old
    assert "<p>Copy the input.</p>" in old
    async with ways.browser("nobody", {}) as browser:
        for link in set(re.findall(r'href="(/[^"#]*)"', text)):
            assert (await browser.get(link)).status_code in (200, 303), link


async def test_a_submission_shows_its_family_and_what_each_step_gained(ways: Ways) -> None:
    owner, other = (ways.people[name].account for name in ("owner", "participant"))
    first = (await run(ways, Life("first", owner, 100.0)))["first"]
    assert 'id="lineage"' not in await page_of(ways, f"/submissions/{first}")
    second = (await run(ways, Life("second", other, 50.0, parent=first)))["second"]
    slower = Life("slower", owner, 80.0, parent=second)
    hidden = Life("hidden", owner, mode="test", parent=second)
    numbers = await run(ways, slower, hidden)
    text = (await page_of(ways, f"/submissions/{second}")).partition('id="lineage"')[2]
    family = text.partition("</section>")[0]
    links = re.findall(r'<(?:a href="/submissions/\d+"|strong)>#(\d+)</(?:a|strong)> <a', family)
    assert links == [str(first), str(second), str(numbers["slower"])]
    assert f'Parent <a href="/submissions/{first}">#{first}</a>, declared.' in family
    assert '<span class="gain faster">2.00x</span> as fast as it.' in family
    assert '<span class="gain slower">0.625x</span> as fast as it.' in family
    assert 'aria-current="true"' in family
    own = await page_of(ways, f"/submissions/{second}", "owner")
    assert f"#{numbers['hidden']}</a>" in own
    assert '<span class="tag">test</span>' in own


async def test_a_submission_shows_others_its_rank_and_its_owner_everything(ways: Ways) -> None:
    owner = ways.people["owner"].account
    numbers = await run(ways, Run("good", "p1"), Run("own", owner, verdict="wrong_answer"))
    text = await page_of(ways, f"/submissions/{numbers['good']}")
    assert 'id="why">Why this rank' in text
    assert "the agent reported its signed result" in text
    assert "verified: the agent signed the result" in text
    assert "the next seal will cover these events" in text
    assert "100 ± 10 µs" in text
    assert "You cannot see its source: everybody sees it once" in text
    # The environment and the output are for the owner.
    for name in ("nobody", "participant"):
        text = await page_of(ways, f"/submissions/{numbers['own']}", name)
        assert "x1b[31m" not in text
        assert "Environment" not in text
    text = await page_of(ways, f"/submissions/{numbers['own']}", "owner")
    assert "red &lt;b&gt;" in text
    assert "x1b" not in text
    assert "Why it has no rank" in text
    assert "wrong answer" in text
    assert "torch" in text
    (script,) = re.findall("<script[^>]*>", text)
    assert script.startswith('<script src="/static/copy.js?v=')
    # While it is not over, its page follows the events, and reloads without scripts.
    waiting = Run("waiting", ways.people["owner"].account)
    for aggregate, fact in waiting.facts()[:1]:
        await say(ways.door.log, aggregate, fact, waiting.id)

    async def number() -> int:
        items = (await ways.reads.get("submissions"))["items"]
        return next((item["number"] for item in items if item["id"] == "waiting"), 0)

    path = f"/submissions/{await eventually(number)}"
    headers, _ = ways.browser_credentials("owner")
    async with ways.browser("owner", headers) as browser:
        page = await browser.get(path)
        assert "script-src 'self'; connect-src 'self'" in page.headers["content-security-policy"]
        assert '<noscript><meta http-equiv="refresh"' in page.text
        assert f'data-events="/v1{path}/events?after=' in page.text
        assert 'aria-current="step"><span class="name">queued' in page.text
        for script in re.findall(r'<script src="([^"]+)" defer>', page.text):
            answer = await browser.get(script)
            assert answer.headers["content-type"].startswith("text/javascript")


FAULT = """import ctypes


def read(address):
    ctypes.string_at(address)


def custom_kernel(data):
    read(0)
"""
FAULT_ERROR = """the process was killed by SIGSEGV
  File "submission.py", line 9, in custom_kernel
    read(0)
  File "submission.py", line 5, in read
    ctypes.string_at(address)"""
FORBIDDEN = """import torch


def custom_kernel(data):
    return torch.mm(*data)
"""
FORBIDDEN_ERROR = """line 5: torch.mm is not allowed
    return torch.mm(*data)"""
BROKEN = """#include "warpboard.h"

int custom_kernel() { return oops; }
"""
BROKEN_ERROR = """submission.cpp: In function 'int custom_kernel()':
submission.cpp:3:30: error: 'oops' was not declared in this scope
    3 | int custom_kernel() { return oops; }
      |                              ^~~~"""


async def test_a_failure_is_shown_once_and_its_line_is_marked_in_the_source(ways: Ways) -> None:
    owner = ways.people["owner"].account
    fault = FailedRun("fault", owner, verdict="crashed", text=FAULT, error=FAULT_ERROR)
    build = FailedRun("", owner, stage="build")
    forbidden = replace(
        build, id="forbidden", verdict="policy", text=FORBIDDEN, error=FORBIDDEN_ERROR
    )
    broken = replace(
        build, id="broken", verdict="compile_error", text=BROKEN, error=BROKEN_ERROR, name="k.cpp"
    )
    for failed in (fault, forbidden, broken):
        await ways.reads.blobs.put(failed.text.encode())
    numbers = await run(ways, fault, forbidden, broken)
    pages = {
        name: await page_of(ways, f"/submissions/{number}", "owner")
        for name, number in numbers.items()
    }
    for name, line, columns, first, text in (
        ("fault", "5", ["5"], "killed by SIGSEGV", "the process was killed by SIGSEGV"),
        (
            *("forbidden", "5", [], "torch.mm is not allowed"),
            "line 5: torch.mm is not allowed\n  &gt; return torch.mm(*data)",
        ),
        (
            *("broken", "3", ["30"], "was not declared"),
            BROKEN_ERROR.partition("\n")[2].replace("'", "&#39;"),
        ),
    ):
        page = pages[name]
        assert f'data-error-line="{line}"' in page
        assert re.findall(r'data-error-column="(\d+)"', page) == columns
        assert f'<pre class="error-text" tabindex="0"><code>{text}</code></pre>' in page
        # The line is marked beside the error, and in the whole source.
        assert re.findall(r'<span class="line failing" data-line="(\d+)"', page) == [line, line]
        assert page.index("error-text") < page.index("line failing") < page.index('id="state"')
        # Where the page says why there is no rank, it does not repeat the error.
        why = page[page.index("Why it has no rank") : page.index('id="events"')]
        assert "not ranked <code>" in why
        assert first not in why
    # The marked line is not repeated among the frames.
    assert "submission.py:9, in custom_kernel" in pages["fault"]
    assert "submission.py:5, in read" not in pages["fault"]
    # Others see neither the error nor the source.
    other = await page_of(ways, f"/submissions/{numbers['fault']}", "participant")
    assert "data-error-line" not in other
    assert "line failing" not in other


async def test_pages_say_that_the_read_side_is_down(doorway: LoginHarness) -> None:
    async with open_site_without_ranker(doorway.logins) as browser:
        for path in (BOARD, "/problems/identity", "/submissions/1"):
            page = await browser.get(path)
            assert (page.status_code, page.headers["retry-after"]) == (503, "60")
            assert f'<a href="{path}">Reload the page</a>' in page.text
            assert "set-cookie" not in page.headers


async def test_the_page_of_a_leaderboard_shows_the_first_places_and_everybodys_progress(
    ways: Ways,
) -> None:
    for count, life in enumerate((Run("slow", "p1", 300.0), Run("fast", "p1", 100.0)), 1):
        await run(ways, life)
        await eventually(partial(has_records, ways, count))
    await run(ways, Run("other", "p2", 200.0))
    await name_account(ways, "p1", "ada")
    text = await page_of(ways, BOARD)
    podium = text[text.index('<ol class="podium"') : text.index("</ol>")]
    assert podium.count('class="medal medal-') == 2
    assert "Leader" in podium
    assert "+100 %" not in podium
    assert "2x to the leader" in podium
    assert "Third place" in podium
    assert "-67 % on 300" in podium
    # Two scores of ada, one of the other, and the records, as dots of a chart and in tables.
    chart = text[text.index('<svg class="plot"') : text.index("</figure>")]
    assert 'data-name="ada"' in chart
    assert chart.count("<circle") == 3 + 2
    table = text[text.index("How the first entries became faster") :]
    assert table[: table.index("</table>")].count("<tr>") == 1 + 3
    assert "all runs of it are pooled" in text
    assert "all runs of it are pooled" in await page_of(ways, f"/problems/{OPEN}")


async def test_a_leaderboard_is_filtered_by_a_link(ways: Ways) -> None:
    await run(
        ways,
        Run("a", "p1", 100.0, toolchains=("triton",)),
        Run("b", "p2", 200.0, name="kernel.cpp", toolchains=("g++",)),
    )
    text = await page_of(ways, BOARD)
    links = re.findall(r'<a class="chip[^"]*" href="([^"]+)"', text)
    assert f"{BOARD}?language=cpp" in links
    assert f"{BOARD}?toolchain=triton" in links
    for link in links:
        assert (await page_of(ways, link.replace("&amp;", "&"))).count('aria-current="true"') >= 1
    text = await page_of(ways, f"{BOARD}?language=cpp")
    assert re.findall(r'class="rank"><a [^>]*>([^<]+)<', text) == ["2"]
    assert "No entry has this language" in await page_of(ways, f"{BOARD}?toolchain=nvcc")


@pytest.mark.feature("P1")
async def test_the_front_page_is_a_matrix_of_problems_and_gpu_types(ways: Ways) -> None:
    for count, life in enumerate((Run("slow", "p1", 300.0), Run("fast", "p2", 100.0)), 1):
        await run(ways, life)
        await eventually(partial(has_records, ways, count))
    text = await page_of(ways, "/")
    table = text[text.index('<table class="matrix"') :]
    assert f'href="{BOARD}">2 entries' in table
    assert 'class="medal medal-1"' in table
    assert 'class="medal medal-2"' in table
    assert '<svg class="spark"' in table
    # Types without an agent or an entry are one line; each can be opened.
    assert "without an agent or an entry</summary>" in table
    columns = re.findall(r'<th role="columnheader" scope="col">([^< ]+)', table)
    assert columns == ["Problem", "CPU"]
    chosen = await page_of(ways, "/?gpu=H100")
    assert f'href="/leaderboards/{OPEN}/H100"' in chosen


async def test_badges_and_cards_show_what_everybody_can_see(ways: Ways) -> None:
    await run(ways, Run("s1", "p1", 100.0), Run("s2", ways.people["owner"].account, 200.0))
    await name_account(ways, "p1", "<b>&")
    images = [f"{BOARD}/badge.svg", f"{BOARD}/card.svg", f"{BOARD}/card.svg?theme=dark"]
    images += ["/people/owner/badge.svg", "/people/owner/card.svg"]
    headers, _ = ways.browser_credentials("owner")
    async with ways.browser("owner", headers) as browser:
        for path in images:
            image = await browser.get(path)
            assert image.status_code == 200, path
            assert image.headers["content-type"] == "image/svg+xml"
            assert image.headers["cache-control"] == "public, max-age=300"
            assert "vary" not in image.headers
            ET.fromstring(image.content)  # noqa: S314  (ours)
            assert not STYLED.search(image.text)
            tag = {"If-None-Match": image.headers["etag"]}
            assert (await browser.get(path, headers=tag)).status_code == 304
            if path.startswith(BOARD):
                assert "&lt;b&gt;&amp;" in image.text
        assert "on 1 leaderboard" in (await browser.get("/people/owner/badge.svg")).text
        page = await browser.get(f"{BOARD}/badge")
        assert f"]({BASE}{BOARD}/badge.svg)]({BASE}{BOARD})" in page.text
    # Members see a closed leaderboard, but no image of it: caches may keep images.
    headers, _ = ways.browser_credentials("member")
    async with ways.browser("member", headers) as browser:
        assert (await browser.get(f"/leaderboards/{CLOSED}/CPU")).status_code == 200
        for name in ("badge.svg", "card.svg"):
            assert (await browser.get(f"/leaderboards/{CLOSED}/CPU/{name}")).status_code == 404


async def test_entries_can_be_downloaded_as_csv(ways: Ways) -> None:
    await name_account(ways, "p2", "=HYPERLINK(1)")
    numbers = await run(
        ways, Run("s1", "p1", 100.0, toolchains=("triton", "cutedsl")), Run("s2", "p2", 200.0)
    )
    async with ways.browser("nobody", {}) as browser:
        answer = await browser.get(f"{BOARD}/entries.csv")
        filtered = await browser.get(f"{BOARD}/entries.csv?toolchain=triton")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    first, second = csv.DictReader(io.StringIO(answer.text))
    assert (first["rank"], first["number"]) == ("1", str(numbers["s1"]))
    assert (float(first["score_us"]), first["toolchains"]) == (100.0, "triton cutedsl")
    assert second["participant"] == "'=HYPERLINK(1)"
    assert len(list(csv.DictReader(io.StringIO(filtered.text)))) == 1


async def test_a_leaderboard_without_a_gpu_type_leads_to_its_first_one(ways: Ways) -> None:
    await run(ways, Run("s1", "p1"))
    async with ways.browser("nobody", {}) as browser:
        answer = await browser.get("/leaderboards/IDENTITY")
        assert (answer.status_code, answer.headers["location"]) == (307, BOARD)
        answer = await browser.get(f"/leaderboards/{OPEN}")
        assert answer.headers["location"].startswith(f"/leaderboards/{OPEN}/")
        for missing in ("nothing", CLOSED):
            assert (await browser.get(f"/leaderboards/{missing}")).status_code == 404


async def test_an_error_page_knows_who_is_logged_in(ways: Ways) -> None:
    text = await page_of(ways, "/problems/nothing", "owner", status=404)
    assert "You are logged in as owner" in text
    assert "Log out" in text
    assert "/login" not in text
    text = await page_of(ways, "/problems/nothing", status=404)
    assert "Log out" not in text
    assert "/account" not in text
