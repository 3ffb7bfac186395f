"""`python -m tests.system.pictures [FOLDER]` takes the screenshots in docs/images/web again.

It starts a platform and a browser, and takes three minutes. With a folder, it writes screenshots
of the whole pages there, too: each on a desktop and a phone, light and dark.
"""

import asyncio
import io
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from PIL import Image

from shared.clock import now
from tests.support.browser import log_in_admin, open_browser, open_context, send_login_form
from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import PATIENT, ROOT, Running
from tests.support.waits import until
from tests.system.test_problem_checks import REFERENCE

if TYPE_CHECKING:
    from playwright.async_api import Page

FOLDER = ROOT / "docs" / "images" / "web"
BYTES_MAX = 60_000
# With fewer, or chosen by how often they occur, the rare colours of tags and medals turn grey.
COLOURS = 128
DESKTOP, PHONE = (1120, 900), (390, 900)
# By the end of the file name.
VIEWS: dict[str, tuple[tuple[int, int], Literal["light", "dark"]]] = {
    "": (DESKTOP, "light"),
    "-dark": (DESKTOP, "dark"),
    "-phone": (PHONE, "light"),
    "-phone-dark": (PHONE, "dark"),
}
# Of the others, the documentation has the first view only.
# The documentation shows none of itself.
UNPUBLISHED = ("guide", "guide-page", "api")
MAIN_PAGES, MAIN_VIEWS = ("home", "leaderboard", "submission"), ("", "-dark", "-phone")
SLUG, CONTEST = "vectoradd", "winter-cup"
SHORT_CONTEST, CONTEST_S = "spring-cup", 12.0
TERMS = """Be fair: one account for each person.

- No precomputed answers.
- Winners publish their source.
"""
OTHERS = ("identity", "matmul", "softmax")
KERNEL = """import torch


def custom_kernel(data):
    a, b, output = data
    for _ in range({repeats}):
        torch.add(a, b, out=output)
    return output
"""
RANKED = (("linus", 40), ("ada", 8), ("ada", 1), ("grace", 2))
SLOW = f"import time\n\ntime.sleep(60)\n{KERNEL.format(repeats=1)}"
PATIENCE_S = 300
DEADLINE = timedelta(days=27)
PAGES_OF_VISITORS = {
    "home": "/",
    "leaderboard": f"/leaderboards/{SLUG}/CPU",
    "cases": f"/leaderboards/{SLUG}/CPU/cases",
    "problem": f"/problems/{SLUG}",
    "profile": "/people/ada",
    "contests": "/contests",
    "contest": f"/contests/{CONTEST}",
    "agents": "/agents",
    "archive": "/archive",
    "commands": "/cli",
    "guide": "/guide",
    "guide-page": "/guide/docs/timing",
    "api": "/docs",
    "login": "/login",
    "error": "/problems/vectorad",
}
PAGES_OF_ADA = {
    "submission": "/submissions/{fast}",
    "comparison": "/submissions/{slow}/compare?with={fast}",
    "own-submissions": "/me/submissions",
    "notifications": "/account/notifications",
    "account": "/account",
}
PAGES_OF_ADMINS = {
    "admin": "/admin",
    "admin-held": "/admin/held",
    "admin-participant": "/admin/participants/linus",
    "admin-agents": "/admin/agents",
}


@dataclass
class Camera:
    """Takes screenshots for the documentation and, with a folder, of the whole pages."""

    whole_folder: Path | None = None
    sizes_bytes: dict[str, int] = field(default_factory=dict)

    async def take_all(self, page: "Page", paths: dict[str, str]) -> None:
        """Open pages by their paths and take screenshots of each."""
        for name, path in paths.items():
            await page.goto(path)
            await self.take(page, name)

    async def take(self, page: "Page", name: str) -> None:
        """Take screenshots of the open page."""
        for view, (size, scheme) in VIEWS.items():
            await page.set_viewport_size({"width": size[0], "height": size[1]})
            await page.emulate_media(color_scheme=scheme)
            is_published = name not in UNPUBLISHED
            if (is_published and not view) or (name in MAIN_PAGES and view in MAIN_VIEWS):
                height = min(size[1], await page.evaluate("document.body.scrollHeight"))
                clip: Any = {"x": 0, "y": 0, "width": size[0], "height": height}
                path = FOLDER / f"{name}{view}.png"
                save_small(await page.screenshot(clip=clip), path)
                self.sizes_bytes[path.name] = path.stat().st_size
            if self.whole_folder is not None:
                await page.screenshot(full_page=True, path=self.whole_folder / f"{name}{view}.png")


def save_small(png: bytes, path: Path) -> None:
    """Write a screenshot with a palette, in half of its size."""
    with Image.open(io.BytesIO(png)) as image:
        small = image.convert("RGB").quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)
        small.save(path, optimize=True)


