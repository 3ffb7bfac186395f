"""The editor of a problem, as a browser without scripts sees it."""

import html
import re
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from ingest.submissions import admission
from shared import subjects
from shared.events import LauncherRegistered, SubmissionReceived
from tests.ingest.test_site_pages import page_of
from tests.ingest.ways import OPEN, Ways
from tests.support.door import taken_in
from tests.support.lives import say

pytestmark = pytest.mark.server

EDITOR = f"/problems/{OPEN}/submit"
CODE = 'def custom_kernel(data):\r\n    return "<b>&amp;" or data\r\n'
FIELDS = {
    "filename": "my kernel.py",
    "mode": "test",
    "gpu": "CPU",
    "key": "one",
    "confirmed": "yes",
}
TEXT_FIELD = re.compile(r"<textarea[^>]*>\n(.*?)</textarea>", re.DOTALL)
LOADED = re.compile(r'(?:src|href)="(/static/[^"]+)"')
EDITOR_BYTES_MAX, PAGE_BYTES_MAX = 500_000, 200_000


async def send(
    ways: Ways, name: str, path: str = EDITOR, files: Any = None, **fields: str | Sequence[str]
) -> httpx.Response:
    """Send the form of the editor from a caller's browser."""
    headers, token = ways.browser_credentials(name)
    data = {"csrf": token, "code": CODE} | FIELDS | fields
    # A browser sends every form with a file field in parts.
    parts = files or {"file": ("", b"", "application/octet-stream")}
    async with ways.browser(name, headers) as browser:
        return await browser.post(path, data=data, files=parts)


def submissions(ways: Ways) -> list[SubmissionReceived]:
    """Return the accepted submissions."""
    return [fact for _, _, fact in taken_in(ways.reads.log)]


def code_of(page: httpx.Response) -> str:
    """Return the code in the text field of a page."""
    match = TEXT_FIELD.search(page.text)
    assert match, page.text
    return html.unescape(match[1])


@pytest.mark.feature("P5")
async def test_a_visitor_can_write_code_and_keeps_it_until_they_log_in(ways: Ways) -> None:
    text = await page_of(ways, EDITOR)
    assert "def custom_kernel" in text
    assert 'value="kernel.py"' in text
    assert re.findall(r'name="gpu" value="(\w+)"( checked)?', text) == [
        ("CPU", " checked"),
        ("H100", ""),
    ]
    assert 'value="H100" checked' in await page_of(ways, f"{EDITOR}?gpu=H100&gpu=B200")
    assert 'H100 <span class="help">no agent</span>' in text
    assert f'href="/login?next={EDITOR}"' in text
    assert "data-restores-draft" in text
    assert "data-restores-draft" not in await page_of(ways, f"{EDITOR}?language=python")
    before = len(submissions(ways))
    page = await send(ways, "nobody")
    assert (page.status_code, code_of(page)) == (401, CODE.replace("\r", ""))
    assert "You are not logged in" in page.text
    assert f'<a href="/login?next={EDITOR}" target="_blank"' in page.text
    # Having logged in elsewhere, they submit with the token of the page that they still have.
    page = await send(ways, "owner", csrf="0" * 64)
    assert (page.status_code, code_of(page)) == (403, CODE.replace("\r", ""))
    assert "submit again" in page.text
    # A form of another site comes without cookies.
    async with ways.browser("nobody", {}) as browser:
        page = await browser.post(EDITOR, data={"code": CODE} | FIELDS)
    assert page.status_code == 403
    assert "custom_kernel" not in page.text
    assert len(submissions(ways)) == before
    await check_page_weights(ways)


async def check_page_weights(ways: Ways) -> None:
    """Check how many bytes the pages load, and that those of the problem link to the editor."""
    async with ways.browser("nobody", {}) as browser:
        for path, bytes_max in (
            (EDITOR, EDITOR_BYTES_MAX),
            (f"/problems/{OPEN}", PAGE_BYTES_MAX),
            ("/", PAGE_BYTES_MAX),
            (f"/leaderboards/{OPEN}/CPU", PAGE_BYTES_MAX),
            ("/archive", PAGE_BYTES_MAX),
        ):
            page = await browser.get(path)
            parts = [page, *[await browser.get(part) for part in LOADED.findall(page.text)]]
            assert all(part.status_code == 200 for part in parts), path
            # Static files are compressed.
            assert 1000 < sum(part.num_bytes_downloaded for part in parts) < bytes_max, path
            assert (EDITOR in page.text) == (path != "/archive"), path


