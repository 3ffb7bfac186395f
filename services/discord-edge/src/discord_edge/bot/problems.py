"""`/leaderboard task`, `template`, `reference-code`: what a problem gives out."""

import io
import json
from pathlib import PurePosixPath
from typing import Any

import discord
from discord import app_commands

from discord_edge.bot.asking import Here, say, user_of
from discord_edge.bot.rooms import embed
from discord_edge.bot.submitting import Choices, all_boards
from discord_edge.domain import wishes
from discord_edge.domain.report import Card
from discord_edge.domain.rules import judged
from shared.errors import Refused

FILES_MAX = 10
BODY_MAX = 3000
NAME_LENGTH_MAX = 100
LANGUAGES = ("python", "cpp", "cuda")


async def languages(_: Here, typed: str) -> Choices:
    """The languages one may begin in."""
    found = wishes.matching(typed, LANGUAGES)
    return [app_commands.Choice(name=one, value=one) for one in found]


def source_of(answer: bytes, name: str) -> list[discord.File]:
    """The source in a submission's answer, as a file."""
    try:
        text = json.loads(answer or b"{}").get("source")
    except ValueError:
        return []
    return [file_of(name, text.encode())] if isinstance(text, str) else []


def file_of(name: str, data: bytes) -> discord.File:
    """A file under its last name alone: there are no folders on Discord."""
    return discord.File(io.BytesIO(data), PurePosixPath(name).name[:NAME_LENGTH_MAX] or "file.txt")


async def _problem(here: Here, slug: str) -> dict[str, Any]:
    return await here.client.api.get(user_of(here), "problems", slug.strip().lower())


async def _files(here: Here, found: dict[str, Any], names: list[str]) -> list[discord.File]:
    """Those of a problem's files that are given out."""
    urls = {one["name"]: one["url"] for one in found["files"]}
    user = user_of(here)
    return [
        file_of(name, await here.client.api.file(user, urls[name]))
        for name in names[:FILES_MAX]
        if name in urls
    ]


@app_commands.command(name="task", description="What a leaderboard asks for, and its files")
@app_commands.autocomplete(leaderboard_name=all_boards)
async def task(here: Here, leaderboard_name: str) -> None:
    """The description, and the public files."""
    await here.response.defer(ephemeral=True, thinking=True)
    found = await _problem(here, leaderboard_name)
    text = str(found.get("statement") or found.get("description") or "No description.")
    body = text.replace("@", "@\u200b")
    cut = body if len(body) <= BODY_MAX else body[: BODY_MAX - 1] + "…"
    attached = await _files(here, found, [one["name"] for one in found["files"]])
    card = Card(str(found.get("title") or found["slug"]), cut, footer=f"version {found['number']}")
    await here.edit_original_response(embed=embed(card), attachments=attached)


@app_commands.command(name="template", description="A file to begin with")
@app_commands.autocomplete(leaderboard_name=all_boards, lang=languages)
async def template(here: Here, leaderboard_name: str, lang: str | None = None) -> None:
    """What a submission begins as."""
    await here.response.defer(ephemeral=True, thinking=True)
    found = await _problem(here, leaderboard_name)
    starts = {one["language"]: one for one in found["starts"]}
    if not starts:
        raise Refused("unknown_template", f"`{found['slug']}` has no file to begin with")
    chosen = lang.strip().lower() if lang else next(iter(starts))
    if chosen not in starts:
        what = f"`{found['slug']}` can be begun in {', '.join(starts)}"
        raise Refused("unknown_template", what)
    text = await here.client.api.file(user_of(here), starts[chosen]["url"])
    end = PurePosixPath(starts[chosen]["name"]).suffix
    said = f"Begin `{found['slug']}` with this file."
    await here.edit_original_response(
        content=said, attachments=[file_of(f"{found['slug']}{end}", text)]
    )


@app_commands.command(name="reference-code", description="The reference of a leaderboard")
@app_commands.autocomplete(leaderboard_name=all_boards)
async def reference(here: Here, leaderboard_name: str) -> None:
    """The file that says what is right."""
    await here.response.defer(ephemeral=True, thinking=True)
    found = await _problem(here, leaderboard_name)
    names = [one["name"] for one in found["files"] if "reference" in one["name"].lower()]
    attached = await _files(here, found, names)
    if not attached:
        await say(here, f"`{found['slug']}` gives out no reference.")
        return
    said = f"The reference of `{found['slug']}`."
    await here.edit_original_response(content=said, attachments=attached)


@app_commands.command(name="eval-code", description="How a leaderboard judges, with its files")
@app_commands.autocomplete(leaderboard_name=all_boards)
async def eval_code(here: Here, leaderboard_name: str) -> None:
    """The rules in words, and what of the problem itself runs beside a submission."""
    await here.response.defer(ephemeral=True, thinking=True)
    found = await _problem(here, leaderboard_name)
    starts = set(found["templates"].values())
    names = [one["name"] for one in found["files"] if one["name"] not in starts]
    attached = await _files(here, found, [one for one in names if not one.endswith(".md")])
    card = judged(str(found["slug"]), found["rules"])
    await here.edit_original_response(embed=embed(card), attachments=attached)


COMMANDS: tuple[app_commands.Command[Any, ..., Any], ...] = (
    *(task, template, reference, eval_code),
)
