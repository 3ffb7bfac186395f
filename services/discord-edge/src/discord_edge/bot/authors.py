"""`/leaderboard create` and `delete`: what authors do, each step before their eyes."""

import asyncio
from dataclasses import replace
from typing import Any, Literal

import discord
from discord import app_commands

from discord_edge.bot.asking import Here, fail, say
from discord_edge.bot.drawing import embed
from discord_edge.bot.menus import GpuMenu
from discord_edge.bot.staff import Named, Question, Reason, any_board, begun, done, staff_of
from discord_edge.domain.publishing import Draft, card, described, ends_at, instant
from discord_edge.domain.uploads import check_upload, problem_files, report_of
from discord_edge.service.ports import User
from shared.clock import now
from shared.errors import Refused
from shared.problems import compile_problem
from shared.problems.report import REPORT_BYTES_MAX, CheckReport, require_clean

MAY = ("creator", "admin")
READ_S_MAX = 10.0
ASKED_S_MAX = 300.0
REASON_LENGTH_MAX = 400
DESCRIPTION_LENGTH_MAX = 2000
CHECK = "`warpboard problem check DIRECTORY --json`"

Seen = Literal["public", "closed"]


async def attached(file: discord.Attachment, field: str) -> bytes:
    """What was attached, at once: its address does not last. Errors: Refused."""
    try:
        async with asyncio.timeout(READ_S_MAX):
            return await file.read()
    except (discord.HTTPException, TimeoutError) as error:
        what = "Discord does not give the file out any more: attach it again"
        raise Refused("bad_file", what, field) from error


@app_commands.command(name="create", description="Publish a problem with its leaderboard")
@app_commands.describe(
    leaderboard_name="The name of the problem's directory",
    deadline="YYYY-MM-DD HH:MM in UTC, or none",
    reference_code="One reference as .py, or a .zip of the directory of task.yml",
    report="What `warpboard problem check DIRECTORY --json` says of it",
    unchecked="Why there is no report: admins alone may say it",
    visibility="Who sees it",
    description="What it asks for, where the files have no statement.md and no report",
)
async def create(  # noqa: PLR0913 - each is an option on Discord
    here: Here,
    *,
    leaderboard_name: Named,
    deadline: app_commands.Range[str, 1, 40],
    reference_code: discord.Attachment,
    report: discord.Attachment | None = None,
    unchecked: Reason | None = None,
    visibility: Seen = "public",
    description: app_commands.Range[str, 1, DESCRIPTION_LENGTH_MAX] | None = None,
) -> None:
    """Read the files, ask for GPU types, show all of it, and publish."""
    user = await begun(here, *MAY)
    slug, ends = leaderboard_name.strip().lower(), ends_at(deadline, now())
    if (report is None) == (unchecked is None):
        what = f"attach as `report` what {CHECK} says; an admin may say in `unchecked` why not"
        raise Refused("check_missing", what, "report")
    files = described(await _files(reference_code), description, is_checked=report is not None)
    version = await asyncio.to_thread(compile_problem, slug, files)
    found = None if report is None else await _report(report, slug, version.digest)
    draft = Draft(version, ends, version.gpus, visibility, found, unchecked or "")
    gpus = await _gpus(here, draft)
    if not gpus:
        return
    await _publish(here, user, replace(draft, gpus=gpus), files)


async def _files(file: discord.Attachment) -> dict[str, bytes]:
    check_upload(file.filename, file.size)
    data = await attached(file, "reference_code")
    return await asyncio.to_thread(problem_files, file.filename, data)


async def _report(file: discord.Attachment, slug: str, digest: str) -> CheckReport:
    """Errors: Refused for the report of other files, or one with errors."""
    if file.size > REPORT_BYTES_MAX:
        what = f"the report has {file.size:,} bytes: at most {REPORT_BYTES_MAX:,} are taken"
        raise Refused("bad_report", what, "report")
    found = report_of(await attached(file, "report"), slug)
    require_clean(found, digest)
    return found


