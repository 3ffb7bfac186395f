"""The page of a submission: its charts, its forms, and the comparison with another one."""

import gzip
import html
import io
import json
import re
import zipfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ingest.identity.login.web import NOTICE_COOKIE
from ingest.site.formatting import highlight_code
from ingest.site.submissions import CHOICES_MAX
from shared import events
from shared.events import Artefact, Blob, Composition
from shared.presentation.units import escape_control_characters
from shared.source_files import PACKED_MEDIA, SourceFile, pack_files
from tests.ingest.test_site_pages import page_of, run
from tests.ingest.ways import Ways
from tests.support.lives import BLOB, Life
from tests.support.waits import eventually

pytestmark = pytest.mark.server

BLOCK = {"time_us": [400.0, 4.0, 5.0, 6.0, 400.0], "flags": {"0": ["cold"], "4": ["waited"]}}
SAMPLES = {"cases": {"<n>": {"processes": [{"pairs": [{"A": BLOCK, "B": BLOCK}]}] * 2}}}
PROFILE = b"  Name    Self CPU    # of Calls  \n aten::<mm>    33.2ms    7  \n"
KERNELS = b" Function <axpy>:\n  REG:14 STACK:8 SHARED:1024 LOCAL:0 CONSTANT[0]:912\n"
SOURCES = (b"def custom_kernel(data):\n    return data\n", b"def custom_kernel(data):\n    pass\n")


@dataclass(frozen=True)
class TimedLife(Life):
    """A submission of which the samples, a profile and what its kernels use are stored."""

    samples: Blob = BLOB
    profile: Blob = BLOB
    kernels: Blob = BLOB

    def completed(self) -> events.RunCompleted:
        """The verdict of its run, with the files."""
        blobs = {
            "kernels.txt": self.kernels,
            "kernels.ptx": BLOB,
            "kernels.sass": BLOB,
            "profile-0-table.txt": self.profile,
        }
        files = [Artefact(name=name, media="text/plain", blob=blobs[name]) for name in blobs]
        composition = Composition(
            shares={"cublas": 0.13, "own_kernels": 0.87}, operators=["aten::copy_"]
        )
        fact = super().completed()
        return structs.replace(fact, samples=self.samples, artefacts=files, composition=composition)


class Owner:
    """The browser of the owner, which sends the forms of pages."""

    def __init__(self, ways: Ways, http: httpx.AsyncClient) -> None:
        self.http = http
        _, self.csrf = ways.browser_credentials("owner")

    async def send(self, path: str, **fields: str) -> httpx.Response:
        """Send a form, and return its page: where it leads to, or with its error."""
        answer = await self.http.post(path, data={"csrf": self.csrf} | fields)
        if not answer.is_redirect:
            return answer
        notice = f"{NOTICE_COOKIE}={answer.cookies[NOTICE_COOKIE]}"
        headers = {"Cookie": f"{self.http.headers['Cookie']}; {notice}"}
        return await self.http.get(answer.headers["location"], headers=headers)


@pytest.fixture
async def owner(ways: Ways) -> AsyncIterator[Owner]:
    headers, _ = ways.browser_credentials("owner")
    async with ways.browser("owner", headers) as http:
        yield Owner(ways, http)


async def test_samples_profile_code_and_comparison_are_for_whom_the_api_shows_them(
    ways: Ways,
) -> None:
    blobs, account = ways.reads.blobs, ways.people["owner"].account
    packed, source = gzip.compress(json.dumps(SAMPLES).encode()), await blobs.put(SOURCES[0])
    files: dict[str, Any] = {
        "samples": await blobs.put(packed),
        "profile": await blobs.put(PROFILE),
        "kernels": await blobs.put(KERNELS),
    }
    broken = TimedLife("broken", account, samples=await blobs.put(b"no gzip"))
    numbers = await run(ways, TimedLife("own", account, source=source.digest, **files), broken)
    path = f"/submissions/{numbers['own']}"
    text = await page_of(ways, path, "owner")
    assert text.count('<path class="bars"') == 2
    assert "<strong>&lt;n&gt;</strong>" in text
    assert "median 5 µs, fastest 4 µs, 6 calls in 2 processes<" in text
    assert "aten::&lt;mm&gt;" in text
    assert ">33.2ms<" in text
    row = "<code>&lt;axpy&gt;</code></th>" + "".join(
        f'<td class="figure">{figure}</td>' for figure in ("14", "1,024", "8")
    )
    assert row in text
    code = re.search(r"Their code: (.*)</p>", text)
    assert code is not None
    assert re.findall(r'href="([^"]+)">(kernels\.\w+)<', code[1]) == [
        (f"/v1{path}/files/{name}", name) for name in ("kernels.ptx", "kernels.sass")
    ]
    assert '<span class="keyword">return</span> data' in text
    # Each line has an address.
    lines = SOURCES[0].decode().splitlines()
    assert re.findall(r'id="(L\d+)"', text) == [f"L{line}" for line in range(1, len(lines) + 1)]
    assert re.search(r'class="reached"><span class="name">check<', text)
    assert "Composition: 87 % own kernels, 13 % cuBLAS" in text
    assert "torch operators: aten::copy_" in text
    # The files belong to the owner, and the source is not released.
    text = await page_of(ways, path)
    assert "Composition: 87 % own kernels, 13 % cuBLAS" in text
    secrets = (
        "aten::copy_",
        '<path class="bars"',
        "33.2ms",
        "Registers",
        "custom_kernel",
        "Manage",
        "Cancel it",
    )
    for secret in secrets:
        assert secret not in text
    # The page does without a file that cannot be read.
    text = await page_of(ways, f"/submissions/{numbers['broken']}", "owner")
    assert '<path class="bars"' not in text
    assert "Registers" not in text
    assert "Environment" in text


