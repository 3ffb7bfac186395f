"""The commands of participants about submissions: submit, show, cancel and compare."""

from dataclasses import replace
from typing import Any

import discord
from discord import app_commands

from discord_edge.bot.dialogs import OPTIONS_MAX, GpuMenu
from discord_edge.bot.interactions import (
    BotInteraction,
    Choices,
    Commands,
    interaction_user,
    name_choices,
    reply,
    user_api,
)
from discord_edge.bot.messages import build_embed, build_files, source_file
from discord_edge.bot.staff import read_attachment
from discord_edge.cards import fit_attachments
from discord_edge.submissions.models import (
    check_attachment,
    choose_gpus,
    choose_leaderboard,
    first_status,
)
from discord_edge.submissions.reply import parent_channel, submit_and_reply
from discord_edge.submissions.report import fetch_report
from discord_edge.submissions.report_buttons import fetch_own_submission, reply_with_comparison
from discord_edge.wording import CHOICES_MAX, match_gpu_list, match_names
from shared.api.problems import Problem
from shared.api.submissions import OwnSubmissions, SubmissionRequest
from shared.errors import Failed, Refused
from shared.presentation.report_parts import submission_progress

MODES = {
    "test": "Run the tests of a leaderboard on your file",
    "benchmark": "Time your file, without being ranked",
    "ranked": "Submit your file to a leaderboard",
}
OPTION_TEXTS = {
    "script": "Your file",
    "leaderboard_name": "The leaderboard, if your file does not name it",
    "gpu": "GPU types, separated by commas",
}
Case = app_commands.Range[int, 1, 1000]
OWN_MAX = 50
NOT_CHOSEN = "Nothing was chosen within two minutes, so nothing is submitted."
Numbers = list[app_commands.Choice[int]]


async def complete_open_leaderboards(interaction: BotInteraction, typed: str) -> Choices:
    """Complete the leaderboards that take submissions."""
    slugs = interaction.client.leaderboards.open_slugs
    return name_choices(match_names(typed, slugs))


async def complete_leaderboards(interaction: BotInteraction, typed: str) -> Choices:
    """Complete all public leaderboards, including ended ones."""
    slugs = sorted(interaction.client.leaderboards.known)
    return name_choices(match_names(typed, slugs))


async def complete_gpus(interaction: BotInteraction, typed: str) -> Choices:
    """Complete a comma-separated list of the chosen leaderboard's GPU types."""
    slug = getattr(interaction.namespace, "leaderboard_name", None)
    gpus = interaction.client.leaderboards.gpus(slug)
    return name_choices(match_gpu_list(typed, gpus))


def submit_commands() -> list[app_commands.Command[Any, ..., Any]]:
    """Return a command per mode, all with the same options but `profile`."""
    return [*(_submit_command(mode) for mode in MODES), profile]


def _submit_command(mode: str) -> app_commands.Command[Any, ..., Any]:
    @app_commands.command(name=mode, description=MODES[mode])
    @app_commands.describe(**OPTION_TEXTS)
    @app_commands.autocomplete(leaderboard_name=complete_open_leaderboards, gpu=complete_gpus)
    async def submit(
        interaction: BotInteraction,
        script: discord.Attachment,
        leaderboard_name: str | None = None,
        gpu: str | None = None,
    ) -> None:
        await _submit(interaction, mode, script, leaderboard_name=leaderboard_name, gpu=gpu)

    return submit


@app_commands.command(name="profile", description="Profile your file")
@app_commands.describe(**OPTION_TEXTS, case="The only timed case to profile, counted from 1")
@app_commands.autocomplete(leaderboard_name=complete_open_leaderboards, gpu=complete_gpus)
async def profile(
    interaction: BotInteraction,
    script: discord.Attachment,
    leaderboard_name: str | None = None,
    gpu: str | None = None,
    case: Case | None = None,
) -> None:
    """Profile a file, with one case or all."""
    options = {"leaderboard_name": leaderboard_name, "gpu": gpu}
    await _submit(interaction, "profile", script, **options, case=case or 0)


async def _submit(  # noqa: PLR0913 - each is an option on Discord
    interaction: BotInteraction,
    mode: str,
    script: discord.Attachment,
    *,
    leaderboard_name: str | None,
    gpu: str | None,
    case: int = 0,
) -> None:
    """Submit a file; the options are optional because the file may name them."""
    await interaction.response.defer(ephemeral=True, thinking=True)
    _check_channel(interaction)
    check_attachment(script.filename, script.size)
    source = await read_attachment(script, "script")
    slug = choose_leaderboard(leaderboard_name, source)
    slug = slug or await _ask_for_leaderboard(interaction)
    if not slug:
        return
    problem = await interaction.client.leaderboards.get(user_api(interaction), slug)
    gpus = choose_gpus(gpu, source, problem.slug, problem.gpus)
    gpus = gpus or await _ask_for_gpus(interaction, problem)
    if not gpus:
        return
    request = SubmissionRequest(script.filename, source, problem.slug, mode, gpus, case)
    await submit_and_reply(interaction, request)