def add_quick_problem(url: str, folder: Path) -> None:
    """Publish the addition of vectors that are short enough for a machine without a GPU."""
    shutil.copytree(ROOT / "problems" / SLUG, folder / SLUG)
    task = folder / SLUG / "task.yml"
    task.write_text(task.read_text().replace("1000003", "399989"))
    add_problem(url, folder / SLUG)


def hold_contest(url: str, problem: str = SLUG) -> None:
    """Publish a contest of a problem, with a team of ada and linus, grace and bea."""

    def day(count: float) -> str:
        return (now() + timedelta(days=count)).isoformat(timespec="seconds")

    end = DEADLINE.days
    scored = ["test", "benchmark", "ranked"]
    phases = [
        {"kind": "registration", "starts": day(-14)},
        {"kind": "main", "starts": day(-7), "modes": scored, "quotas": {"ranked": 20}},
        {"kind": "freeze", "starts": day(end - 1), "modes": scored, "ranks": "frozen"},
        {"kind": "review", "starts": day(end)},
        {"kind": "archive", "starts": day(end + 7), "modes": scored, "sources": "public"},
    ]
    definition = {
        "slug": CONTEST,
        "title": "Winter cup",
        "description": "The fastest addition of two vectors, alone or in teams of three.",
        "prizes": "An hour on an H100 for the first place of each division.",
        "terms": "terms.md",
        "organisers": ["author"],
        "teams": {"size_max": 3},
        "register_until": day(end - 2),
        "divisions": [
            {"slug": "hand", "title": "By hand"},
            {"slug": "assisted", "title": "Assisted by a model", "declare": ["model"]},
        ],
        "phases": phases,
        "problems": [{"slug": problem, "gpu": "CPU"}],
        "scoring": {"by": "places", "points": [25, 18, 15]},
    }
    with Person(url, "author") as author:
        files = {"terms.md": TERMS}
        body = {"contest_yml": json.dumps(definition), "files": files, "reason": "pictures"}
        answer = author.http.post("/v1/contests", json=body)
        assert answer.is_success, answer.text
        digest = author.http.get(f"/v1/contests/{CONTEST}").json()["terms_digest"]
    code = ""
    for name in ("ada", "linus", "grace", "bea"):
        with Person(url, name) as person:
            path, entry = f"/v1/contests/{CONTEST}", {"division": "hand", "terms_digest": digest}
            person.http.post(f"{path}/registration", json=entry).raise_for_status()
            if name == "ada":
                team = person.http.post(f"{path}/team", json={"name": "Two Warps"})
                code = team.raise_for_status().json()["code"]
            elif name == "linus":
                person.http.post(f"{path}/team/join", json={"code": code}).raise_for_status()


def end_contest(url: str, problem: str) -> None:
    """Hold a contest of a few seconds, whose provisional results wait for their review."""
    start_at = now().replace(microsecond=0)
    end_at = start_at + timedelta(seconds=CONTEST_S)
    phases = [
        {"kind": "registration", "starts": (start_at - timedelta(hours=1)).isoformat()},
        {"kind": "main", "starts": start_at.isoformat(), "modes": ["ranked"]},
        {"kind": "review", "starts": end_at.isoformat()},
    ]
    definition = {
        "slug": SHORT_CONTEST,
        "title": "Spring cup",
        "terms": "terms.md",
        "organisers": ["author"],
        "register_until": end_at.isoformat(),
        "phases": phases,
        "problems": [{"slug": problem, "gpu": "CPU"}],
        "scoring": {"by": "places", "points": [25, 18, 15]},
    }
    path = f"/v1/contests/{SHORT_CONTEST}"
    with Person(url, "author") as author, Person(url, "ada") as ada:
        files = {"terms.md": TERMS}
        body = {"contest_yml": json.dumps(definition), "files": files, "reason": "pictures"}
        author.http.post("/v1/contests", json=body).raise_for_status()
        digest = author.http.get(path).json()["terms_digest"]
        entry = {"division": "open", "terms_digest": digest}
        for name in ("ada", "linus"):
            with Person(url, name) as person:
                person.http.post(f"{path}/registration", json=entry).raise_for_status()
        ada.end(ada.submit(HONEST, "ranked", problem=problem), PATIENCE_S)
        doubt = {"contestant": "linus", "reason": "Which model helped you?"}
        author.http.post(f"{path}/contestants/question", json=doubt).raise_for_status()
        until(lambda: now() >= end_at, CONTEST_S)
        until(lambda: author.http.post(f"{path}/results", json={}).is_success)


def submit(url: str, name: str, source: str, mode: str) -> int:
    """Submit and wait for the result; return the number."""
    with Person(url, name) as person:
        number = person.submit(source, mode, "add.py", SLUG)
        person.end(number, PATIENCE_S)
        return number


