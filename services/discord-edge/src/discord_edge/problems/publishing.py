"""The commands with which authors and admins publish and archive problems."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import discord
from discord import app_commands

from discord_edge.bot.discord_py import build_embed
from discord_edge.bot.interactions import (
    ADMIN,
    BotInteraction,
    Commands,
    CompletedName,
    Confirmation,
    Form,
    GpuMenu,
    Gpus,
    Reason,
    Slug,
    VisibleLeaderboard,
    defer,
    parent_channel,
    platform_roles,
    read_attachment,
    record_access,
    reply,
    reply_with_lines,
    run_decision,
    user_api,
)
from discord_edge.platform_api import PlatformApi
from discord_edge.postgres import RepositoryUpdate
from discord_edge.problems import drafts, repository_updates
from discord_edge.wording import (
    CONTENT_MAX,
    escaped,
    match_gpu_list,
    match_names,
    split_gpus,
    without_mentions,
)
from shared.api.agents import Agents
from shared.api.leaderboards import Leaderboard, LeaderboardSettings
from shared.api.problems import FullProblem
from shared.clock import now
from shared.errors import Refused
from shared.problem_folders import find_task_folders, read_problem_files
from shared.problems.compilation import ProblemVersion, compile_problem
from shared.problems.report import REPORT_BYTES_MAX, CheckReport, require_clean

MAY = ("creator", "admin")
ASKED_S_MAX = 300.0
REASON_LENGTH_MAX = 400
DESCRIPTION_LENGTH_MAX = 2000
CHECK = "`warpboard problem check DIRECTORY --json`"
SUFFIX = "-dev"
DAYS = 365
CHECK_COMMAND = "`warpboard problem check DIRECTORY`"
Line = app_commands.Range[str, 1, 100]


def gpus_with_agents(agents: Agents) -> list[str]:
    """Return the GPU types for which an enrolled agent is online."""
    online = [agent for agent in agents.items if agent.is_alive and agent.is_enrolled]
    return sorted({agent.gpu for agent in online if agent.revoked is None})


async def _match_gpus_with_agents(interaction: BotInteraction, typed: str) -> list[str]:
    agents = await interaction.client.cache.get(None, Agents, "agents")
    return match_gpu_list(typed, gpus_with_agents(agents) if agents else [])


NewGpus = app_commands.Transform[str, CompletedName(_match_gpus_with_agents)]


@app_commands.command()
@app_commands.describe(
    leaderboard_name="The name of the problem's directory",
    deadline="YYYY-MM-DD or YYYY-MM-DD HH:MM in UTC, or none",
    reference_code="A .zip of the directory with task.yml, or one reference: .py, .cu, .cuh, .cpp",
    gpu="GPU types separated by commas; by default you choose among those with agents",
    report="The output of `warpboard problem check DIRECTORY --json`",
    unchecked="Why there is no report; for admins only",
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
    if (report is None) == (unchecked is None):
        reason = f"attach the output of {CHECK} as `report`, or as an admin say in `unchecked` "
        raise Refused("check_missing", f"{reason}why there is none", "report")
    drafts.check_upload(reference_code.filename, reference_code.size)
    data = await read_attachment(reference_code, "reference_code")
    files = await asyncio.to_thread(drafts.problem_files, reference_code.filename, data)
    files = drafts.add_description(files, description, is_checked=report is not None)
    served = gpus_with_agents(await api.get(Agents, "agents"))
    # Of a file without GPU types; a report covers those that the author checked it for.
    default = split_gpus(gpu or "", served) or (() if report else tuple(served))
    version = await asyncio.to_thread(compile_problem, slug, files, default)
    check = None if report is None else await _read_report(report, slug, version.digest)
    gpus = await _choose_gpus(interaction, version, gpu, served)
    if not gpus:
        return
    version = await asyncio.to_thread(compile_problem, slug, files, gpus)
    draft = drafts.ProblemDraft(
        *(version, ends_at, gpus, visibility, check, unchecked or ""),
        allows_untested=allow_untested,
    )
    confirmation = Confirmation(interaction, "Publish", "Discard", ASKED_S_MAX)
    if not await confirmation.ask("Publish this?", build_embed(drafts.draft_card(draft))):
        await reply(interaction, "Discarded: nothing was published.")
        return
    published = await api.publish(draft.fields, files)
    number = published.problem_version
    state = f"version {number} {'published' if published.is_new else 'already exists'}"
    lines = [f"**{slug}**: {state}; it closes {drafts.deadline_text(draft.ends_at)}."]
    lines += [f"⚠ {warning}" for warning in published.warnings[:5]]
    await reply(interaction, without_mentions("\n".join(lines)[:CONTENT_MAX]))


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

    def __init__(self, slug: str, *roles: str, is_forced: bool) -> None:
        super().__init__(title="Archive a leaderboard")
        self.slug, self.roles, self.is_forced = slug, roles, is_forced
        self.typed_name: discord.ui.TextInput[Any] = discord.ui.TextInput(
            label="Type its name", placeholder=slug[:100], max_length=95
        )
        self.reason: discord.ui.TextInput[Any] = discord.ui.TextInput(
            label="Why", max_length=REASON_LENGTH_MAX
        )
        self.add_item(self.typed_name).add_item(self.reason)

    async def on_submit(self, interaction: discord.Interaction[Any]) -> None:
        """Archive the leaderboard if its name was typed."""
        api, slug = await defer(interaction, *self.roles), self.slug
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


async def confirm_archive(
    interaction: BotInteraction, slug: str, *roles: str, is_forced: bool
) -> None:
    """Ask before a leaderboard is archived. Raises `Refused` for users without a role."""
    user_api(interaction, *roles)
    await interaction.response.send_modal(ArchiveModal(slug, *roles, is_forced=is_forced))


@app_commands.command()
@app_commands.describe(force="Archive it even if it has entries")
async def delete(
    interaction: BotInteraction, leaderboard_name: VisibleLeaderboard, force: bool = False
) -> None:
    """Archive a leaderboard; it stays readable"""
    await confirm_archive(interaction, leaderboard_name, *MAY, is_forced=force)


async def _match_folders(interaction: BotInteraction, typed: str) -> list[str]:
    """Complete the folders with problems, for users who may publish them."""
    root = interaction.client.settings.problems_folder
    if root is None or ADMIN not in platform_roles(interaction):
        return []
    folders = await asyncio.to_thread(find_task_folders, root)
    return match_names(typed, [folder.relative_to(root).as_posix() for folder in folders])


Folder = app_commands.Transform[str, CompletedName(_match_folders)]


@app_commands.command(name="create-local")
@app_commands.describe(
    directory="The folder with its task.yml",
    gpu="GPU types separated by commas; by default those of its files",
    unchecked="Why there is no check report",
    closed="Show it to members only",
)
async def create_local(
    interaction: BotInteraction,
    directory: Folder,
    unchecked: Reason,
    gpu: Gpus | None = None,
    closed: bool = False,
) -> None:
    """Publish a folder of the bot's machine"""
    api = await defer(interaction, ADMIN)
    root = interaction.client.settings.problems_folder
    folder = await asyncio.to_thread(_find_folder, root, directory.strip())
    slug = f"{folder.name.lower()}{SUFFIX}"
    files = await asyncio.to_thread(read_problem_files, folder, root)
    version = await asyncio.to_thread(compile_problem, slug, files)
    gpus = split_gpus(gpu or "", version.gpus)
    ends_at = now() + timedelta(days=DAYS)
    visibility = "closed" if closed else "public"
    draft = drafts.ProblemDraft(version, ends_at, gpus or version.gpus, visibility, None, unchecked)
    published = await api.publish(draft.fields, files)
    state = "published" if published.is_new else "already exists"
    title = f"**{escaped(slug)}** version {published.problem_version}"
    await reply(interaction, f"{title} {state}; it closes {drafts.deadline_text(ends_at)}.")