def _check_channel(interaction: BotInteraction) -> None:
    """Raise `Refused` outside of the channels for submissions."""
    allowed = interaction.client.settings.channel_ids
    if allowed and parent_channel(interaction) not in allowed:
        channels = " or ".join(f"<#{identity}>" for identity in sorted(allowed))
        raise Refused("wrong_channel", f"submit in {channels}")


async def _ask_for_leaderboard(interaction: BotInteraction) -> str:
    """Ask for the leaderboard; "" if the user does not answer, who is then told so."""
    slugs = interaction.client.leaderboards.open_slugs
    if not slugs:
        raise Refused("unknown_leaderboard", "no leaderboard takes submissions at the moment")
    text = "For which leaderboard is this? Choose within two minutes."
    if len(slugs) > OPTIONS_MAX:
        text += f" These are the first {OPTIONS_MAX}; name others as `leaderboard_name`."
    return "".join(await GpuMenu(interaction, slugs, 1, "Leaderboards").ask(text, NOT_CHOSEN))


async def _ask_for_gpus(interaction: BotInteraction, problem: Problem) -> tuple[str, ...]:
    """Ask for the GPU types; empty if the user does not answer, who is then told so."""
    if not problem.gpus:
        reason = f"`{problem.slug}` takes no submissions at the moment"
        raise Refused("unknown_gpu", reason)
    text = f"Where should `{problem.slug}` run your file? Choose within two minutes."
    return await GpuMenu(interaction, problem.gpus).ask(text, NOT_CHOSEN)


async def complete_own_submissions(interaction: BotInteraction, typed: str) -> Numbers:
    """Complete the user's own submissions, newest first."""
    return await _complete_submissions(interaction, typed, {})


async def complete_open_submissions(interaction: BotInteraction, typed: str) -> Numbers:
    """Complete the user's own unfinished submissions."""
    return await _complete_submissions(interaction, typed, {"state": "open"})


async def _complete_submissions(
    interaction: BotInteraction, typed: str, query: dict[str, str]
) -> Numbers:
    user, path = interaction_user(interaction), ("me", "submissions")
    page = await interaction.client.cache.get(user, OwnSubmissions, *path, limit=OWN_MAX, **query)
    submissions = page.items if page else []
    return [
        app_commands.Choice(
            name=f"#{item.number} {item.problem} {item.mode} {item.gpu}"[:100], value=item.number
        )
        for item in submissions
        if typed.lstrip("#").lower() in f"{item.number} {item.problem}"
    ][:CHOICES_MAX]


@app_commands.command(name="get-submission", description="One of your submissions, in full")
@app_commands.autocomplete(submission_id=complete_own_submissions)
async def get_submission(interaction: BotInteraction, submission_id: int) -> None:
    """Show a submission's status, or its report with the source."""
    await interaction.response.defer(ephemeral=True, thinking=True)
    api = user_api(interaction)
    submission = await fetch_own_submission(interaction, submission_id)
    if not submission.is_over:
        progress = submission_progress(submission).sentence
        await reply(interaction, replace(first_status(submission), now=progress).text)
        return
    report = await fetch_report(api, submission)
    card = fit_attachments(report, interaction.filesize_limit)
    files = build_files(card)
    try:
        source = await api.get_file(f"/v1/submissions/{submission_id}?source=true")
    except (Refused, Failed):
        source = b""
    files += source_file(source, submission.name)
    await interaction.edit_original_response(embed=build_embed(card), attachments=files)


@app_commands.command(name="cancel", description="Cancel one of your submissions")
@app_commands.autocomplete(submission_id=complete_open_submissions)
async def cancel(interaction: BotInteraction, submission_id: int) -> None:
    """Cancel a submission."""
    await interaction.response.defer(ephemeral=True, thinking=True)
    await fetch_own_submission(interaction, submission_id)
    await user_api(interaction).request(object, "POST", "submissions", submission_id, "cancel")
    await reply(interaction, f"Submission **#{submission_id}** is being cancelled.")


@app_commands.command(name="compare", description="Compare two submissions")
@app_commands.autocomplete(a=complete_own_submissions, b=complete_own_submissions)
async def compare(interaction: BotInteraction, a: int, b: int) -> None:
    """Show the ratio of each case, with the diff of the sources as a file."""
    await interaction.response.defer(ephemeral=True, thinking=True)
    await reply_with_comparison(interaction, a, b)


COMMANDS: Commands = (get_submission, cancel, compare)