@pytest.fixture
def nobody_serves(ways: Ways, monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent and no launcher serves a GPU type, from the next request on."""
    monkeypatch.setattr(admission, "FRESH_S", 0.0)
    monkeypatch.setattr(ways.door.queue, "state", "no_agent")
    monkeypatch.setattr(ways.door.queue, "reason", "no agent with CPU is alive")


@pytest.mark.usefixtures("nobody_serves")
async def test_a_file_is_submitted_again_to_a_type_that_nobody_serves_once_that_is_confirmed(
    ways: Ways,
) -> None:
    number = re.findall(r"\d+", (await send(ways, "owner", code="z = 3")).headers["location"])[0]
    path = f"/submissions/{number}/resubmit"
    headers, token = ways.browser_credentials("owner")
    form = {"csrf": token, "key": "again", "mode": "test"}
    async with ways.browser("owner", headers) as browser:
        before = len(submissions(ways))
        page = await browser.post(path, data=form)
        assert "agent with CPU is alive: a submission waits" in page.text
        assert 'name="confirmed"' in page.text
        assert len(submissions(ways)) == before
        answer = await browser.post(path, data=form | {"confirmed": "yes"})
        assert answer.status_code == 303
    assert len(submissions(ways)) == before + 1


@pytest.mark.feature("P5")
@pytest.mark.usefixtures("nobody_serves")
async def test_a_form_submits_as_the_api_does(ways: Ways) -> None:
    before = len(submissions(ways))
    # That it waits is confirmed first.
    page = await send(ways, "owner", confirmed="")
    assert page.status_code == 200
    assert "No agent with CPU is alive: a submission waits" in page.text
    assert '<button name="confirmed" value="yes"' in page.text
    assert code_of(page) == CODE.replace("\r", "")
    assert len(submissions(ways)) == before
    answer = await send(ways, "owner")
    assert answer.status_code == 303, answer.text
    path = answer.headers["location"]
    assert "Submission" in await page_of(ways, path, "owner")
    (received,) = submissions(ways)[before:]
    assert (received.account, received.via) == (ways.people["owner"].account, "web")
    assert (received.gpu, received.mode, received.name) == ("CPU", "test", "my_kernel.py")
    source = await ways.door.commands.ports.blobs.get(received.source.digest)
    assert source == CODE.replace("\r\n", "\n").encode()
    # The same form is the same submission; other content in it is another.
    assert (await send(ways, "owner")).headers["location"] == path
    assert (await send(ways, "owner", code="x = 1")).headers["location"] != path
    answer = await send(ways, "owner", gpu=["CPU", "H100"], key="two")
    assert answer.headers["location"].startswith(f"{EDITOR}?submission=")
    assert len(submissions(ways)) == before + 4
    text = await page_of(ways, answer.headers["location"], "owner")
    assert len(set(re.findall(r'href="/submissions/\d+"', text))) == 2
    # A chosen file takes the place of the text.
    file = {"file": ("other.py", b"y = 2\n")}
    assert (await send(ways, "owner", files=file)).status_code == 303
    received = submissions(ways)[-1]
    assert (received.name, received.source.bytes) == ("other.py", 6)


async def test_a_form_keeps_a_parent_that_is_refused(ways: Ways) -> None:
    for parent, wanted in (
        ("#999", f"Parent: 999 is not a submission to {OPEN} that you can see"),
        ("mine", "Parent: expected the number of a submission, such as 12, not"),
    ):
        page = await send(ways, "owner", parent=parent, key=parent)
        assert page.status_code in (404, 422)
        assert wanted in page.text
        assert code_of(page) == CODE.replace("\r", "")
        opened = page.text.partition("<details open>")[2]
        assert opened.lstrip().startswith("<summary>Parent</summary>")
        assert f'name="parent" inputmode="numeric" maxlength="20" value="{parent}"' in opened


async def test_a_form_chooses_a_launcher_which_a_resubmission_keeps(ways: Ways) -> None:
    assert 'name="runner"' not in await page_of(ways, EDITOR)
    launcher = {"name": "modal", "kind": "modal", "running": 0, "running_max": 1}
    launcher |= {"cost_today": 0.0, "daily_cost_max": 9.0}
    ways.reads.live.queues["CPU"] = {"launchers": [launcher]}
    registered = LauncherRegistered(
        kind="modal", prices={"CPU": 0.0}, agents=["m-1"], daily_cost_max=9, start_s_max=60
    )
    await say(ways.door.log, subjects.launcher("modal"), registered)
    assert '<option value="modal">' in await page_of(ways, EDITOR)
    page = await send(ways, "owner", runner="no such")
    assert (page.status_code, code_of(page)) == (400, CODE.replace("\r", ""))
    page = await send(ways, "owner", runner="github")
    assert "there is no launcher" in html.unescape(page.text).lower()
    answer = await send(ways, "owner", runner="modal", confirmed="")
    assert answer.status_code == 303, answer.text
    assert submissions(ways)[-1].requires.runner == "modal"
    # The same content without the launcher is another submission.
    assert (await send(ways, "owner")).headers["location"] != answer.headers["location"]
    assert submissions(ways)[-1].requires.runner == ""
    path = f"{answer.headers['location']}/resubmit"
    await page_of(ways, answer.headers["location"], "owner")
    headers, token = ways.browser_credentials("owner")
    async with ways.browser("owner", headers) as browser:
        fields = {"csrf": token, "mode": "test", "key": "again-and-again"}
        assert (await browser.post(path, data=fields)).status_code == 303
    assert submissions(ways)[-1].requires.runner == "modal"


async def test_a_refused_form_keeps_the_code_beside_the_reason_of_the_api(ways: Ways) -> None:
    before = len(submissions(ways))
    refused: tuple[dict[str, Any], ...] = (
        {"filename": "kernel.txt"},
        {"filename": "kernel.zip"},
        {"mode": "fast"},
        {"gpu": "B200"},
        {"gpu": []},
        {"code": "#!POPCORN leaderboard another\n"},
        {"code": "#!POPCORN nonsense\n", "gpu": []},
        {"code": "x" * 1_200_000},
    )
    for fields in refused:
        sent = {"code": CODE} | FIELDS | fields
        api = await ways.door.http.post(
            "/v1/submissions",
            data={"problem": OPEN, "mode": sent["mode"], "gpu": sent["gpu"]},
            files={"file": (sent["filename"], sent["code"].encode())},
            headers=ways.people["owner"].headers,
        )
        page = await send(ways, "owner", **fields)
        reason = api.json()["detail"]
        assert page.status_code == api.status_code >= 400, fields
        assert f"{reason[:1].upper()}{reason[1:]}" in html.unescape(page.text)
        assert code_of(page) == sent["code"].replace("\r", "")
        assert page.text.count("<h1>") == 1
    # A file that is not text leaves what is in the text field.
    page = await send(ways, "owner", files={"file": ("kernel.py", b"\xff\x00")})
    assert "not UTF-8" in page.text
    assert code_of(page) == CODE.replace("\r", "")
    page = await send(ways, "banned")
    assert page.status_code == 403
    # Without a login, a form is as short as the one to log in.
    page = await send(ways, "nobody", code="#" * 20_000)
    assert page.status_code == 413
    assert "without a login" in page.text
    assert (await send(ways, "owner", code="#" * 5_000_000)).status_code == 413
    assert len(submissions(ways)) == before
    assert (await send(ways, "owner", code="#" * 20_000)).status_code == 303


async def test_a_form_chooses_what_a_profile_records(ways: Ways) -> None:
    page = await send(ways, "owner", mode="profile", case="many")
    assert "Case must be a number, not 'many'" in html.unescape(page.text)
    assert 'value="many"' in page.text
    page = await send(ways, "owner", mode="profile", ncu_kernel_name="regex:copy")
    assert "profiles NVIDIA GPUs, not CPU" in html.unescape(page.text)
    answer = await send(ways, "owner", mode="profile", case="1")
    assert answer.status_code == 303, answer.text
    assert submissions(ways)[-1].case == 1


async def test_the_first_ranked_submission_shows_the_terms_on_each_way(ways: Ways) -> None:
    before = len(submissions(ways))
    page = await send(ways, "participant", mode="ranked", key="terms")
    assert page.status_code == 409
    assert "join the public kernel archive only under a licence that you choose" in page.text
    assert '<option value="MIT">' in page.text
    assert len(submissions(ways)) == before
    assert (
        await send(ways, "participant", mode="ranked", key="terms", licence="gift")
    ).status_code == 422
    answer = await send(ways, "participant", mode="ranked", key="terms", licence="MIT")
    assert answer.status_code == 303, answer.text
    assert submissions(ways)[-1].licence == "MIT"
    # The public client cannot ask: it shows what the platform answers.
    async with ways.browser("participant", ways.people["participant"].headers) as client:
        answer = await client.post(
            f"/submission/{OPEN}/CPU/leaderboard", files={"file": ("k.py", b"x = 1\n")}
        )
    assert answer.status_code == 202, answer.text
    assert "join the public kernel archive only" in answer.json()["licence_notice"]
