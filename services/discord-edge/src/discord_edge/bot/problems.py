"""`/leaderboard task`, `template`, `reference-code`: what a problem gives out."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Literal

import discord
from discord import app_commands

from discord_edge.bot.asking import Here, say, user_of
from discord_edge.bot.drawing import embed, files
from discord_edge.bot.submitting import Choices, all_boards
from discord_edge.domain import wishes
from discord_edge.domain.report import FILES_MAX, Attached, Card, fitted
from discord_edge.domain.rules import PYTHON, Code, codes, judged, spoken
from discord_edge.domain.statement import drawn
from shared.errors import Refused
from shared.problems.languages import SUFFIXES
from shared.telling.units import harmless

BODY_MAX = 3000
NAME_LENGTH_MAX = 100


async def languages(here: Here, typed: str) -> Choices:
    """The languages that one may begin in: those of the leaderboard, as far as one is named."""
    slug = str(getattr(here.namespace, "leaderboard_name", None) or "").strip().lower()
    board = here.client.boards.known.get(slug)
    known = board.languages or (PYTHON,) if board else tuple(SUFFIXES)
    found = wishes.matching(typed, known)
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


async def _with(here: Here, card: Card, found: dict[str, Any], names: list[str]) -> Card:
    """A card with those of a problem's files that are given out, as far as Discord takes them."""
    urls = {one["name"]: one["url"] for one in found["files"]}
    api, user = here.client.api, user_of(here)
    given = []
    for place, (name, url) in enumerate((name, urls[name]) for name in names if name in urls):
        # There are no folders on Discord.
        last = PurePosixPath(name).name[:NAME_LENGTH_MAX]
        data = await api.file(user, url) if place < FILES_MAX else None
        given.append(Attached(last, data, link=f"{api.public_url}{url}" if api.public_url else ""))
    return fitted(replace(card, files=(*card.files, *given)), here.filesize_limit)


async def _harness(here: Here, known: Sequence[Code]) -> tuple[Attached, ...]:
    """The zip of the harness code that the newest agent has, or where it lies."""
    if not known:
        return ()
    api, one = here.client.api, known[0]
    try:
        data = await api.file(user_of(here), one.url)
    except Refused:
        # It is not kept any more, which is no reason to tell nothing.
        return ()
    link = f"{api.public_url}{one.url}" if api.public_url else ""
    return (Attached(one.name, data, len(data), link),)


@app_commands.command(name="task", description="What a leaderboard asks for, and its files")
@app_commands.autocomplete(leaderboard_name=all_boards)
async def task(here: Here, leaderboard_name: str) -> None:
    """The description, and the public files."""
    await here.response.defer(ephemeral=True, thinking=True)
    found = await _problem(here, leaderboard_name)
    text = str(found.get("statement") or found.get("description") or "No description.")
    body = drawn(harmless(text).replace("@", "@\u200b"), BODY_MAX)
    card = Card(str(found.get("title") or found["slug"]), body, footer=f"version {found['number']}")
    card = await _with(here, card, found, [one["name"] for one in found["files"]])
    await here.edit_original_response(embed=embed(card), attachments=files(card))


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
    if not names:
        await say(here, f"`{found['slug']}` gives out no reference.")
        return
    card = await _with(here, Card("", f"The reference of `{found['slug']}`."), found, names)
    await here.edit_original_response(content=card.body, attachments=files(card))


@app_commands.command(
    name="eval-code", description="How a leaderboard judges, with its harness and files"
)
@app_commands.autocomplete(leaderboard_name=all_boards)
async def eval_code(
    here: Here, leaderboard_name: str, language: Literal["python", "cuda"] | None = None
) -> None:
    """The rules in words, the harness that judges, and what of the problem itself runs."""
    await here.response.defer(ephemeral=True, thinking=True)
    found = await _problem(here, leaderboard_name)
    chosen = spoken(found, language)
    known = codes(await here.client.api.get(user_of(here), "harnesses"), found["gpus"])
    starts = set(found["templates"].values())
    names = [one["name"] for one in found["files"] if one["name"] not in starts]
    shown = [one for one in names if not one.endswith(".md")]
    card = replace(judged(found, chosen, known), files=await _harness(here, known))
    card = await _with(here, card, found, shown)
    await here.edit_original_response(embed=embed(card), attachments=files(card))


COMMANDS: tuple[app_commands.Command[Any, ..., Any], ...] = (
    *(task, template, reference, eval_code),
)
