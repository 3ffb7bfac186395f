"""The commands with which authors and admins publish and archive problems."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import discord
from discord import app_commands

from discord_edge.bot.discord_py import build_embed
from discord_edge.bot.interactions import (
    BotInteraction,
    Commands,
    CompletedName,
    Confirmation,
    Form,
    GpuMenu,
    Reason,
    Slug,
    VisibleLeaderboard,
    defer,
    read_attachment,
    reply,
    run_decision,
    user_api,
)
from discord_edge.platform_api import PlatformApi
from discord_edge.problems import drafts
from discord_edge.wording import (
    CONTENT_MAX,
    escaped,
    match_gpu_list,
    split_gpus,
    without_mentions,
)
from shared.api.agents import Agents
from shared.api.leaderboards import Leaderboard, LeaderboardSettings
from shared.api.problems import ProblemCheck, PublishedVersion
from shared.checks.problem_files import split_solutions
from shared.clock import now
from shared.errors import Refused
from shared.problems.compilation import ProblemVersion, compile_problem
from shared.problems.report import REPORT_BYTES_MAX, CheckReport, require_clean

MAY = ("creator", "admin")
ASKED_S_MAX = 300.0
REASON_LENGTH_MAX = 400
# Discord accepts changes of an answer for 15 minutes, and the author must still confirm.
FOLLOWED_S_MAX = 480.0
POLL_S = 1.0
DESCRIPTION_LENGTH_MAX = 2000


async def _match_gpus_with_agents(interaction: BotInteraction, typed: str) -> list[str]:
    agents = await interaction.client.cache.get(None, Agents, "agents")
    return match_gpu_list(typed, agents.gpus_with_agents() if agents else [])


NewGpus = app_commands.Transform[str, CompletedName(_match_gpus_with_agents)]


@app_commands.command()
@app_commands.describe(
    leaderboard_name="The name of the problem's directory",
    deadline="YYYY-MM-DD or YYYY-MM-DD HH:MM in UTC, or none",
    reference_code="One reference (.py, .cu, .cuh, .cpp), or a .zip of the directory with task.yml",
    gpu="GPU types separated by commas; by default you choose among those with agents",
    report="Your own check instead of an agent's: `warpboard problem check DIRECTORY --json`",
    unchecked="Why it is not checked; for admins only",
    allow_untested="Rank on GPU types although the check ran nothing on any of them",
    visibility="Who sees it",
    description="The statement, if the files have no statement.md and there is no report",
)
async def create(  # noqa: PLR0913 - each is an option on Discord
    interaction: BotInteraction,
    *,
    leaderboard_name: Slug,
    deadline: app_commands.Range[str, 1, 40],
    reference_code: discord.Attachment,
    gpu: NewGpus | None = None,
    report: discord.Attachment | None = None,
    unchecked: Reason | None = None,
    allow_untested: bool = False,
    visibility: Literal["public", "closed"] = "public",
    description: app_commands.Range[str, 1, DESCRIPTION_LENGTH_MAX] | None = None,
) -> None:
    """Publish a problem with its leaderboard"""
    api = await defer(interaction, *MAY)
    slug, ends_at = leaderboard_name.strip().lower(), drafts.parse_closing_time(deadline, now())
    if report is not None and unchecked is not None:
        raise Refused("invalid_request", "send `report` or `unchecked`, not both", "unchecked")
    is_checked_here = report is None and unchecked is None
    drafts.check_upload(reference_code.filename, reference_code.size)
    data = await read_attachment(reference_code, "reference_code")
    files = await asyncio.to_thread(
        partial(drafts.problem_files, reference_code.filename, data, has_solutions=is_checked_here)
    )
    files = drafts.add_description(files, description, is_checked=report is not None)
    served = (await api.get(Agents, "agents")).gpus_with_agents()
    # Of a file without GPU types; a report covers those that the author checked it for.
    default = split_gpus(gpu or "", served) or (() if report else tuple(served))
    own, _ = split_solutions(slug, files)
    version = await asyncio.to_thread(compile_problem, slug, own, default)
    check: CheckReport | ProblemCheck | None
    check = None if report is None else await _read_report(report, slug, version.digest)
    gpus = await _choose_gpus(interaction, version, gpu, served)
    if not gpus:
        return
    version = await asyncio.to_thread(compile_problem, slug, own, gpus)
    if is_checked_here:
        check = await _check_on_agent(interaction, api, slug, gpus, files)
        if check is None:
            return
    draft = drafts.ProblemDraft(
        *(version, ends_at, gpus, visibility, check, unchecked or ""),
        allows_untested=allow_untested,
    )
    confirmation = Confirmation(interaction, "Publish", "Discard", ASKED_S_MAX)
    if not await confirmation.ask("Publish this?", build_embed(drafts.draft_card(draft))):
        await reply(interaction, "Discarded: nothing was published.")
        return
    if isinstance(check, ProblemCheck):
        settings = {name: draft.fields[name] for name in ("deadline", "visibility")}
        path = ("checks", check.id, "publish")
        published = await api.request(
            PublishedVersion, "POST", *path, **settings, allow_untested=allow_untested
        )
    else:
        published = await api.publish(draft.fields, files)
    number = published.problem_version
    state = f"version {number} {'published' if published.is_new else 'already exists'}"
    lines = [f"**{slug}**: {state}; it closes {drafts.deadline_text(draft.ends_at)}."]
    lines += [f"⚠ {warning}" for warning in published.warnings[:5]]
    await reply(interaction, without_mentions("\n".join(lines)[:CONTENT_MAX]))


async def _check_on_agent(
    interaction: BotInteraction,
    api: PlatformApi,
    slug: str,
    gpus: Sequence[str],
    files: Mapping[str, bytes],
) -> ProblemCheck | None:
    """Let an agent check a problem, and show how far it is; None unless it can be published."""
    check = await api.request_check(slug, gpus, files)
    body, until = "", time.monotonic() + FOLLOWED_S_MAX
    while True:
        card = drafts.check_card(check)
        if card.body != body:
            body = card.body
            content = "" if check.is_over else f"checking `{slug}` …"
            await interaction.edit_original_response(
                content=content, embed=build_embed(card), view=None
            )
        if check.is_over:
            return check if check.state == "clean" else None
        if time.monotonic() > until:
            text = "The check goes on. Send the same command with the same file to see its result."
            await interaction.edit_original_response(content=text, embed=build_embed(card))
            return None
        await asyncio.sleep(POLL_S)
        check = await api.get(ProblemCheck, "checks", check.id)


async def _read_report(file: discord.Attachment, slug: str, digest: str) -> CheckReport:
    if file.size > REPORT_BYTES_MAX:
        reason = f"the report has {file.size:,} bytes; the limit is {REPORT_BYTES_MAX:,}"
        raise Refused("bad_report", reason, "report")
    report = drafts.parse_check_report(await read_attachment(file, "report"), slug)
    require_clean(report, digest)
    return report


async def _choose_gpus(
    interaction: BotInteraction, version: ProblemVersion, option: str | None, served: Sequence[str]
) -> tuple[str, ...]:
    """Return the named GPU types, or ask for some that have agents; empty without an answer."""
    if gpus := split_gpus(option or "", (*version.gpus, *served)):
        return gpus
    text = f"Which GPU types does `{version.slug}` take?"
    if not served:
        text += " No agent is online: these are the types that its files name."
    elif missing := [gpu for gpu in version.gpus if gpu not in served]:
        names = escaped(", ".join(missing))
        text += f" These have agents. Its files also name {names}: for those, use `gpu`."
    text += " Choose within two minutes."
    choice = await GpuMenu(interaction, served or version.gpus).ask(text)
    if not choice:
        await reply(interaction, "Nothing was chosen within two minutes, so nothing is published.")
    return choice


class ArchiveModal(Form):
    """Asks for the name of the leaderboard to archive, and for a reason."""

    def __init__(self, slug: str, *, is_forced: bool) -> None:
        super().__init__(title="Archive a leaderboard")
        self.slug, self.is_forced = slug, is_forced
        self.typed_name: discord.ui.TextInput[Any] = discord.ui.TextInput(
            label="Type its name", placeholder=slug[:100], max_length=95
        )
        self.reason: discord.ui.TextInput[Any] = discord.ui.TextInput(
            label="Why", max_length=REASON_LENGTH_MAX
        )
        self.add_item(self.typed_name).add_item(self.reason)

    async def on_submit(self, interaction: discord.Interaction[Any]) -> None:
        """Archive the leaderboard if its name was typed."""
        api, slug = await defer(interaction, *MAY), self.slug
        if self.typed_name.value.strip().lower() != slug:
            reason = f"you did not type `{slug}`, so nothing was archived"
            raise Refused("not_confirmed", reason, "leaderboard_name")
        if not self.is_forced:
            for gpu in (await api.get(LeaderboardSettings, "leaderboards", slug)).gpus:
                if (await api.get(Leaderboard, "leaderboards", slug, gpu, limit=1)).items:
                    reason = f"`{slug}` has entries: use `force` to archive it anyway"
                    raise Refused("has_submissions", reason, "force")
        path = ("admin", "leaderboards", slug, "archive")
        note = await run_decision(api, *path, reason=self.reason.value)
        await reply(interaction, f"`{slug}` no longer takes submissions; it stays readable.{note}")


@app_commands.command()
@app_commands.describe(force="Archive it even if it has entries")
async def delete(
    interaction: BotInteraction, leaderboard_name: VisibleLeaderboard, force: bool = False
) -> None:
    """Archive a leaderboard; it stays readable"""
    user_api(interaction, *MAY)
    await interaction.response.send_modal(ArchiveModal(leaderboard_name, is_forced=force))


COMMANDS: Commands = (create, delete)
