"""The texts about contests: announcements, and the answers to commands."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from discord_edge.wording import (
    Card,
    deadline_time,
    discord_time,
    escaped,
    fenced,
    shorten,
)
from shared.api.contest_standings import ContestResult, ContestStanding, DivisionStanding
from shared.api.contests import Contestant, ContestDetails, ContestSummary
from shared.contests.definition import Contest, MovedTime, Phase, phase_at, phase_names
from shared.presentation.contests import (
    PHASE_TITLES,
    ROUND_TITLES,
    STATE_TEXTS,
    describe_instant,
    describe_phase,
    describe_scoring,
    describe_teams,
)
from shared.presentation.units import count_text, one_line

MEDALS = ("🥇", "🥈", "🥉")
TITLE_MAX, NAME_MAX, REASON_MAX, DESCRIPTION_MAX = 100, 60, 250, 300
MEMBERS_CHARS_MAX = 600
# A message has at most 2000 characters, and its link must remain; a card has at most 4096.
BODY_MAX, CARD_MAX = 1700, 4000
MOVES_MAX, PROBLEMS_MAX, DIVISIONS_MAX = 12, 20, 4
ROWS_MAX, FINALISTS_MAX = 10, 20
TERMS_CHARS_MAX = 1200
UNNAMED = "an unnamed participant"
TERMS_CHANGED = "The terms have changed since you accepted them: read them on the contest's page."


class PhaseStart(NamedTuple):
    """A phase that began, and its name among the phases of its contest."""

    name: str
    phase: Phase


def started_phases(contest: Contest, at: datetime) -> list[PhaseStart]:
    """Return the phases that began until an instant, in order."""
    names = zip(phase_names(contest), contest.phases, strict=True)
    return [PhaseStart(name, phase) for name, phase in names if phase.starts_at <= at]


def _heading(contest: Contest) -> str:
    return f"**{escaped(contest.title, TITLE_MAX)}** · `{contest.slug}`"


def _with_link(lines: Sequence[str], link: str) -> str:
    """Join lines, cut to what a message takes, above the link of the contest's page."""
    text = shorten("\n".join(line for line in lines if line), BODY_MAX)
    return f"{text}\n<{link}>" if link else text


def published_text(contest: Contest, at: datetime, link: str) -> str:
    """Announce a new contest, with its phases."""
    until = deadline_time(contest.register_until_at)
    return _with_link(
        [
            f"📣 A new contest: {_heading(contest)}",
            escaped(contest.description, DESCRIPTION_MAX),
            *_phase_lines(contest, at),
            f"`/contest show` has the details; register with `/contest register` until {until}.",
        ],
        link,
    )


def _phase_lines(contest: Contest, at: datetime) -> Iterator[str]:
    current = phase_at(contest, at)
    for phase in contest.phases:
        mark = "▶" if phase is current else "•"
        end = "" if phase.ends_at is None else f" to {discord_time(phase.ends_at, 'f')}"
        yield f"{mark} {PHASE_TITLES[phase.kind]}: {discord_time(phase.starts_at, 'f')}{end}"


def phase_text(contest: Contest, phase: Phase, at: datetime, link: str) -> str:
    """Announce a phase that began; if it is over by now, that it took place."""
    title, heading = PHASE_TITLES[phase.kind], _heading(contest)
    if phase.ends_at is not None and phase.ends_at <= at:
        times = f"from {discord_time(phase.starts_at, 'F')} to {discord_time(phase.ends_at, 'F')}"
        return _with_link([f"⏱ {heading}: **{title}** took place {times}."], link)
    until = "" if phase.ends_at is None else f", until {deadline_time(phase.ends_at)}"
    problems = [problem.slug for problem in contest.problems if problem.round == phase.kind]
    return _with_link(
        [
            f"⏱ {heading}: **{title}** has begun{until}.",
            describe_phase(phase) if phase.kind != "registration" else _registration_text(contest),
            f"Problems: {_names(problems)}." if problems else "",
        ],
        link,
    )


def _registration_text(contest: Contest) -> str:
    until = deadline_time(contest.register_until_at)
    return f"{describe_teams(contest)} Register with `/contest register`, until {until}."


def _names(slugs: Sequence[str]) -> str:
    names = ", ".join(f"`{slug}`" for slug in slugs[:PROBLEMS_MAX])
    return names if len(slugs) <= PROBLEMS_MAX else f"{names} and {len(slugs) - PROBLEMS_MAX} more"


