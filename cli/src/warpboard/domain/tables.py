"""Tables of what the platform answered: columns and rows of text."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from shared.telling.ranks import numbers_text, rank_text
from shared.telling.rates import roofline_text, share_text, speedups_text
from warpboard.domain.answers import Agent, Case, Entry, File, Leaderboard, Moment, Summary
from warpboard.domain.goals import MARK, Baseline, OwnMilestone, when_text
from warpboard.domain.oversight import Waiting
from warpboard.domain.problems import Problem
from warpboard.domain.units import NOTHING, interval_text, null_text, one_line, time_text, when

HIDDEN = "hidden"
NUMBERS = (
    "rank",
    "bytes",
    "number",
    "score",
    "time",
    "samples",
    "version",
    "submissions",
    "pid",
    "seq",
    "place",
    "used",
    "limit",
    "left",
    "waiting",
    "free",
    "busy",
    "after",
    "reached",
)


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, and the rows; columns in NUMBERS stand to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def leaderboard(found: Leaderboard, zone: tzinfo | None = None) -> Table:
    """A leaderboard, best first; instants in the given zone, by default this machine's."""
    lines = _lines(found)
    rows = [
        _baseline(one, zone) if isinstance(one, Baseline) else _entry(one, zone) for one in lines
    ]
    columns = (
        *("rank", "participant", "score", "interval", "number", "when"),
        *("tier", "isolation", "grade"),
    )
    moment = f", as of {when(found.as_of_at, zone)}" if found.as_of_at else ""
    title = f"{found.problem} on {found.gpu}, version {found.problem_version}{moment}"
    entries = [one if isinstance(one, Entry) else None for one in lines]
    shares = [share_text(one.roofline_fraction) if one else NOTHING for one in entries]
    ratios = [speedups_text(one.vs_baseline) if one else NOTHING for one in entries]
    pools = [(numbers_text(one.pooled_over) if one else "") or NOTHING for one in entries]
    table = _beside(Table(title, columns, rows), "pooled over", pools)
    table = _beside(table, "roofline", shares)
    duels = [(one.duel if one else "") or NOTHING for one in entries]
    table = _beside(table, "duel", duels)
    confirmations = [(one.confirmation if one else "") or NOTHING for one in entries]
    table = _beside(table, "confirmation", confirmations)
    return _beside(table, "speed-up", ratios)


def _lines(found: Leaderboard) -> list[Entry | Baseline]:
    """The rows, and at their place in order the baselines, which have no rank."""
    lines: list[Entry | Baseline] = list(found.items)
    for one in found.baselines:
        if one.score_us is not None:
            faster = [line for line in lines if (line.score_us or 0.0) <= one.score_us]
            lines.insert(lines.index(faster[-1]) + 1 if faster else 0, one)
    return lines


def _entry(entry: Entry, zone: tzinfo | None) -> tuple[str, ...]:
    return (
        rank_text(entry.rank, is_tied=entry.is_tied),
        entry.participant or NOTHING,
        time_text(entry.score_us),
        _bounds(entry.low_us, entry.high_us),
        str(entry.number),
        when(entry.received_at, zone),
        entry.tier or NOTHING,
        entry.level or NOTHING,
        _worth(entry.grade, entry.is_provisional),
    )


def _baseline(one: Baseline, zone: tzinfo | None) -> tuple[str, ...]:
    """A baseline's row: no rank, and its name in brackets, as no participant's can be."""
    return (
        NOTHING,
        f"[{MARK} {one.name}]",
        time_text(one.score_us),
        _bounds(one.low_us, one.high_us),
        NOTHING,
        when(one.measured_at, zone),
        one.tier or NOTHING,
        one.level or NOTHING,
        one_line(one.note, 40) or NOTHING,
    )


def milestones(found: Leaderboard, zone: tzinfo | None = None) -> Table:
    """The milestones of a leaderboard, and how many reached each."""
    rows = [
        (
            one_line(one.title, 60),
            when_text(one.when),
            str(one.reached),
            f"with {one.number}, {when(one.reached_at, zone)}" if one.is_reached else NOTHING,
        )
        for one in found.milestones
    ]
    title = f"milestones of {found.problem} on {found.gpu}"
    return Table(title, ("milestone", "when", "reached", "by you"), rows)


def own_milestones(found: Sequence[OwnMilestone], zone: tzinfo | None = None) -> Table:
    """What one reached, newest first."""
    rows = [
        (
            one.problem,
            one.gpu,
            one_line(one.title, 60),
            str(one.problem_version),
            str(one.number),
            when(one.at, zone),
        )
        for one in found
    ]
    columns = ("problem", "GPU type", "milestone", "version", "number", "when")
    return Table("milestones", columns, rows)


def _beside(table: Table, name: str, cells: Sequence[str]) -> Table:
    """The table with one more column before its last, if there is anything in it."""
    if all(cell == NOTHING for cell in cells):
        return table
    rows = [(*row[:-1], cell, *row[-1:]) for row, cell in zip(table.rows, cells, strict=True)]
    return Table(table.title, (*table.columns[:-1], name, *table.columns[-1:]), rows)