@pytest.mark.feature("N7")
async def test_two_submissions_are_compared_as_far_as_both_are_visible(ways: Ways) -> None:
    account = ways.people["owner"].account
    digests = [(await ways.reads.blobs.put(source)).digest for source in SOURCES]
    lives = (
        Life("a", account, 100.0, source=digests[0]),
        Life("b", account, 50.0, source=digests[1]),
    )
    numbers = await run(ways, *lives)
    path = f"/submissions/{numbers['a']}/compare"
    # However many came after it.
    await run(ways, *(Life(f"later-{index}", account, 200.0) for index in range(CHOICES_MAX + 1)))
    link = f'<a href="{path}?with={numbers["b"]}">with your previous one, #{numbers["a"]}</a>'
    page = f"/submissions/{numbers['b']}"
    assert link in await page_of(ways, page, "owner")
    assert "with your previous one" not in await page_of(ways, page)
    # Everybody may compare an entry with the others of its leaderboard.
    assert f'<a href="{page}/compare">with another</a>' in await page_of(ways, page)
    other = await run(ways, Life("c", ways.people["participant"].account, 60.0))
    text = await page_of(ways, f"{page}/compare")
    assert f'<a href="{page}/compare?with={other["c"]}">#{other["c"]}</a>' in text
    assert f'compare?with={numbers["b"]}"' not in text
    text = await page_of(ways, path, "owner")
    assert f'href="{path}?with={numbers["b"]}"' in text
    text = await page_of(ways, f"{path}?with=%23{numbers['b']}", "owner")
    assert "0.500" in text
    assert "100 µs" in text
    assert '<span class="removed">-    return data</span>' in text
    assert '<span class="added">+    pass</span>' in text
    text = await page_of(ways, f"{path}?with={numbers['b']}")
    assert "0.500" in text
    assert "cannot see both sources" in text
    assert "return data" not in text
    assert "log in</a> to choose from yours" in await page_of(ways, path)
    assert "such as 12" in await page_of(ways, f"{path}?with=x", status=422)
    await page_of(ways, f"{path}?with={ways.names['mine']}", status=404)


@pytest.mark.feature("N7")
async def test_the_download_is_the_file_or_an_archive_of_several(ways: Ways, owner: Owner) -> None:
    account = ways.people["owner"].account
    files = (SourceFile("kernel.py", SOURCES[0]), SourceFile("lib/tile.cuh", b"// \xc3\xa9\n"))
    blobs = [await ways.reads.blobs.put(pack_files(part)) for part in (files, files[:1])]
    several, one = (
        Life(id_, account, time_us, source=blob.digest, media=media)
        for id_, time_us, blob, media in zip(
            "ab", (80.0, 90.0), blobs, (PACKED_MEDIA, "text/x-python"), strict=True
        )
    )
    numbers = await run(ways, several, one)
    text = (await owner.http.get("/me/submissions")).text
    assert text.count("several files") == 1
    assert "several files" in await page_of(ways, "/leaderboards/identity/CPU")
    lines = (await owner.http.get("/v1/me/submissions")).json()["items"]
    assert [line["has_several_files"] for line in lines[:2]] == [False, True]
    answer = await owner.http.get(f"/submissions/{numbers['a']}/source")
    assert answer.headers["content-type"] == "application/zip"
    assert f"submission-{numbers['a']}.zip" in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            file.name: file.data for file in files
        }
    answer = await owner.http.get(f"/submissions/{numbers['b']}/source")
    assert answer.content == SOURCES[0]
    assert "kernel.py" in answer.headers["content-disposition"]
    text = await page_of(ways, f"/submissions/{numbers['a']}", "owner")
    assert "lib/tile.cuh</h3>" in text
    path = f"/submissions/{numbers['a']}/source"
    assert "// é" not in await page_of(ways, path, "participant", status=403)


@given(st.text(st.characters(codec="utf-8"), max_size=300), st.sampled_from(["python", "cuda"]))
def test_highlighting_adds_colours_and_changes_no_text(text: str, language: str) -> None:
    shown = re.sub(r'<span class="[a-z]+">|</span>', "", highlight_code(text, language))
    assert html.unescape(shown) == escape_control_characters(text)


