"""Tables for Discord: monospaced code blocks with ten rows per page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from discord_edge.wording import Card, discord_time, escaped, fenced, shorten
from shared.api.leaderboards import Entry, OtherVersion, PersonalRecord
from shared.api.problems import Problem
from shared.api.queues import QueueOfGpu
from shared.presentation.units import NO_VALUE, one_line, pooled_text, rank_text, time_text

ROWS = 10
WIDTH_MAX = 56
# Ten such lines and the banner fit into a card, however many GPU types there are.
LINE_MAX = 370
# The rows and headings, and the characters, of all tables that one card shows together.
LINES_TOGETHER_MAX = 48
TOGETHER_LENGTH_MAX = 4000


@dataclass(frozen=True)
class Page:
    """One page of a list, its number from 0 on, and the number of pages."""

    card: Card
    number: int
    count: int


def paginate(title: str, lines: Sequence[str], number: int, note: str = "") -> Page:
    """Return the page with this number, or the nearest that exists.

    >>> paginate("t", [str(n) for n in range(11)], 7).card.body
    '10'
    """
    count = max(1, -(-len(lines) // ROWS))
    number = min(max(number, 0), count - 1)
    body = "\n".join(lines[number * ROWS : (number + 1) * ROWS]) or "Nothing here yet."
    footer = f"Page {number + 1}/{count}" + (f" · {note}" if note else "")
    return Page(Card(escaped(title, 200), body, footer=footer), number, count)


def trend_text(rank: int, before: int | None) -> str:
    """Say how a rank differs from an earlier one.

    >>> trend_text(2, 5), trend_text(3, 1), trend_text(4, 4), trend_text(1, None)
    ('▲3', '▼2', '●', 'new')
    """
    if before is None:
        return "new"
    return "●" if rank == before else f"{'▲' if rank < before else '▼'}{abs(rank - before)}"


def ranking_page(
    title: str,
    entries: Sequence[Entry],
    number: int,
    note: str = "",
    before: Mapping[str, int] | None = None,
) -> Page:
    """Show a page of a leaderboard: rank, participant, score; `=` marks shared ranks.

    `before` are the ranks of a week ago by participant; each row then shows its change.
    """
    labels = rank_labels(entries)
    rows = [
        (
            labels[entry.number],
            *([trend_text(entry.rank, before.get(entry.participant_id))] if before else []),
            one_line(entry.participant or NO_VALUE, 20 if before else 26),
            time_text(entry.score_us),
            f"#{entry.number}",
        )
        for entry in entries
    ]
    headings = ("rank", *(["week"] if before else []), "participant", "score", "id")
    return _table_page(title, headings, rows, entries, number, note)


def rows_of_each(count: int) -> int:
    """Return how many rows each of several tables has in one card.

    >>> [rows_of_each(count) for count in (2, 6, 25)]
    [10, 7, 1]
    """
    return max(1, min(ROWS, LINES_TOGETHER_MAX // count - 1))


def combined_card(title: str, pages: Mapping[str, Page], rows: int) -> Card:
    r"""Show the first rows of the tables of several GPU types below each other.

    >>> pages = {gpu: paginate("t", [gpu.lower()], 0) for gpu in ("CPU", "H100")}
    >>> combined_card("sort", pages, 10).body
    '**CPU**\ncpu\n**H100**\nh100'
    """
    sections = [f"**{escaped(gpu, 40)}**\n{page.card.body}" for gpu, page in pages.items()]
    count = len(sections)
    while count > 1 and len("\n".join(sections[:count])) > TOGETHER_LENGTH_MAX:
        count -= 1
    missing = ", ".join(list(pages)[count:])
    note = f" · not shown: {shorten(missing, 200)}" if missing else ""
    footer = f"the first {rows} of each; choose one GPU type to see all{note}"
    return Card(escaped(title, 200), "\n".join(sections[:count]), footer=footer)


def other_versions_text(version: int, others: Sequence[OtherVersion]) -> str:
    """Name the other versions of an empty leaderboard that have entries.

    >>> other_versions_text(2, [OtherVersion(problem_version=1, entries_count=12)])
    'Nothing is ranked under version 2 yet. Show version 1 (12) with the option `version`.'
    """
    versions = ", ".join(f"{other.problem_version} ({other.entries_count})" for other in others[:5])
    hint = f"Show version {versions} with the option `version`."
    return f"Nothing is ranked under version {version} yet. {hint}"


def rank_labels(entries: Sequence[Entry]) -> dict[int, str]:
    """Return the ranks of a leaderboard by submission number; `=` marks shared ranks."""
    return {
        entry.number: rank_text(entry.rank, entry.best_rank, is_tied=entry.is_tied)
        for entry in entries
    }


def personal_page(
    title: str, submissions: Sequence[PersonalRecord], number: int, ranks: Mapping[int, str]
) -> Page:
    """Show a user's ranked submissions, newest first, with the ranks of those that count."""
    rows = [
        (
            ranks.get(submission.number, NO_VALUE),
            f"#{submission.number}",
            time_text(submission.score_us),
            one_line(submission.name or NO_VALUE, 12),
            one_line(submission.verdict or submission.outcome or "open", 11),
            f"{submission.received_at:%m-%d}",
        )
        for submission in submissions
    ]
    headings = ("rank", "id", "score", "file", "verdict", "day")
    return _table_page(title, headings, rows, submissions, number)