def _find_folder(root: Path | None, directory: str) -> Path:
    if root is not None and "\0" not in directory:
        folder = (root / directory).resolve()
        if folder in [task_folder.resolve() for task_folder in find_task_folders(root)]:
            return folder
    reason = f"{directory[:60]!r} is not a folder with a task.yml below the folder of problems"
    raise Refused("bad_directory", reason, "directory")


@app_commands.command(name="update-problems")
@app_commands.describe(
    repository_name="owner/name, one that the platform's operator allows",
    problem_set="The contest file without its suffix; by default all",
    force="Remove GPU types that are no longer named; needs problem_set",
    closed="Show the leaderboards to members only",
    dry_run="Only show what would be done",
    unchecked="Why there is no check report; default: the reason in the platform's settings",
)
async def update_problems(  # noqa: PLR0913 - each is an option on Discord
    interaction: BotInteraction,
    *,
    repository_name: app_commands.Range[str, 1, 200],
    problem_set: Line | None = None,
    branch: Line = "main",
    force: bool = False,
    closed: bool = False,
    dry_run: bool = True,
    unchecked: Reason | None = None,
) -> None:
    """Publish the problems of a repository"""
    api = await defer(interaction, ADMIN)
    if force and problem_set is None:
        reason = "`force` may remove leaderboard entries: name the contest in `problem_set`"
        raise Refused("invalid_request", reason, "problem_set")
    body: dict[str, object] = {"repository": repository_name.strip(), "branch": branch.strip()}
    body |= {"problem_set": problem_set.strip() if problem_set else None, "force": force}
    body |= {"visibility": "closed"} if closed else {}
    body |= {"unchecked": unchecked} if unchecked else {}
    action = "looked at what it would publish" if dry_run else "published from it"
    await record_access(interaction, api, repository_name.strip(), action)
    plan = await repository_updates.request_update(api, body, is_dry=True)
    lines = repository_updates.plan_lines(plan)
    if dry_run or not (plan.created or plan.updated):
        await reply_with_lines(interaction, [*lines, "Nothing was published."])
        return
    names = (*plan.created, *plan.updated)
    before = {name: await repository_updates.read_version(api, name) for name in names}
    question = "\n".join([*lines, "Publish this?"])
    if len(question) > CONTENT_MAX:
        question = f"{len(lines)} problems, as `dry_run` lists them. Publish them?"
    if not await Confirmation(interaction, "Apply", "Discard", ASKED_S_MAX).ask(question):
        await reply(interaction, "Discarded: nothing was published.")
        return
    await _start_update(interaction, api, body, before)