def fill(platform: Running, folder: Path) -> dict[str, int]:
    """Publish a problem and fill its leaderboard; return two submissions of ada, one of linus."""
    add_quick_problem(platform.url, folder)
    hold_contest(platform.url)
    numbers = {
        (name, repeats): submit(platform.url, name, KERNEL.format(repeats=repeats), "ranked")
        for name, repeats in RANKED
    }
    wrong = KERNEL.format(repeats=1).replace("torch.add", "torch.sub")
    submit(platform.url, "ada", wrong, "test")
    with Person(platform.url, "ada") as ada:
        webhook = {"url": "https://example.org/hook", "events": ["entry.overtaken"]}
        ada.http.post("/v1/webhooks", json=webhook).raise_for_status()
    return {
        "slow": numbers["ada", 8],
        "fast": numbers["ada", 1],
        "linus": numbers["linus", 40],
    }


def wait_in_queue(platform: Running) -> None:
    """Let one submission run and three wait."""
    for name in ("grace", "linus", "bea", "ada"):
        with Person(platform.url, name) as person:
            person.submit(SLOW, "ranked", "add.py", SLUG)


def hold(platform: Running, number: int) -> None:
    """Hold a submission of linus, who appeals."""
    reason = "It may read its input from a file."
    platform.admin(f"submissions/{number}/hold", rule="no files", reason=reason)
    with Person(platform.url, "linus") as linus:
        text = {"text": "It reads no file: line 6 is all that it does."}
        linus.http.post(f"/v1/submissions/{number}/appeal", json=text).raise_for_status()


async def submit_in_editor(page: "Page") -> None:
    """Submit in the editor, and wait for the result beside the code."""
    await page.goto(f"/problems/{SLUG}/submit")
    source = KERNEL.format(repeats=1).encode()
    file: Any = {"name": "add.py", "mimeType": "text/x-python", "buffer": source}
    await page.get_by_label("Or choose a file").set_input_files(file)
    await page.get_by_role("textbox", name="Code", exact=True).wait_for()
    await page.get_by_role("button", name="Submit", exact=True).click()
    await page.locator("#results .tag.good", has_text="passed").first.wait_for()
    await page.evaluate("scrollTo(0, 0)")


async def create_problem(page: "Page", platform: Running) -> None:
    """Log in as a creator, and open the page of a check that found errors."""
    await page.goto("/register")
    await send_login_form(page, "cora")
    await asyncio.to_thread(platform.admin, "participants/cora/roles", role="creator")
    # A session has the scopes of the roles at the login.
    await page.get_by_role("button", name="Log out").click()
    await page.wait_for_url("**/login")
    await send_login_form(page, "cora")
    await page.goto("/create")
    await page.get_by_label("Name").fill("doubled")
    source = REFERENCE.replace(b"torch.allclose(user_output, reference_output)", b"True")
    file: Any = {"name": "reference.py", "mimeType": "text/x-python", "buffer": source}
    await page.get_by_label("Reference").set_input_files(file)
    await page.get_by_role("button", name="Check it").click()
    await page.locator("[data-is-over]").wait_for()


async def take_pictures(camera: Camera, platform: Running, folder: Path) -> None:
    """Fill a platform and take all screenshots."""
    async with (
        open_browser() as browser,
        open_context(browser, platform.url) as visitors,
        open_context(browser, platform.url) as adas,
        open_context(browser, platform.url) as admins,
        open_context(browser, platform.url) as creators,
    ):
        contexts = (visitors, adas, admins, creators)
        visitor, ada, admin, creator = [await context.new_page() for context in contexts]
        await ada.goto("/register")
        await send_login_form(ada, "ada")
        numbers = await asyncio.to_thread(fill, platform, folder)
        await submit_in_editor(ada)
        await camera.take(ada, "editor")
        for name in OTHERS:
            await asyncio.to_thread(add_problem, platform.url, ROOT / "problems" / name)
        await camera.take_all(visitor, PAGES_OF_VISITORS)
        paths = {name: path.format_map(numbers) for name, path in PAGES_OF_ADA.items()}
        await camera.take_all(ada, paths)
        await create_problem(creator, platform)
        await camera.take(creator, "create-check")
        await camera.take_all(creator, {"create": "/create"})
        await asyncio.to_thread(hold, platform, numbers["linus"])
        await log_in_admin(admin, platform)
        await camera.take_all(admin, PAGES_OF_ADMINS)
        await asyncio.to_thread(wait_in_queue, platform)
        await visitor.goto("/queue")
        await visitor.locator("#waiting-1").wait_for()
        await camera.take(visitor, "queue")


async def main() -> int:
    """Take all screenshots; return 1 if one is too large for the repository."""
    camera = Camera(Path(sys.argv[1]) if sys.argv[1:] else None)
    with tempfile.TemporaryDirectory() as folder:
        platform = Running(Path(folder) / "home", PATIENT)
        try:
            await asyncio.to_thread(platform.up)
            await take_pictures(camera, platform, Path(folder))
        finally:
            await asyncio.to_thread(platform.end)
    for name, size_bytes in sorted(camera.sizes_bytes.items()):
        sys.stdout.write(f"{name}: {size_bytes:,} bytes\n")
    return int(max(camera.sizes_bytes.values()) > BYTES_MAX)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
