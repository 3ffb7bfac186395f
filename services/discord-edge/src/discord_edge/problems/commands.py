"""The commands of `/leaderboard` that show a problem: its task, files, reference and rules."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Literal

from discord import app_commands

from discord_edge.bot.discord_py import NAME_LENGTH_MAX, build_files, discord_file
from discord_edge.bot.interactions import (
    BotInteraction,
    Commands,
    CompletedName,
    Leaderboard,
    defer,
    reply,
    reply_with_card,
)
from discord_edge.platform_api import PlatformApi
from discord_edge.wording import (
    FILES_MAX,
    Attachment,
    Card,
    escaped,
    fit_attachments,
    match_names,
    render_statement,
    without_mentions,
)
from harness.vocabulary import COMPILERS
from shared.api.agents import Harness, Harnesses
from shared.api.problems import FullProblem, Problem, ProblemFile
from shared.errors import Refused
from shared.presentation.units import escape_control_characters, untested_text
from shared.problems.evaluation import FILES as EVALUATION_FILES
from shared.problems.submission_file import SUFFIXES

LINE_MAX = 400
PYTHON = "python"
NATIVE = "int custom_kernel(inputs, inputs_count, outputs, outputs_count, scalars_json, stream)"
CALLS: Mapping[str, str] = {
    PYTHON: "custom_kernel(data) in a .py file, by the harness",
    **{
        language: f"{NATIVE} in a {SUFFIXES[language]} file that includes warpboard.h, "
        f"by the harness; {compiler} compiles it"
        for language, compiler in COMPILERS.items()
        if language in SUFFIXES
    },
}
NVRTC = "NVRTC compiles the kernel alone if the file begins with //!WARPBOARD compiler: nvrtc"
HARNESS = (
    "The platform's own harness runs it, on data generated from secret seeds. The attached "
    "`{name}` shows the procedure: put it beside the files of `/leaderboard task` and your "
    "submission, and run it on your own machine. Each run names the exact harness by the SHA-256 "
    "of its code."
)
HARNESS_ALONE = (
    "The platform's own harness runs it, on data generated from secret seeds. Each run names the "
    "exact harness by the SHA-256 of its code. `warpboard run` does the same on your machine."
)
# What every participant reads first.
TASK_FILES = ("reference.py", "task.py", "eval.py", "reference.cuh", "task.h", "eval.cu")
CODES_MAX = 3

Link = Callable[[str], str]
BODY_MAX = 3000


def select_harnesses(harnesses: Harnesses, gpus: Sequence[str]) -> list[Harness]:
    """Return the harness codes that agents of some GPU types use, the newest registration first."""
    names = set(gpus)
    codes = [it for it in harnesses.items if names & {user.gpu for user in it.agents}]
    return codes[:CODES_MAX]


def choose_language(problem: Problem, language: str | None) -> str:
    """Return the requested language, or the default. Raises `Refused` `unknown_language`."""
    languages = problem.languages or [PYTHON]
    choice = language or (PYTHON if PYTHON in languages else languages[0])
    if choice not in languages:
        reason = f"`{problem.slug}` takes {', '.join(languages)}, not {choice}"
        raise Refused("unknown_language", reason, "language")
    return choice


def calling_convention(problem: FullProblem, language: str) -> str:
    """Say what a submission must define, and who calls it."""
    if problem.main:
        return f"by the problem's own {problem.main}, in the submission's process (tier G0)"
    if problem.form == "native":
        return "output_t custom_kernel(input_t data), compiled with the problem's own headers"
    if problem.form == "kernelbench":
        return "class ModelNew in a .py file, by the harness"
    return harness_convention(language)


def harness_convention(language: str) -> str:
    """Say what a submission must define if the harness itself calls it.

    >>> harness_convention("python")
    'custom_kernel(data) in a .py file, by the harness'
    """
    call = CALLS.get(language, CALLS[PYTHON])
    return f"{call}, or {NVRTC}" if language == "cuda" else call


def harness_card(language: str, codes: Sequence[Harness], link: Link) -> Card:
    """Show how any submission in a language is called, and by which harness codes."""
    gpus = sorted({user.gpu for code in codes for user in code.agents})
    call = f"**called, {language}** {escaped(harness_convention(language), LINE_MAX)}"
    more = "With a `leaderboard_name`: its cases, tolerances, score and files."
    intro = HARNESS.format(name=EVALUATION_FILES[language][0])
    body = "\n".join([intro, *_harness_lines(gpus, codes, link), call, more])
    return Card("How submissions are evaluated", body)


def rules_card(problem: FullProblem, language: str, codes: Sequence[Harness], link: Link) -> Card:
    """Show how submissions in a language are called, checked, timed and ranked."""
    rules = problem.rules
    counts = f"{len(rules.cases.tests)} tests, {len(rules.cases.benchmarks)} benchmarks"
    budgets = ", ".join(f"{name} {seconds} s" for name, seconds in rules.budgets_s.items())
    texts = {
        f"called, {language}": calling_convention(problem, language),
        "cases": counts,
        "checked": rules.tolerances,
        "score": rules.formula,
        "ties": rules.ties,
        "time": budgets,
        "sources": rules.source_policy,
        "tested": untested_text(problem.untested_gpus) if problem.untested_gpus else "",
    }
    lines = [f"**{name}** {escaped(text, LINE_MAX)}" for name, text in texts.items() if text]
    programs = problem.evaluation
    intro = HARNESS.format(name=programs[0].name) if programs else HARNESS_ALONE
    body = "\n".join([intro, *_harness_lines(problem.gpus, codes, link), *lines])
    return Card(f"How {problem.slug} is evaluated", body)


def _harness_lines(
    problem_gpus: Sequence[str], codes: Sequence[Harness], link: Link
) -> Iterator[str]:
    if not codes:
        yield "**harness** none yet: no agent that could run it has registered its code"
    for code in codes:
        agent_gpus = {user.gpu for user in code.agents}
        gpus = escaped(", ".join(gpu for gpu in problem_gpus if gpu in agent_gpus), 80)
        line = f"**harness on {gpus}** version {escaped(code.version, 20)}, `{code.digest}`"
        address = link(code.url)
        place = f"[download]({address})" if address else f"`{code.url}` of the platform's API"
        yield f"{line} ({place})"


async def _match_languages(interaction: BotInteraction, typed: str) -> list[str]:
    """Complete the languages of the chosen leaderboard, or all languages."""
    slug = str(getattr(interaction.namespace, "leaderboard_name", None) or "").strip().lower()
    leaderboard = interaction.client.leaderboards.known.get(slug)
    languages = leaderboard.languages or [PYTHON] if leaderboard else list(SUFFIXES)
    return match_names(typed, languages)


Language = app_commands.Transform[str, CompletedName(_match_languages, is_slug=True)]


async def _add_files(api: PlatformApi, card: Card, files: Sequence[ProblemFile]) -> Card:
    """Return a card with public files, of which Discord accepts the first."""
    attachments = []
    for place, file in enumerate(files):
        # Discord has no folders.
        base_name = PurePosixPath(file.name).name[:NAME_LENGTH_MAX]
        data = await api.get_file(file.url) if place < FILES_MAX else None
        attachments.append(Attachment(base_name, data, link=api.link(file.url)))
    return replace(card, files=(*card.files, *attachments))


@app_commands.command()
async def task(interaction: BotInteraction, leaderboard_name: Leaderboard) -> None:
    """The task of a leaderboard, with its files"""
    api = await defer(interaction)
    problem = await api.get(FullProblem, "problems", leaderboard_name)
    text = problem.statement or problem.description or "No description."
    body = render_statement(without_mentions(escape_control_characters(text)), BODY_MAX)
    card = Card(problem.title or problem.slug, body, footer=f"version {problem.problem_version}")
    files = [*problem.files, *problem.evaluation]
    # What evaluates a submission comes first: Discord takes only some files.
    files.sort(key=lambda file: file.name not in TASK_FILES)
    await reply_with_card(interaction, await _add_files(api, card, files))


@app_commands.command()
async def template(
    interaction: BotInteraction, leaderboard_name: Leaderboard, lang: Language | None = None
) -> None:
    """A file to start from"""
    api = await defer(interaction)
    problem = await api.get(FullProblem, "problems", leaderboard_name)
    slug, starts = problem.slug, {start.language: start for start in problem.starts}
    if not starts:
        raise Refused("unknown_template", f"`{slug}` has no template")
    start = starts.get(lang or next(iter(starts)))
    if start is None:
        raise Refused("unknown_template", f"`{slug}` has templates in {', '.join(starts)}")
    data = await api.get_file(start.url)
    file = discord_file(f"{slug}{PurePosixPath(start.name).suffix}", data)
    text = f"Start `{slug}` from this file."
    await interaction.edit_original_response(content=text, attachments=[file])


@app_commands.command(name="reference-code")
async def reference(interaction: BotInteraction, leaderboard_name: Leaderboard) -> None:
    """The reference of a leaderboard"""
    api = await defer(interaction)
    problem = await api.get(FullProblem, "problems", leaderboard_name)
    files = [file for file in problem.files if "reference" in file.name.lower()]
    if not files:
        await reply(interaction, f"`{problem.slug}` has no public reference.")
        return
    card = await _add_files(api, Card("", f"The reference of `{problem.slug}`."), files)
    card = fit_attachments(card, interaction.filesize_limit)
    await interaction.edit_original_response(content=card.body, attachments=build_files(card))


@app_commands.command(name="eval-code")
@app_commands.describe(leaderboard_name="Add the rules and files of this leaderboard")
async def eval_code(
    interaction: BotInteraction,
    language: Literal["python", "cuda"] | None = None,
    leaderboard_name: Leaderboard | None = None,
) -> None:
    """How submissions are evaluated, as a program to read and to run"""
    api = await defer(interaction)
    harnesses = await api.get(Harnesses, "harnesses")
    if leaderboard_name is None:
        codes = harnesses.items[:CODES_MAX]
        card = harness_card(language or PYTHON, codes, api.link)
        names = EVALUATION_FILES[language or PYTHON]
        files = [ProblemFile(name=name, url=f"/v1/evaluation/{name}") for name in names]
    else:
        problem = await api.get(FullProblem, "problems", leaderboard_name)
        codes = select_harnesses(harnesses, problem.gpus)
        card = rules_card(problem, choose_language(problem, language), codes, api.link)
        others = [
            file
            for file in problem.files
            if file.name not in problem.templates.values() and not file.name.endswith(".md")
        ]
        files = [*problem.evaluation, *others]
    await reply_with_card(interaction, await _add_files(api, card, files))


COMMANDS: Commands = (task, template, reference, eval_code)
