"""Contests: write, check and publish their files; register, form teams, look at standings."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click import IntRange

from shared.api.contest_standings import (
    ContestResult,
    ContestResults,
    ContestStanding,
    DivisionStanding,
)
from shared.api.contests import (
    Contestant,
    Contestants,
    ContestCode,
    ContestDetails,
    Contests,
    PublishedContest,
)
from shared.api.queues import DecisionResponse
from shared.contests.definition import Contest, Phase, phase_names
from shared.errors import Refused
from shared.presentation.contests import REPETITION_TEXTS
from shared.presentation.units import count_text, escape_control_characters
from shared.presentation.units import one_line as clean
from warpboard.api import Api
from warpboard.context import AppContext, send_action
from warpboard.domain.output import Table, make_table
from warpboard.files import ContestFiles, create_contest_files, read_contest_files
from warpboard.terminal import options
from warpboard.terminal.options import api_command, local_command
from warpboard.terminal.problems import local_instant_text

CONTESTS = "contests"
# How long results are read again until they have what was just announced.
LOOKS_MAX, LOOK_S = 50, 0.1
CONTEST = click.argument("contest", metavar="CONTEST")
CONTEST_PATH = click.argument("path", type=options.PROBLEM_PATH, metavar="PATH")
DIVISION = click.option("--division", metavar="NAME", help="Default: the only one.")
DECLARE = click.option(
    *("--declare", "declarations"),
    multiple=True,
    metavar="NAME=TEXT",
    help="What the division demands, such as model=none; may be repeated.",
)
UNREGISTERED = "you are not registered: `warpboard contest register {}` shows the terms"


@local_command(
    "contest init cup --problem matmul --problem sort --organiser ada",
    parameters=(
        click.argument("folder", type=options.NEW_FOLDER),
        click.option(
            *("--problem", "problems"),
            multiple=True,
            required=True,
            metavar="SLUG[:GPU]",
            help="A problem, and the GPU type that counts; may be repeated.",
        ),
        click.option("--organiser", required=True, metavar="NAME", help="A participant."),
        click.option(
            "--now",
            "is_now",
            is_flag=True,
            help="Begin the main round at once, with the registration open, to try a contest.",
        ),
    ),
)
def init(
    context: AppContext, folder: Path, problems: Sequence[str], organiser: str, is_now: bool
) -> int:
    """Write a contest.yml and terms.md in FOLDER, to be edited.

    By default the registration begins tomorrow, the main round a week later; it lasts two weeks,
    and the standing is frozen on its last day.
    """
    paths = create_contest_files(folder, problems, organiser, datetime.now(UTC), is_now=is_now)
    written = {"files": [str(path) for path in paths]}
    lines = [f"wrote {path}" for path in paths]
    return context.show(written, lines, f"edit them, then: warpboard contest check {folder}")


@local_command("contest check cup", parameters=(CONTEST_PATH, options.WIDE))
def check(context: AppContext, path: Path) -> int:
    """Check a contest.yml, and show its phases.

    PATH is the file, or its folder. Only the files are read; `contest publish --dry-run` also asks
    the platform for the problems and the organisers.
    """
    from shared.problems.contest_yml import read_contest_yml

    files = read_contest_files(path)
    contest = read_contest_yml(files.contest_yml, files.others).contest
    document = {"slug": contest.slug, "problems": [it.slug for it in contest.problems]}
    note = f"{path} is valid: warpboard contest publish {path}"
    return context.show(document, contest_parts(contest), note)


PUBLISH_OPTIONS = (
    CONTEST_PATH,
    click.option("--dry-run", "is_dry_run", is_flag=True, help="Only say what would happen."),
)


@api_command(
    "contest publish cup",
    parameters=(
        *PUBLISH_OPTIONS,
        click.option("--reason", default="the first version", metavar="TEXT", help="For the log."),
    ),
    access=options.ORGANISER,
)
async def publish(context: AppContext, api: Api, **values: Any) -> int:
    """Publish the contest of a contest.yml.

    PATH is the file, or its folder. Its problems get its deadlines. You are the author of all of
    them, or an operator (--operator).
    """
    return await _publish(context, api, is_update=False, **values)


@api_command(
    'contest update cup --reason "a day longer, since the network was down"',
    parameters=(*PUBLISH_OPTIONS, options.REASON),
    access=options.ORGANISER,
)
async def update(context: AppContext, api: Api, **values: Any) -> int:
    """Publish a new version of a contest; times that it moves are announced.

    PATH is the file, or its folder. You organise the contest, or are an operator (--operator).
    """
    return await _publish(context, api, is_update=True, **values)


async def _publish(
    context: AppContext, api: Api, path: Path, *, is_update: bool, is_dry_run: bool, reason: str
) -> int:
    files = read_contest_files(path)
    answer = await api.act(
        PublishedContest, "POST", CONTESTS, body=_request(files, is_update, is_dry_run, reason)
    )
    published = answer.value
    if not published.is_new:
        line = f"{published.slug} is version {published.number} already: nothing to do"
        return context.show(answer.document, [line])
    verb = "would be published" if is_dry_run else "published"
    lines = [f"{published.slug} version {published.number} {verb}"]
    for moved in published.moved:
        times = [
            local_instant_text(at) if at else "no instant" for at in (moved.from_at, moved.to_at)
        ]
        lines.append(f"  {clean(moved.name, 100)} moves from {times[0]} to {times[1]}")
    return context.show(answer.document, lines)


def _request(
    files: ContestFiles, is_update: bool, is_dry_run: bool, reason: str
) -> Mapping[str, object]:
    try:
        texts = {name: data.decode() for name, data in files.others.items()}
        contest_yml = files.contest_yml.decode()
    except UnicodeDecodeError as error:
        raise Refused("not_utf8", f"byte {error.start} is not UTF-8: save it so") from error
    return {
        "contest_yml": contest_yml,
        "files": texts,
        "update": is_update,
        "dry_run": is_dry_run,
        "reason": reason,
    }


@api_command("contest list", parameters=(options.WIDE,))
async def list_contests(context: AppContext, api: Api) -> int:
    """List all contests, with their phases."""
    answer = await api.get(Contests, CONTESTS)
    rows = [
        {
            "contest": item.slug,
            "title": clean(item.title, 60),
            "phase": item.phase or "none",
            "until": _until(item.phase_ends_at or item.next_phase_at),
            "people": str(item.people_count),
        }
        for item in answer.value.items
    ]
    return context.show(
        answer.document, [make_table("contests", rows, extra=("people", "title", "until"))]
    )


def _until(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"


@api_command("contest show winter-cup", parameters=(CONTEST, options.WIDE))
async def show(context: AppContext, api: Api, contest: str) -> int:
    """Show a CONTEST: its phases, its problems, and your part in it."""
    answer = await api.get(ContestDetails, CONTESTS, contest)
    details = answer.value
    parts = [*contest_parts(details.contest), *_own_lines(details)]
    return context.show(answer.document, parts)


def contest_parts(contest: Contest) -> Iterator[str | Table]:
    """Describe a contest: its phases and its problems, in lines and tables."""
    yield f"{contest.slug}: {clean(contest.title, 100)}"
    phases = [
        {
            "phase": name,
            "from": _until(phase.starts_at),
            "until": _until(phase.ends_at),
            "modes": ", ".join(phase.modes) or "none",
            "quotas": _quotas(phase),
            "ranks": phase.ranks,
            "sources": phase.sources,
        }
        for name, phase in zip(phase_names(contest), contest.phases, strict=True)
    ]
    yield make_table("phases", phases, extra=("sources", "ranks", "quotas", "modes", "until"))
    problems = [
        {
            "problem": problem.slug,
            "round": problem.round,
            "gpu": problem.gpu or "the only one",
            "until": _until(problem.ends_at),
            "weight": f"{problem.weight:g}",
            "scoring": problem.scoring.by,
        }
        for problem in contest.problems
    ]
    yield make_table("problems", problems, extra=("scoring", "weight", "gpu", "until"))
    divisions = ", ".join(
        f"{it.slug} (declares {', '.join(it.declare)})" if it.declare else it.slug
        for it in contest.divisions
    )
    yield f"divisions: {divisions}"
    size = contest.teams.size_max
    yield "for individuals" if size == 1 else f"teams of up to {size}"
    yield f"registration until {local_instant_text(contest.register_until_at)}"


def _quotas(phase: Phase) -> str:
    return ", ".join(f"{name}={limit}" for name, limit in phase.quotas.items()) or "none"


def _own_lines(details: ContestDetails) -> Iterator[str]:
    phase = details.phase or "none"
    yield f"now: phase {phase}, {count_text(details.people_count, 'person', 'people')} registered"
    if details.is_organiser:
        yield "you organise it"
    if details.own is None:
        if details.is_registration_open and not details.is_organiser:
            yield UNREGISTERED.format(details.contest.slug)
        return
    yield f"you take part as {_contestant_text(details.own)}"
    if details.own.doubt:
        yield f"your declaration is questioned: {clean(details.own.doubt, 500)}"
    if details.own.disqualified:
        yield f"disqualified: {clean(details.own.disqualified, 500)}"
    if details.accepted_terms != details.terms_digest:
        yield "the terms have changed since you accepted them"


def _contestant_text(contestant: Contestant) -> str:
    name = clean(contestant.name or contestant.contestant, 64)
    members = ", ".join(clean(it.participant or it.participant_id, 64) for it in contestant.members)
    text = f"the team {name} ({members})" if contestant.is_team else name
    return f"{text}, division {contestant.division}"


@api_command(
    "contest contestants winter-cup",
    parameters=(CONTEST, options.WIDE),
    access=options.VIEWER,
)
async def list_contestants(context: AppContext, api: Api, contest: str) -> int:
    """List who takes part in a CONTEST; organisers also see declarations."""
    answer = await api.get(Contestants, CONTESTS, contest, "contestants")
    rows = [
        {
            "contestant": clean(item.name or item.contestant, 64),
            "members": ", ".join(clean(it.participant or "?", 64) for it in item.members),
            "division": item.division,
            "declares": _declaration_text(item),
            "state": _state_text(item),
        }
        for item in answer.value.items
    ]
    return context.show(
        answer.document,
        [make_table("contestants", rows, extra=("declares", "members", "division"))],
    )


def _declaration_text(contestant: Contestant) -> str:
    values = contestant.declaration or {}
    return ", ".join(f"{name}={clean(text, 60)}" for name, text in values.items())


def _state_text(contestant: Contestant) -> str:
    if contestant.is_disqualified:
        return "disqualified"
    return "questioned" if contestant.doubt else ""


@api_command(
    "contest register winter-cup --division assisted --declare model=none --accept",
    parameters=(
        CONTEST,
        DIVISION,
        DECLARE,
        click.option("--code", default="", metavar="CODE", help="Of an invitation."),
        click.option("--accept", "accepts", is_flag=True, help="Accept the terms."),
    ),
)
async def register(context: AppContext, api: Api, contest: str, **values: Any) -> int:
    """Take part in a CONTEST.

    It shows the terms, which --accept accepts: the log then holds their digest.
    """
    details = (await api.get(ContestDetails, CONTESTS, contest)).value
    terms = [escape_control_characters(line) for line in details.contest.terms.splitlines()]
    if not context.as_json:
        context.show(None, terms)
    if not values["accepts"]:
        document = {"terms": details.contest.terms, "terms_digest": details.terms_digest}
        return context.show(document, [], "nothing was sent: --accept accepts these terms")
    body = {
        "division": _division(details.contest, values["division"]),
        "declaration": _parse_declarations(values["declarations"]),
        "terms_digest": details.terms_digest,
        "code": values["code"],
    }
    return await send_action(context, api, "POST", CONTESTS, contest, "registration", body=body)


@api_command(
    "contest declare winter-cup --division assisted --declare model=none",
    parameters=(CONTEST, DIVISION, DECLARE),
)
async def declare(
    context: AppContext, api: Api, contest: str, division: str | None, declarations: Sequence[str]
) -> int:
    """Change your division in a CONTEST, or what you declared.

    For a team, its captain does.
    """
    details = (await api.get(ContestDetails, CONTESTS, contest)).value
    if division is None and details.own is not None:
        division = details.own.division
    body = {
        "division": _division(details.contest, division),
        "declaration": _parse_declarations(declarations),
    }
    return await send_action(context, api, "PUT", CONTESTS, contest, "declaration", body=body)


def _division(contest: Contest, division: str | None) -> str:
    if division is not None:
        return division
    if len(contest.divisions) > 1:
        names = ", ".join(it.slug for it in contest.divisions)
        raise Refused("usage", f"--division: choose one of {names}")
    return contest.divisions[0].slug


def _parse_declarations(texts: Sequence[str]) -> dict[str, str]:
    values = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise Refused("usage", f"--declare {text!r}: write NAME=TEXT, such as model=none")
        values[name.strip()] = value.strip()
    return values


@api_command(
    'contest team create winter-cup "Fast Three"', parameters=(CONTEST, click.argument("name"))
)
async def create_team(context: AppContext, api: Api, contest: str, name: str) -> int:
    """Form the team NAME in a CONTEST, and print its code.

    Others join the team with the code.
    """
    return await _show_code(context, api, contest, "team", body={"name": name})


@api_command("contest team code winter-cup", parameters=(CONTEST,))
async def change_code(context: AppContext, api: Api, contest: str) -> int:
    """Replace the code of your team in a CONTEST; the old one is void."""
    return await _show_code(context, api, contest, "team", "code", body={})


@api_command(
    "contest invite winter-cup --people 30",
    parameters=(
        CONTEST,
        click.option(
            *("--people", "people_max"),
            type=IntRange(1, 10_000),
            default=1,
            show_default=True,
            metavar="N",
            help="How many may register with it.",
        ),
        click.option("--until", "expires_at", type=options.Instant(), help="Default: without end."),
    ),
    access=options.ORGANISER,
)
async def invite(
    context: AppContext, api: Api, contest: str, people_max: int, expires_at: str | None
) -> int:
    """Create a code for a CONTEST that is by invitation; for its organisers."""
    body: dict[str, object] = {"people_max": people_max}
    if expires_at is not None:
        body["expires_at"] = expires_at
    return await _show_code(context, api, contest, "invites", body=body)


async def _show_code(
    context: AppContext, api: Api, contest: str, *path: str, body: Mapping[str, object]
) -> int:
    answer = await api.act(ContestCode, "POST", CONTESTS, contest, *path, body=body)
    command = "contest team join" if answer.value.team else "contest register --accept --code"
    note = f"for others: warpboard {command}"
    return context.show(answer.document, [answer.value.code], note)


@api_command(
    "contest standing winter-cup",
    parameters=(
        CONTEST,
        click.option(
            "--round",
            "round_",
            type=click.Choice(("qualifier", "main", "finals", "practice")),
            help="Default: the newest one.",
        ),
        options.WIDE,
    ),
    access=options.VIEWER,
)
async def standing(context: AppContext, api: Api, contest: str, round_: str | None) -> int:
    """Show the standing of a CONTEST, of each division."""
    answer = await api.get(ContestStanding, CONTESTS, contest, "standing", round=round_)
    result = answer.value
    lines = [f"{result.contest}, {result.round}, {result.state}"]
    if result.is_hidden:
        lines.append("no ranks are shown in this phase")
    tables = [_standing_table(division) for division in result.divisions]
    return context.show(answer.document, [*lines, *tables])


def _standing_table(division: DivisionStanding) -> Table:
    problems = {entry.problem: "" for row in division.rows for entry in row.entries}
    rows = [
        {
            "rank": f"{row.rank}{'=' if row.is_tied else ''}",
            "contestant": clean(row.name or row.contestant, 64),
            "points": f"{row.points:g}",
            **problems,
            **{entry.problem: f"{entry.points:g}" for entry in row.entries},
        }
        for row in division.rows
    ]
    return make_table(division.title, rows, extra=tuple(problems))


@api_command(
    "contest results winter-cup",
    parameters=(
        CONTEST,
        click.option(
            *("--propose", "proposes"),
            is_flag=True,
            help="As an organiser: announce the standing as the provisional results first.",
        ),
        options.WIDE,
    ),
    access=options.ORGANISER,
)
async def results(context: AppContext, api: Api, contest: str, *, proposes: bool) -> int:
    """Show the results of a CONTEST, or as an organiser announce them.

    Organisers also see the check list of each winner. Provisional results may be appealed for a
    while. Then `contest confirm` makes them final.
    """
    seq = 0
    if proposes:
        proposal = await api.act(DecisionResponse, "POST", CONTESTS, contest, "results", body={})
        seq = proposal.value.seq or 0
    answer = await api.get(ContestResults, CONTESTS, contest, "results")
    for _ in range(LOOKS_MAX):
        if answer.value.as_of >= seq:
            break
        await asyncio.sleep(LOOK_S)
        answer = await api.get(ContestResults, CONTESTS, contest, "results")
    return context.show(answer.document, results_parts(answer.value))


def results_parts(answer: ContestResults) -> Iterator[str | Table]:
    """Describe the results of a contest: places, then the check list of each winner."""
    yield f"{answer.contest}: {_stage_text(answer)}"
    if answer.outdated is not None:
        yield clean(answer.outdated, 500)
    if answer.finalists:
        names = (clean(it.name or it.contestant, 64) for it in answer.finalists)
        yield f"finalists: {', '.join(names)}"
    if answer.places:
        yield make_table("places", [_result_row(place) for place in answer.places], extra=("runs",))
    yield from (_check_table(place) for place in answer.places if place.checks is not None)
    if answer.prizes:
        yield f"prizes: {clean(answer.prizes, 500)}"


def _stage_text(answer: ContestResults) -> str:
    if answer.state == "none":
        return "no results yet"
    if answer.appeals_until_at is None:
        return f"{answer.state} results"
    until = local_instant_text(answer.appeals_until_at)
    return f"provisional results, which may be appealed until {until}"


def _result_row(place: ContestResult) -> Mapping[str, str]:
    name = clean(place.name or place.contestant, 64)
    return {
        "place": str(place.place),
        "division": place.division,
        "contestant": f"{name} (disqualified)" if place.is_disqualified else name,
        "points": f"{place.points:g}",
        "runs": REPETITION_TEXTS[place.repetitions] if place.repetitions else "",
    }


def _check_table(place: ContestResult) -> Table:
    """The check list of a winner."""
    rows = [
        {
            "check": check.item,
            "decision": {None: "open", True: "passed", False: "failed"}[check.is_passed],
            "": "!" if check.is_doubtful else "",
            "evidence": clean(check.evidence, 300),
            "note": clean(check.note, 200),
        }
        for check in place.checks or ()
    ]
    name = clean(place.name or place.contestant, 64)
    return make_table(f"{name}, place {place.place} of {place.division}", rows, extra=("note",))


@api_command(
    "contest team leave winter-cup",
    parameters=(
        CONTEST,
        click.option("--member", metavar="NAME", help="As the captain: remove this member."),
    ),
)
async def leave_team(context: AppContext, api: Api, contest: str, member: str | None) -> int:
    """Leave your team in a CONTEST, or as its captain remove a member."""
    body = {} if member is None else {"participant": member}
    return await send_action(context, api, "POST", CONTESTS, contest, "team", "leave", body=body)
