"""Users who use commands and buttons on Discord, and helpers for authors and operators."""

import io
import json
import zipfile
from typing import Any

import httpx

from discord_sim.cdn import FileUpload
from discord_sim.users import SimulatedUser as Member
from tests.discord.platform import END_S, EdgePlatform
from tests.support.examples import clean_report
from tests.support.people import QUICKER, change_text
from tests.support.platform import ROOT
from tests.support.waits import eventually

WHY = {"reason": "a test"}


class ChannelUser:
    """A user in a channel."""

    def __init__(self, edge_platform: EdgePlatform, person: Member, channel: str) -> None:
        self.edge_platform, self.person, self.channel = edge_platform, person, channel

    async def use_command(self, path: str, **given: Any) -> str:
        """Use a command, and return the text of its private answer."""
        doing = await self.person.slash(self.channel, path, **given)
        message = await doing.answered()
        assert doing.is_ephemeral, path
        return message_text(message)

    async def press(self, message: Any, label: str, expected: str) -> None:
        """Press a button, and wait for a text in the message."""
        await (await self.person.click(message, label)).acknowledged()
        await self.edge_platform.sim.record.until(
            lambda: expected in message_text(message),
            f"{expected!r} in {message_text(message)!r}",
            END_S,
        )


def message_text(message: Any) -> str:
    """Return all text of a message."""
    return (message["content"] or "") + "".join(
        f"{one.get('title')} {one.get('description')} {one.get('footer', {}).get('text')}"
        for one in message["embeds"]
    )


async def grant_role(edge_platform: EdgePlatform, name: str, role: str) -> None:
    """Grant a role on the platform."""
    async with httpx.AsyncClient(base_url=edge_platform.running.url) as http:
        answer = await http.post(
            f"/v1/admin/participants/{name}/roles",
            json={"role": role, **WHY},
            headers=edge_platform.running.operator,
        )
    assert answer.is_success, answer.text


def zip_problem(statement: str = "", slug: str = "copied") -> tuple[FileUpload, str]:
    """Return a problem as a zip of its folder, and the report of its check."""
    folder = ROOT / "problems" / "identity"
    files: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(folder).as_posix()
            files[name] = change_text(path.read_bytes(), QUICKER)
    files["statement.md"] += statement.encode()
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as zipped:
        for name, data in files.items():
            zipped.writestr(f"{slug}/{name}", data)
    report = clean_report(slug, files)
    found = {"tested_gpus": ["CPU"], "slug": slug, "path": "x", "is_good": True}
    said = {"problems": [{**json.loads(report), **found}]}
    return FileUpload(f"{slug}.zip", "application/zip", held.getvalue()), json.dumps(said)


async def start_publication(author: ChannelUser, asked: dict[str, Any]) -> Any:
    """Start a publication on one GPU type, and return the message with the preview."""
    doing = await author.person.slash(author.channel, "leaderboard create", **asked)
    message = await doing.answered()
    # Its files name eight types, and there is an agent for one.
    [[menu]] = [row["components"] for row in message["components"]]
    assert [option["value"] for option in menu["options"]] == ["CPU"]
    assert "also name H100" in message["content"]
    await (await author.person.select(message, ["CPU"])).acknowledged()
    await author.edge_platform.sim.record.until(
        lambda: "Publish this?" in message_text(message), "a preview", END_S
    )
    return message


async def preview_publication(author: ChannelUser, asked: dict[str, Any]) -> Any:
    """Start a publication on the GPU types that are asked for; return the message."""
    doing = await author.person.slash(author.channel, "leaderboard create", **asked)
    message = await doing.answered()
    record = author.edge_platform.sim.record
    await record.until(lambda: message["embeds"], "a preview", END_S)
    return message


async def wait_for_acts(edge_platform: EdgePlatform, *kinds: str) -> None:
    """Wait until acts of these kinds are in the audit, with their actor and reason."""
    headers = edge_platform.running.operator
    async with httpx.AsyncClient(base_url=edge_platform.running.url, headers=headers) as http:
        account = (await http.get("/v1/admin/participants/olga")).json()["participant_id"]

        async def is_kept() -> bool:
            found = await http.get("/v1/admin/audit", params={"limit": 100})
            by = [one for one in found.json()["items"] if one["actor"] == f"account:{account}"]
            return {one["type"] for one in by if one["reason"]}.issuperset(kinds)

        await eventually(is_kept, END_S)