def _table_page(  # noqa: PLR0913, PLR0917 - a table and its page
    title: str,
    headings: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    records: Sequence[Entry | PersonalRecord],
    number: int,
    note: str = "",
) -> Page:
    page = paginate(title, [""] * len(rows), number, note)
    if not rows:
        return page
    first = page.number * ROWS
    page_rows = [headings, *rows[first : first + ROWS]]
    widths = [max(len(row[column]) for row in page_rows) for column in range(len(headings))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in page_rows
    ]
    table = "\n".join(shorten(line, WIDTH_MAX) for line in lines)
    notes = [
        f"#{record.number}{pooled}"
        for record in records[first : first + ROWS]
        if (pooled := pooled_text(record.pooled_over))
    ]
    return replace(page, card=replace(page.card, body="\n".join((fenced(table), *notes))))


def leaderboards_page(
    problems: Sequence[Problem],
    number: int,
    paused: str = "",
    best: Mapping[tuple[str, str], float] | None = None,
) -> Page:
    """List leaderboards with their deadlines in the reader's time zone and the `best` own scores.

    `paused` is the reason why no submissions are taken, shown above the list.
    """
    scores = best or {}
    lines = []
    for problem in problems:
        gpus = []
        for gpu in problem.gpus:
            score_us = scores.get((problem.slug, gpu))
            own_best = "" if score_us is None else f" (you: {time_text(score_us)})"
            gpus.append(escaped(gpu, 40) + own_best)
        gpus_text = ", ".join(gpus) or "no GPU type"
        lines.append(f"**{escaped(problem.slug)}** · {_state_text(problem)} · {gpus_text}")
    page = paginate("Leaderboards", [shorten(line, LINE_MAX) for line in lines], number)
    if not paused:
        return page
    banner = f"⛔ submissions are stopped: {escaped(paused, 150)}"
    card = replace(page.card, body=f"{banner}\n\n{page.card.body}")
    return replace(page, card=card)


def _state_text(problem: Problem) -> str:
    is_active = problem.state == "active"
    if problem.deadline_at is None:
        return "open" if is_active else problem.state
    return f"{'closes' if is_active else 'closed'} {discord_time(problem.deadline_at, 'R')}"


def queue_line(gpu: str, queue: QueueOfGpu) -> str:
    """Say what a submission for a GPU type would wait for now."""
    reason = f" · {escaped(queue.reason)}" if queue.reason else ""
    agents = f"{queue.agents_online} agents, {queue.agents_busy} busy"
    return f"**{escaped(gpu)}** · {queue.waiting} waiting · {agents}{reason}"
