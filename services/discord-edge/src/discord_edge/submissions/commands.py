"""The commands of participants about submissions: submit, show, cancel and compare."""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import discord
from discord import app_commands

from discord_edge.bot.discord_py import discord_file
from discord_edge.bot.interactions import (
    OPTIONS_MAX,
    BotInteraction,
    Commands,
    GpuMenu,
    Gpus,
    OpenLeaderboard,
    Runner,
    defer,
    interaction_user,
    parent_channel,
    read_attachment,
    reply,
    reply_with_card,
)
from discord_edge.submissions.models import (
    check_attachment,
    check_more_attachments,
    choose_gpus,
    choose_leaderboard,
    first_status,
)
from discord_edge.submissions.reply import (
    SubmissionInteraction,
    fetch_own_submission,
    reply_with_comparison,
    submit_and_reply,
)
from discord_edge.submissions.report import fetch_report
from discord_edge.wording import CHOICES_MAX
from harness.vocabulary import MODES, SUBMISSION_MODES
from shared.api.submissions import FullSubmission, OwnSubmissions, SubmissionRequest
from shared.errors import Failed, Refused
from shared.presentation.report_parts import submission_progress
from shared.source_files import SOURCE_FILES_MAX, SourceFile, zip_files

# The names of launchers that are commands of their own, as in older bots.
RUNNERS = {"modal": "Modal", "github": "GitHub Actions"}
OPTION_TEXTS = {
    "script": "Your file",
    "leaderboard_name": "The leaderboard, if your file does not name it",
    "gpu": "GPU types, separated by commas",
}
# The options of the files beside `script`.
MORE_FILES = tuple(f"file_{number}" for number in range(2, SOURCE_FILES_MAX + 1))
Attachments = Sequence[discord.Attachment]
SubmitCallback = Callable[..., Coroutine[Any, Any, None]]
RUNNER_TEXT = "The launcher that starts an agent for it"
OWN_MAX = 50
NOT_CHOSEN = "Nothing was chosen within two minutes, so nothing is submitted."
Numbers = list[app_commands.Choice[int]]


def submit_commands() -> list[app_commands.Command[Any, ..., Any]]:
    """Return a command per mode, all with the same options but `profile`, and the older forms."""
    by_mode = (_submit_command(mode) for mode in SUBMISSION_MODES if mode != "profile")
    return [*by_mode, profile, *(_runner_command(runner) for runner in RUNNERS)]


def _with_more_files(command: SubmitCallback) -> Any:
    """Give a command the options of the files beside `script`, which it gets as `more`."""
    signature = inspect.signature(command)
    own = [option for name, option in signature.parameters.items() if name != "more"]
    added = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=discord.Attachment | None
        )
        for name in MORE_FILES
    ]

    async def submit(interaction: SubmissionInteraction, **options: Any) -> None:
        more = [file for name in MORE_FILES if (file := options.pop(name, None)) is not None]
        await command(interaction, more=more, **options)

    submit.__name__, submit.__doc__ = command.__name__, command.__doc__
    # Discord's library reads the options of a command from its signature.
    submit.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    texts = dict.fromkeys(MORE_FILES, "Another file beside it, where the problem allows it")
    return app_commands.describe(**texts)(submit)


def _submit_command(mode: str) -> app_commands.Command[Any, ..., Any]:
    @app_commands.command(name=mode, description=MODES[mode].summary)
    @app_commands.describe(**OPTION_TEXTS, runner=RUNNER_TEXT)
    @_with_more_files
    async def submit(  # noqa: PLR0913, PLR0917 - each is an option on Discord
        interaction: SubmissionInteraction,
        script: discord.Attachment,
        leaderboard_name: OpenLeaderboard | None = None,
        gpu: Gpus | None = None,
        runner: Runner | None = None,
        more: Attachments = (),
    ) -> None:
        files = [script, *more]
        await _submit(interaction, mode, files, leaderboard_name, gpu, runner=runner)

    return submit


def _runner_command(runner: str) -> app_commands.Command[Any, ..., Any]:
    @app_commands.command(name=runner, description=f"Submit ranked, run by {RUNNERS[runner]}")
    @app_commands.describe(**OPTION_TEXTS)
    async def submit(
        interaction: SubmissionInteraction,
        script: discord.Attachment,
        leaderboard_name: OpenLeaderboard | None = None,
        gpu: Gpus | None = None,
    ) -> None:
        await _submit(interaction, "ranked", [script], leaderboard_name, gpu, runner=runner)

    return submit


@app_commands.command()
@app_commands.describe(
    **OPTION_TEXTS, case="The only timed case to profile, counted from 1", runner=RUNNER_TEXT
)
@_with_more_files
async def profile(  # noqa: PLR0913, PLR0917 - each is an option on Discord
    interaction: SubmissionInteraction,
    script: discord.Attachment,
    leaderboard_name: OpenLeaderboard | None = None,
    gpu: Gpus | None = None,
    case: app_commands.Range[int, 1, 1000] | None = None,
    runner: Runner | None = None,
    more: Attachments = (),
) -> None:
    """Profile your file"""
    files = [script, *more]
    await _submit(interaction, "profile", files, leaderboard_name, gpu, case or 0, runner)