async def _gpus(here: Here, draft: Draft) -> tuple[str, ...]:
    """The GPU types to open: those of the files, and others that are known here."""
    known = draft.version.gpus + tuple(here.client.boards.gpus(None))
    offered = tuple(dict.fromkeys(known))
    if len(offered) == 1:
        return offered
    menu = GpuMenu(here, offered)
    said = f"Which GPU types does `{draft.version.slug}` take? Choose within two minutes."
    await here.edit_original_response(content=said, view=menu)
    chosen = await menu.answered()
    if not chosen:
        await say(here, "Nothing was chosen within two minutes, so nothing is published.")
    return chosen


async def _publish(here: Here, user: User, draft: Draft, files: dict[str, bytes]) -> None:
    view = Question(here.user.id, "Publish", "Discard", ASKED_S_MAX)
    said = "Publish this?"
    await here.edit_original_response(content=said, embed=embed(card(draft)), view=view)
    if not await view.answered():
        await say(here, "Discarded: nothing was published.")
        return
    made = await here.client.api.publish(user, str(here.id), draft.fields, files)
    slug, number = draft.version.slug, made["number"]
    state = f"version {number} published" if made["is_new"] else f"version {number} was there"
    lines = [f"**{slug}**: {state}; it closes {instant(draft.ends_at)}."]
    lines += [f"⚠ {one}" for one in made["warnings"][:5]]
    await say(here, "\n".join(lines)[:1900].replace("@", "@\u200b"))


class Archive(discord.ui.Modal):
    """Asks for the name of what is archived, and why."""

    def __init__(self, slug: str, *may: str, is_forced: bool) -> None:
        super().__init__(title="Archive a leaderboard")
        self.slug, self.may, self.is_forced = slug, may, is_forced
        self.typed: discord.ui.TextInput[Any] = discord.ui.TextInput(
            label="Type its name", placeholder=slug[:100], max_length=95
        )
        self.why: discord.ui.TextInput[Any] = discord.ui.TextInput(
            label="Why", max_length=REASON_LENGTH_MAX
        )
        self.add_item(self.typed)
        self.add_item(self.why)

    async def on_submit(self, here: discord.Interaction[Any]) -> None:
        """Archive it, if its name was typed."""
        user = await begun(here, *self.may)
        if self.typed.value.strip().lower() != self.slug:
            what = f"`{self.slug}` is not what you typed, so nothing was archived"
            raise Refused("not_confirmed", what, "leaderboard_name")
        if not self.is_forced:
            await _check_unused(here, user, self.slug)
        path = ("admin", "leaderboards", self.slug, "archive")
        made = await done(here, user, "POST", *path, reason=self.why.value)
        again = "" if made.get("event") else " It was so already."
        said = f"`{self.slug}` takes nothing in any more; it stays to be read.{again}"
        await say(here, said)

    async def on_error(  # type: ignore[override]
        self, here: discord.Interaction[Any], error: Exception
    ) -> None:
        """Say what went wrong."""
        await fail(here, error)


async def _check_unused(here: Here, user: User, slug: str) -> None:
    """Errors: Refused `has_submissions`; Failed."""
    for gpu in (await here.client.api.get(user, "leaderboards", slug))["gpus"]:
        found = await here.client.api.get(user, "leaderboards", slug, gpu, limit=1)
        if found["items"]:
            what = f"`{slug}` has entries: say `force` to archive it all the same"
            raise Refused("has_submissions", what, "force")


async def archive(here: Here, slug: str, *may: str, is_forced: bool) -> None:
    """Ask before a leaderboard is archived. Errors: Refused for who may not."""
    staff_of(here, *may)
    await here.response.send_modal(Archive(slug.strip().lower(), *may, is_forced=is_forced))


@app_commands.command(name="delete", description="Archive a leaderboard; it stays to be read")
@app_commands.describe(force="Archive it even if there are entries on it")
@app_commands.autocomplete(leaderboard_name=any_board)
async def delete(here: Here, leaderboard_name: Named, force: bool = False) -> None:
    """Let a leaderboard of one's own take nothing in any more."""
    await archive(here, leaderboard_name, *MAY, is_forced=force)


COMMANDS: tuple[app_commands.Command[Any, ..., Any], ...] = (create, delete)