async def _start_update(
    interaction: BotInteraction, api: PlatformApi, body: dict[str, object], before: dict[str, int]
) -> None:
    assert api.user is not None, "an operator is a user"

    async def show(lines: list[str], is_over: bool) -> bool:
        """Show the progress or the result, and return whether the user can still see it."""
        if interaction.is_expired():
            return False
        if is_over:
            return await reply_with_lines(interaction, lines)
        return await reply(interaction, "\n".join(lines))

    channel = str(parent_channel(interaction))
    update = RepositoryUpdate(api.key, api.user, channel, body, before)
    await interaction.client.publisher.publish(update, show)


@app_commands.command(name="verify-task")
@app_commands.describe(mode="Which solutions; by default all")
async def verify_task(
    interaction: BotInteraction,
    leaderboard_name: VisibleLeaderboard,
    mode: Literal["all", "correct", "wrong", "baseline"] = "all",
) -> None:
    """The results of a problem's own solutions"""
    api = await defer(interaction, ADMIN)
    await record_access(interaction, api, leaderboard_name)
    problem = await api.get(FullProblem, "problems", leaderboard_name)
    check = problem.check
    head = f"**{escaped(leaderboard_name)}** version {problem.problem_version}"
    if check.state != "clean":
        await reply(interaction, f"{head} was not checked: {escaped(check.reason)}.")
        return
    device, harness = escaped(check.device or ""), escaped(check.harness or "")
    lines = [
        f"{head}, checked on {device} with harness {harness}",
        *repository_updates.solution_lines(check.solutions_found, mode),
        *(f"⚠ {escaped(warning)}" for warning in check.warnings),
        f"Only their author has the solutions: {CHECK_COMMAND} runs them again there.",
    ]
    await reply_with_lines(interaction, lines)


# For authors; for admins; and for admins of a bot with a folder of problems in development.
AUTHOR_COMMANDS: Commands = (create, delete)
ADMIN_COMMANDS: Commands = (update_problems, verify_task)
LOCAL_COMMANDS: Commands = (create_local,)