def _worth(grade: str, is_provisional: bool) -> str:
    """How far a time can be trusted.

    >>> _worth("ok", False), _worth("noisy", True), _worth("", False)
    ('ok', 'noisy, provisional', '-')
    """
    return ", ".join([grade or NOTHING] + ["provisional"] * is_provisional)


def _bounds(low_us: float | None, high_us: float | None) -> str:
    return NOTHING if low_us is None or high_us is None else interval_text((low_us, high_us))


def cases(found: Sequence[Case]) -> Table:
    """How each case of a run ended."""
    rows = [
        (
            case.stage,
            _case_name(case),
            case.verdict,
            time_text(case.time_us),
            interval_text(case.interval_us),
            null_text(case.null_us),
            case.grade or NOTHING,
            one_line(case.message),
        )
        for case in found
    ]
    columns = ("stage", "case", "verdict", "time", "interval", "null call", "grade", "message")
    rates = [roofline_text(case.roofline) for case in found]
    table = _beside(Table("cases", columns, rows), "roofline", rates)
    return _beside(table, "speed-up", [speedups_text(case.vs_baseline) for case in found])


def _case_name(case: Case) -> str:
    """What a case is called; of a hidden one no more than that."""
    name = one_line(case.name)
    return f"hidden: {name}" if case.is_hidden and name != HIDDEN else name


def files(found: Sequence[File]) -> Table:
    """What can be downloaded of a run."""
    rows = [(one_line(one.name, 100), one.media or NOTHING, f"{one.bytes:,}") for one in found]
    return Table("files", ("file", "media", "bytes"), rows)


def timeline(found: Sequence[Moment], zone: tzinfo | None = None) -> Table:
    """What happened to a submission, in order."""
    rows = [(str(one.seq), when(one.at, zone), one.type, one_line(one.note)) for one in found]
    return Table("timeline", ("seq", "when", "event", "note"), rows)


def submissions(found: Sequence[Summary], zone: tzinfo | None = None) -> Table:
    """A list of submissions, newest first."""
    rows = [
        (
            str(one.number),
            one.participant or NOTHING,
            one.problem,
            one.gpu,
            one.mode,
            one_line(one.name, 40),
            one.verdict or one.outcome or one.state,
            time_text(one.score_us),
            one.tag or NOTHING,
            when(one.received_at, zone),
        )
        for one in found
    ]
    columns = (
        *("number", "participant", "problem", "GPU type", "mode"),
        *("file", "verdict", "score", "tag", "when"),
    )
    pools = [numbers_text(one.pooled_over) or NOTHING for one in found]
    return _beside(Table("submissions", columns, rows), "pooled over", pools)


def problems(found: Sequence[Problem], zone: tzinfo | None = None) -> Table:
    """Every problem in its newest version."""
    rows = [
        (
            one.slug,
            str(one.number),
            one_line(one.title, 60),
            " ".join(one.gpus),
            when(one.published_at, zone),
            " ".join(filter(None, (one.state, one.visibility.replace("public", "")))) or NOTHING,
            when(one.deadline_at, zone),
        )
        for one in found
    ]
    columns = ("problem", "version", "title", "GPU types", "published", "state", "deadline")
    return Table("problems", columns, rows)


def agents(found: Sequence[Agent]) -> Table:
    """Who registered, and who of them is alive."""
    rows = [
        (
            one.id,
            one.gpu,
            one.level or NOTHING,
            one.tier or NOTHING,
            " ".join(one.modes) or NOTHING,
            _health(one),
        )
        for one in found
    ]
    return Table("agents", ("agent", "GPU type", "isolation", "tier", "modes", "state"), rows)


def _health(agent: Agent) -> str:
    """How an agent is, and what holds it back.

    >>> _health(Agent(id="a", gpu="CPU", is_alive=True, standing="cordoned", standing_reason="x"))
    'cordoned: x'
    """
    held = held_back(agent)
    if not agent.is_alive:
        return f"silent, {held}" if held else "silent"
    unknown = ", not enrolled" if agent.standing == "not_enrolled" else ""
    return held or ("free" if agent.is_free else "busy") + unknown


def held_back(agent: Agent) -> str:
    """What keeps an agent from its work, by whose judgement ever; empty if nothing does."""
    if agent.standing not in ("", "enrolled", "not_enrolled"):
        return f"{agent.standing}: {one_line(agent.standing_reason or NOTHING)}"
    return f"in quarantine: {one_line(agent.quarantine)}" if agent.quarantine else ""


def queue(found: Sequence[Waiting], zone: tzinfo | None = None) -> Table:
    """What is not over yet."""
    rows = [(one.gpu, one.state, str(one.submissions), when(one.oldest_at, zone)) for one in found]
    return Table("queue", ("GPU type", "state", "submissions", "oldest"), rows)