async def test_the_forms_of_an_owner_act_as_the_api_does(ways: Ways, owner: Owner) -> None:
    path = f"/submissions/{ways.names['mine']}"
    text = (await owner.http.get(path)).text
    assert 'value="cancel"' in text
    page = await owner.send(path, action="note", note="tiles <b>", tag="v1")
    text = page.text
    # It is shown once: the page with it is not stored, and deletes its cookie.
    assert text.count("The note is saved.") == 1
    assert page.headers["cache-control"] == "no-store"
    assert f'{NOTICE_COOKIE}=""' in page.headers["set-cookie"]
    assert 'name="note" maxlength="500" value="tiles &lt;b&gt;"' in text
    assert 'title="a-z, 0-9, _, . and -, first a letter or a digit" value="v1"' in text
    for fields, status, message in (
        ({"action": "note", "note": "kept", "tag": "V 1"}, 422, "Tag: write at most 32"),
        ({"action": "note", "note": "x" * 501}, 422, "Note: write at most 500 characters"),
        ({"action": "appeal"}, 422, "Appeal: write 1 to 10,000 characters"),
        ({"action": "appeal", "text": "🙂" * 10_000}, 409, "There is nothing to appeal"),
        ({"action": "withdraw"}, 422, "Withdraw: confirm that"),
        ({"action": "praise"}, 422, "Action: expected cancel, note"),
        ({"action": "note", "csrf": "0"}, 403, "reload it and try again"),
    ):
        answer = await owner.send(path, **fields)
        assert (answer.status_code, answer.text.count('role="alert"')) == (status, 1), fields
        assert message in answer.text
    # What was typed is still there.
    answer = await owner.send(path, action="note", note="kept", tag="V 1")
    assert 'value="kept"' in answer.text
    # The same file is submitted again, once.
    resubmit = f"{path}/resubmit"
    text = (await owner.http.get(resubmit)).text
    assert '<option value="test" selected>' in text
    (key,) = re.findall(r'name="key" value="([^"]+)"', text)
    first = await owner.send(resubmit, key=key, mode="benchmark")
    again = await owner.send(resubmit, key=key, mode="benchmark")
    assert "It is submitted." in first.text
    assert "mode benchmark" in first.text
    assert first.url == again.url
    assert first.url.path != path
    answer = await owner.send(resubmit, key=key, mode="fast")
    assert (answer.status_code, "one of test, benchmark" in answer.text) == (400, True)
    answer = await owner.send(resubmit, key="", mode="test")
    assert (answer.status_code, "reload this page" in answer.text) == (400, True)
    text = (await owner.send(path, action="cancel")).text
    assert "and its quota will be refunded" in text
    assert "It was asked to end without a verdict." in text
    assert 'value="cancel"' not in text
    text = (await owner.send(path, action="withdraw", is_sure="yes")).text
    assert "It is withdrawn from its leaderboard." in text
    # A decision about another submission is appealed.
    numbers = await run(ways, Life("own", ways.people["owner"].account))
    number = numbers["own"]
    path = f"/submissions/{number}"
    assert 'value="appeal"' not in (await owner.http.get(path)).text
    ruling = await ways.door.admin(
        "POST", f"submissions/{number}/disqualify", rule="copied", reason="it is a copy"
    )
    assert ruling.is_success, ruling.text
    await owner.http.get(f"/submissions/{ruling.json()['seq']}")
    assert 'value="appeal"' in (await owner.http.get(path)).text
    text = (await owner.send(path, action="appeal", text="I wrote it.\r\nReally.")).text
    assert "The appeal is filed." in text
    assert "<dt>Appeal</dt><dd>filed" in text
    assert 'value="appeal"' not in text


async def test_operators_alone_see_labels_with_the_lines_that_they_are_about(ways: Ways) -> None:
    text = b"import time\n\n\ndef custom_kernel(data):\n    time.sleep(1)  # <b>\n    return data\n"
    source, account = await ways.reads.blobs.put(text), ways.people["owner"].account
    numbers = await run(ways, Life("slept", account, source=source.digest))
    path = f"/submissions/{numbers['slept']}"
    page = await page_of(ways, path, "moderator")
    assert '<h2 id="labels">Labels</h2>' in page
    assert "The source sleeps, or waits for time to pass" in page
    assert '<a href="#L5">line 5</a>: <code>time.sleep(1)  # &lt;b&gt;</code>' in page
    for name in ("owner", "participant", "creator"):
        assert 'id="labels"' not in await page_of(ways, path, name)

    async def listed() -> str:
        page = await page_of(ways, "/admin/labels?rule=sleep_called", "moderator")
        return page if f'href="{path}#labels"' in page else ""

    assert "sleep_called (" in await eventually(listed)
    assert f'href="{path}#labels"' not in await page_of(
        ways, "/admin/labels?rule=clock_read", "moderator"
    )
    headers, _ = ways.browser_credentials("moderator")
    async with ways.browser("moderator", headers) as browser:
        wrong = await browser.get("/admin/labels?rule=sleeps")
    assert wrong.status_code == 422
    assert "There is no rule" in wrong.text
    assert f'href="{path}#labels"' in wrong.text