def moved_text(contest: Contest, moved: Sequence[MovedTime], reason: str, link: str) -> str:
    """Announce the times that an update moved; those that moved alike share a line."""
    groups: dict[tuple[datetime | None, datetime | None], list[str]] = {}
    for time in moved:
        groups.setdefault((time.from_at, time.to_at), []).append(time.name)
    lines = [
        f"• {escaped(_instant_names(names), 200)}: {_instant(before)} → {_instant(after)}"
        for (before, after), names in list(groups.items())[:MOVES_MAX]
    ]
    more = len(groups) - MOVES_MAX
    return _with_link(
        [
            f"🕑 {_heading(contest)}: times have moved.",
            *lines,
            f"… and {more} more" if more > 0 else "",
            f"Reason: {escaped(reason, REASON_MAX)}" if reason else "",
        ],
        link,
    )


def _instant_names(names: Sequence[str]) -> str:
    """Describe instants; that a phase starts says that the one before it ends."""
    starts = any(name.startswith("phases.") and name.endswith(".starts") for name in names)
    return ", ".join(
        describe_instant(name)
        for name in names
        if not (starts and name.startswith("phases.") and name.endswith(".ends"))
    )


def _instant(at: datetime | None) -> str:
    return "none" if at is None else discord_time(at, "f")


def finalists_text(contest: Contest, count: int, names: Sequence[str | None], link: str) -> str:
    """Announce that finalists are admitted: how many, and their names where they are public."""
    finalists = ", ".join(f"**{_name(name)}**" for name in names[:FINALISTS_MAX])
    more = f" and {len(names) - FINALISTS_MAX} more" if len(names) > FINALISTS_MAX else ""
    starts = (phase.starts_at for phase in contest.phases if phase.kind == "finals")
    begin = f"The finals begin {deadline_time(at)}." if (at := next(starts, None)) else ""
    return _with_link(
        [
            f"🎟 {_heading(contest)}: {count_text(count, 'finalist')} admitted to the finals.",
            f"{finalists}{more}" if names else "",
            begin,
        ],
        link,
    )


def provisional_text(contest: Contest, appeals_until_at: datetime | None, link: str) -> str:
    """Announce that there are provisional results, without any place."""
    appeals = ""
    if appeals_until_at is not None:
        appeals = f"They can be appealed until {deadline_time(appeals_until_at)}."
    return _with_link([f"📋 {_heading(contest)}: provisional results are out.", appeals], link)


def final_text(contest: Contest, places: Sequence[ContestResult], link: str) -> str:
    """Announce that results are final, with the first three of each division that are public."""
    lines = [f"🏆 {_heading(contest)}: the results are final."]
    for division in contest.divisions[:DIVISIONS_MAX]:
        winners = [
            place
            for place in places
            if place.division == division.slug
            and place.place <= len(MEDALS)
            and not place.is_disqualified
        ]
        winners.sort(key=lambda place: place.place)
        if winners and len(contest.divisions) > 1:
            lines.append(f"__{escaped(division.title, NAME_MAX)}__")
        lines += [
            f"{MEDALS[place.place - 1]} **{_name(place.name)}** · {place.points:g} points"
            for place in winners[: 2 * len(MEDALS)]
        ]
    return _with_link(lines, link)


def _name(name: str | None) -> str:
    return escaped(name or UNNAMED, NAME_MAX)


def list_lines(contests: Sequence[ContestSummary]) -> list[str]:
    """Return a line for each contest: its phase now, and what comes next."""
    return [
        f"**{escaped(contest.title, TITLE_MAX)}** · `{contest.slug}` · {_state(contest)} · "
        f"{count_text(contest.people_count, 'person', 'people')}"
        for contest in contests
    ]


def _state(contest: ContestSummary | ContestDetails) -> str:
    phase, next_at = contest.phase, contest.next_phase_at
    text = "no phase now" if phase is None else PHASE_TITLES[phase]
    if contest.phase_ends_at not in (None, next_at):
        text += f", ends {discord_time(contest.phase_ends_at, 'R')}"
    if contest.next_phase is not None and next_at is not None:
        text += f"; {PHASE_TITLES[contest.next_phase]} {discord_time(next_at, 'R')}"
    elif phase is None:
        text = "over"
    return text


def contest_card(details: ContestDetails, at: datetime, link: str) -> Card:
    """Show a contest: its phases, its problems, and the part that the user takes in it."""
    contest = details.contest
    divisions = ", ".join(
        f"{escaped(division.title, NAME_MAX)} (`{division.slug}`)" for division in contest.divisions
    )
    phase = phase_at(contest, at)
    lines = [
        escaped(contest.description, DESCRIPTION_MAX),
        f"**Now** {_state(details)}",
        describe_phase(phase) if phase is not None else "",
        "**You**",
        *own_lines(details),
        "**Phases**",
        *_phase_lines(contest, at),
        f"**Divisions** {shorten(divisions, 400)}",
        describe_teams(contest),
        f"**Prizes** {escaped(contest.prizes, DESCRIPTION_MAX)}" if contest.prizes else "",
        f"[The contest's page, with the terms]({link})" if link else "",
        "**Problems**",
    ]
    body = "\n".join(line for line in lines if line)
    body += "".join(_problem_lines(contest, CARD_MAX - len(body)))
    people = count_text(details.people_count, "person", "people")
    footer = f"{people} registered · version {details.number}"
    return Card(escaped(contest.title, 200), body, footer=footer)


