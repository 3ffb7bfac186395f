"""People who ask and press on Discord, and what authors and operators need there."""

import io
import json
import zipfile
from typing import Any

import httpx

from discord_sim.cdn import Blob
from discord_sim.people.person import Person as Member
from shared.testing import clean_report, eventually
from tests.discord.platform import END_S, Whole
from tests.support.people import LARGE, SMALL
from tests.support.platform import ROOT

WHY = {"reason": "a test"}


class Desk:
    """Somebody in a channel, and what they read there."""

    def __init__(self, whole: Whole, person: Member, channel: str) -> None:
        self.whole, self.person, self.channel = whole, person, channel

    async def ask(self, path: str, **given: Any) -> str:
        """What a command answers, to who used it alone."""
        doing = await self.person.slash(self.channel, path, **given)
        message = await doing.answered()
        assert doing.is_ephemeral, path
        return text_of(message)

    async def press(self, message: Any, label: str, expected: str) -> None:
        """Press a button, and wait for what it leads to."""
        await (await self.person.click(message, label)).acknowledged()
        await self.whole.sim.record.until(
            lambda: expected in text_of(message), f"{expected!r} in {text_of(message)!r}", END_S
        )


def text_of(message: Any) -> str:
    """All that a message says."""
    return (message["content"] or "") + "".join(
        f"{one.get('title')} {one.get('description')} {one.get('footer', {}).get('text')}"
        for one in message["embeds"]
    )


async def granted(whole: Whole, name: str, role: str) -> None:
    """The platform's own table says so, too."""
    async with httpx.AsyncClient(base_url=whole.running.url) as http:
        answer = await http.post(
            f"/v1/admin/participants/{name}/roles",
            json={"role": role, **WHY},
            headers=whole.running.operator,
        )
    assert answer.is_success, answer.text


def problem(statement: str = "", slug: str = "copied") -> tuple[Blob, str]:
    """A problem as a zip of its folder, and the report of its check."""
    folder = ROOT / "problems" / "identity"
    files: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(folder).as_posix()
            files[name] = path.read_bytes().replace(LARGE, SMALL)
    files["statement.md"] += statement.encode()
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as zipped:
        for name, data in files.items():
            zipped.writestr(f"{slug}/{name}", data)
    report = clean_report(slug, files)
    said = {"problems": [{**json.loads(report), "slug": slug, "path": "x", "is_good": True}]}
    return Blob(f"{slug}.zip", "application/zip", held.getvalue()), json.dumps(said)


async def begun(author: Desk, asked: dict[str, Any]) -> Any:
    """The preview of what would be published, on one GPU type."""
    doing = await author.person.slash(author.channel, "leaderboard create", **asked)
    message = await doing.answered()
    await (await author.person.select(message, ["CPU"])).acknowledged()
    await author.whole.sim.record.until(
        lambda: "Publish this?" in text_of(message), "a preview", END_S
    )
    return message


async def kept(whole: Whole, *kinds: str) -> None:
    """What was done is in the log, with who and why, as soon as what is read has come to it."""
    headers = whole.running.operator
    async with httpx.AsyncClient(base_url=whole.running.url, headers=headers) as http:
        account = (await http.get("/v1/admin/participants/olga")).json()["participant_id"]

        async def is_kept() -> bool:
            found = await http.get("/v1/admin/audit", params={"limit": 100})
            by = [one for one in found.json()["items"] if one["actor"] == f"account:{account}"]
            return {one["type"] for one in by if one["reason"]}.issuperset(kinds)

        await eventually(is_kept, END_S)