async def _submit(  # noqa: PLR0913, PLR0917 - each is an option on Discord
    interaction: SubmissionInteraction,
    mode: str,
    files: Attachments,
    leaderboard_name: str | None,
    gpu: str | None,
    case: int = 0,
    runner: str | None = None,
) -> None:
    api = await defer(interaction)
    leaderboards = interaction.client.leaderboards
    allowed = interaction.client.settings.channel_ids
    if allowed and parent_channel(interaction) not in allowed:
        channels = " or ".join(f"<#{identity}>" for identity in sorted(allowed))
        raise Refused("wrong_channel", f"submit in {channels}")
    script, *more = files
    check_attachment(script.filename, script.size)
    check_more_attachments([file.size for file in files])
    source = await read_attachment(script, "script")
    others = [SourceFile(it.filename, await read_attachment(it, "file_2")) for it in more]
    slug = choose_leaderboard(leaderboard_name, source)
    slug = slug or await _ask_for_leaderboard(interaction, leaderboards.open_slugs)
    if not slug:
        return
    problem = await leaderboards.get(api, slug)
    gpus = choose_gpus(gpu, source, problem.slug, problem.gpus)
    if not gpus:
        if not problem.gpus:
            reason = f"`{problem.slug}` takes no submissions at the moment"
            raise Refused("unknown_gpu", reason)
        text = f"Where should `{problem.slug}` run your file? Choose within two minutes."
        gpus = await GpuMenu(interaction, problem.gpus).ask(text, NOT_CHOSEN)
    if gpus:
        request = SubmissionRequest(
            *(script.filename, source, problem.slug, mode, gpus, case),
            runner=(runner or "").strip(),
            others=tuple(others),
        )
        await submit_and_reply(interaction, request)


async def _ask_for_leaderboard(interaction: BotInteraction, slugs: list[str]) -> str:
    """Ask for the leaderboard; "" if the user does not answer, who is then told so."""
    if not slugs:
        raise Refused("unknown_leaderboard", "no leaderboard takes submissions at the moment")
    text = "For which leaderboard is this? Choose within two minutes."
    if len(slugs) > OPTIONS_MAX:
        text += f" These are the first {OPTIONS_MAX}; name others as `leaderboard_name`."
    return "".join(await GpuMenu(interaction, slugs, 1, "Leaderboards").ask(text, NOT_CHOSEN))


async def complete_own_submissions(interaction: BotInteraction, typed: str) -> Numbers:
    """Complete the user's own submissions, newest first."""
    return await _complete_submissions(interaction, typed)


async def complete_open_submissions(interaction: BotInteraction, typed: str) -> Numbers:
    """Complete the user's own unfinished submissions."""
    return await _complete_submissions(interaction, typed, state="open")


async def _complete_submissions(interaction: BotInteraction, typed: str, **query: str) -> Numbers:
    user, path = interaction_user(interaction), ("me", "submissions")
    page = await interaction.client.cache.get(user, OwnSubmissions, *path, limit=OWN_MAX, **query)
    return [
        app_commands.Choice(
            name=f"#{item.number} {item.problem} {item.mode} {item.gpu}"[:100], value=item.number
        )
        for item in (page.items if page else [])
        if typed.lstrip("#").lower() in f"{item.number} {item.problem}"
    ][:CHOICES_MAX]


@app_commands.command(name="get-submission")
@app_commands.autocomplete(submission_id=complete_own_submissions)
async def get_submission(interaction: BotInteraction, submission_id: int) -> None:
    """One of your submissions, in full"""
    api = await defer(interaction)
    submission = await fetch_own_submission(interaction, submission_id)
    if not submission.is_over:
        progress = submission_progress(submission).sentence
        await reply(interaction, replace(first_status(submission), now=progress).text)
        return
    report = await fetch_report(api, submission)
    try:
        path = ("submissions", submission_id)
        texts = (await api.get(FullSubmission, *path, source="true")).source_files
    except (Refused, Failed):
        texts = []
    files = [SourceFile(file.name, file.text.encode()) for file in texts]
    attachments = [discord_file(file.name, file.data) for file in files]
    if len(files) > 1:
        attachments = [discord_file(f"submission-{submission_id}.zip", zip_files(files))]
    await reply_with_card(interaction, report, files=attachments)


@app_commands.command()
@app_commands.autocomplete(submission_id=complete_open_submissions)
async def cancel(interaction: BotInteraction, submission_id: int) -> None:
    """Cancel one of your submissions"""
    api = await defer(interaction)
    await fetch_own_submission(interaction, submission_id)
    await api.request(object, "POST", "submissions", submission_id, "cancel")
    await reply(interaction, f"Submission **#{submission_id}** is being cancelled.")


@app_commands.command()
@app_commands.autocomplete(a=complete_own_submissions, b=complete_own_submissions)
async def compare(interaction: BotInteraction, a: int, b: int) -> None:
    """Compare two submissions"""
    await defer(interaction)
    await reply_with_comparison(interaction, a, b)


COMMANDS: Commands = (get_submission, cancel, compare)