def _problem_lines(contest: Contest, chars_left: int) -> Iterator[str]:
    for index, problem in enumerate(contest.problems):
        window = f"{discord_time(problem.starts_at, 'f')} to {discord_time(problem.ends_at, 'f')}"
        gpu = f" on {escaped(problem.gpu, 40)}" if problem.gpu else ""
        scoring = escaped(describe_scoring(problem), 100)
        line = f"\n• `{problem.slug}`{gpu}: {window}, {scoring}"
        chars_left -= len(line)
        if chars_left < 0:
            yield f"\n• and {len(contest.problems) - index} more"
            return
        yield line


def own_lines(details: ContestDetails) -> Iterator[str]:
    """Describe the part that the user takes in a contest, and what they must do."""
    own = details.own
    if details.is_organiser:
        yield "You organise it."
    elif own is None:
        how = ": `/contest register` takes part" if details.is_registration_open else ""
        yield f"You are not registered{how}."
    if own is not None:
        yield from _contestant_lines(own)
        if details.accepted_terms != details.terms_digest:
            yield f"⚠ {TERMS_CHANGED}"


def _contestant_lines(own: Contestant) -> Iterator[str]:
    yield f"You take part{_team_text(own)}, in the division `{own.division}`."
    if declared := own.declaration:
        pairs = (f"{escaped(name, 40)}: {escaped(text, 60)}" for name, text in declared.items())
        values = ", ".join(pairs)
        yield f"You declared {shorten(values, 500)}."
    if own.doubt:
        yield f"⚠ Your declaration is questioned: {escaped(own.doubt, REASON_MAX)}"
    if own.disqualified:
        yield f"⚠ Disqualified: {escaped(own.disqualified, REASON_MAX)}"


def _team_text(own: Contestant) -> str:
    if not own.is_team:
        return " alone"
    members = ", ".join(
        _name(member.participant) + (" (captain)" if member.participant_id == own.captain else "")
        for member in own.members
    )
    return f" in the team **{_name(own.name)}**: {shorten(members, MEMBERS_CHARS_MAX)}"


def terms_text(details: ContestDetails, division: str, link: str) -> tuple[str, bool]:
    """Ask to accept the terms; also whether they are too long to be shown whole."""
    contest = details.contest
    is_long = len(contest.terms) > TERMS_CHARS_MAX
    page = f" They are also on <{link}#terms>." if link else ""
    attached = " All of it is in the attached file." if is_long else ""
    return (
        f"To take part in {_heading(contest)}, division `{division}`, accept its terms."
        f"{attached}{page}\n{fenced(shorten(contest.terms, TERMS_CHARS_MAX))}\n"
        f"SHA-256 `{details.terms_digest}`, which is recorded with your registration."
    ), is_long


def standing_card(standing: ContestStanding, link: str) -> Card:
    """Show the first places of each division, as far as the user may see them."""
    round_title = ROUND_TITLES[standing.round]
    title = escaped(f"{standing.title}: {round_title}", 200)
    if standing.is_hidden:
        return Card(title, "Ranks are hidden in this phase.")
    until = ""
    if standing.until_at is not None:
        until = f", of what was received before {discord_time(standing.until_at, 'f')}"
    lines = [f"{STATE_TEXTS[standing.state].capitalize()}{until}."]
    for division in standing.divisions[:DIVISIONS_MAX]:
        lines += [f"**{escaped(division.title, NAME_MAX)}**", _standing_table(division)]
    hidden = len(standing.divisions) - DIVISIONS_MAX
    lines += [f"… and {count_text(hidden, 'division')} more"] if hidden > 0 else []
    lines += [f"[All places]({link})"] if link else []
    return Card(title, "\n".join(lines), footer=f"event {standing.as_of}")


def _standing_table(division: DivisionStanding) -> str:
    if not division.rows:
        return "Nobody has points yet."
    rows = [
        f"{row.rank:>3}{'=' if row.is_tied else ' '} {one_line(row.name or UNNAMED, 26):<26} "
        f"{row.points:>8g}"
        for row in division.rows[:ROWS_MAX]
    ]
    return fenced("\n".join(rows))
