"""Tables as Discord shows them: in a block of one width, ten rows to a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from discord_edge.domain.report import Card
from discord_edge.domain.wishes import Board
from discord_edge.domain.wording import escaped, fenced
from shared.telling.ranks import pooled_text, rank_text
from shared.telling.units import NOTHING, one_line, time_text

ROWS = 10
WIDTH_MAX = 56
# Ten of them and what stands above are a card, however many GPU types there are.
LINE_MAX = 370


@dataclass(frozen=True)
class Page:
    """One page of something, and how many there are."""

    card: Card
    number: int
    count: int


def paged(title: str, lines: Sequence[str], number: int, note: str = "") -> Page:
    """The page with this number, or the nearest that is there.

    >>> paged("t", [str(n) for n in range(11)], 7).card.body
    '10'
    """
    count = max(1, -(-len(lines) // ROWS))
    shown = min(max(number, 0), count - 1)
    body = "\n".join(lines[shown * ROWS : (shown + 1) * ROWS]) or "Nothing is here yet."
    footer = f"Page {shown + 1}/{count}" + (f" · {note}" if note else "")
    return Page(Card(escaped(title, 200), body, footer=footer), shown, count)


def trend(rank: int, before: int | None) -> str:
    """How a rank differs from the one before.

    >>> trend(2, 5), trend(3, 1), trend(4, 4), trend(1, None)
    ('▲3', '▼2', '●', 'new')
    """
    if before is None:
        return "new"
    return "●" if rank == before else f"{'▲' if rank < before else '▼'}{abs(rank - before)}"


def ranking(
    title: str,
    items: Sequence[dict[str, Any]],
    number: int,
    note: str = "",
    before: Mapping[str, int] | None = None,
) -> Page:
    """A leaderboard's page: rank, who, score; `=` marks who shares a rank.

    With the ranks of a week `before`, by participant, it says how each one moved since.
    """
    ranks = placed(items)
    rows = [
        (
            ranks[one["number"]],
            *([trend(one["rank"], before.get(str(one["participant_id"])))] if before else []),
            one_line(str(one.get("participant") or NOTHING), 20 if before else 26),
            time_text(one.get("score_us")),
            f"#{one['number']}",
        )
        for one in items
    ]
    heads = ("rank", *(["week"] if before else []), "participant", "score", "id")
    return _table(title, heads, rows, (number, note), _pooled_notes(items))


def other_versions_text(version: int, others: Sequence[dict[str, Any]]) -> str:
    """Which other versions of an empty leaderboard have entries.

    >>> other_versions_text(2, [{"problem_version": 1, "entries_count": 12}])
    'Nothing is ranked under version 2 yet. Show version 1 (12) with the option `version`.'
    """
    listed = ", ".join(f"{one['problem_version']} ({one['entries_count']})" for one in others[:5])
    there = f"Show version {listed} with the option `version`."
    return f"Nothing is ranked under version {version} yet. {there}"


def _pooled_notes(items: Sequence[dict[str, Any]]) -> list[str]:
    """For each row, over which submissions its score is pooled; empty for a single run."""
    return [
        f"#{one['number']}{pooled}" if (pooled := pooled_text(one.get("pooled_over") or ())) else ""
        for one in items
    ]


def placed(items: Sequence[dict[str, Any]]) -> dict[int, str]:
    """The ranks of a leaderboard by the number of the submission; `=` marks who shares one."""
    return {
        one["number"]: rank_text(one["rank"], is_tied=bool(one.get("is_tied"))) for one in items
    }


def personal(
    title: str,
    items: Sequence[dict[str, Any]],
    number: int,
    ranks: Mapping[int, str] | None = None,
) -> Page:
    """One's own ranked submissions, the newest first, with the rank of what stands."""
    rows = [
        (
            (ranks or {}).get(one["number"], NOTHING),
            f"#{one['number']}",
            time_text(one.get("score_us")),
            one_line(str(one.get("name") or NOTHING), 12),
            one_line(str(one.get("verdict") or one.get("outcome") or "open"), 11),
            str(one.get("received_at") or NOTHING)[5:10],
        )
        for one in items
    ]
    return _table(
        title,
        ("rank", "id", "score", "file", "verdict", "day"),
        rows,
        (number, ""),
        _pooled_notes(items),
    )


def _table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    where: tuple[int, str],
    notes: Sequence[str] = (),
) -> Page:
    """A page of rows, and below them the notes on those that have one."""
    number, note = where
    page = paged(title, [""] * len(rows), number, note)
    if not rows:
        return page
    first = page.number * ROWS
    shown = [heads, *rows[first : first + ROWS]]
    widths = [max(len(row[n]) for row in shown) for n in range(len(heads))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
    cut = "\n".join(
        line if len(line) <= WIDTH_MAX else line[: WIDTH_MAX - 1] + "…" for line in lines
    )
    below = [note for note in notes[first : first + ROWS] if note]
    body = "\n".join((fenced(cut), *below))
    card = Card(page.card.title, body, footer=page.card.footer)
    return Page(card, page.number, page.count)


def boards(
    found: Sequence[Board],
    number: int,
    paused: str = "",
    best: Mapping[tuple[str, str], float] | None = None,
) -> Page:
    """The leaderboards: when each closes on the reader's own clock, the reader's `best` scores.

    Why nothing is taken in stands above them.

    >>> sort = Board("sort", ("CPU",), deadline_at="2026-01-01T00:00:00+00:00")
    >>> boards([sort], 0, best={("sort", "CPU"): 12.5}).card.body
    '**sort** · closes <t:1767225600:R> · CPU (you: 12.5 µs)'
    """
    own = best or {}
    lines = [
        " · ".join(
            (
                f"**{escaped(one.slug)}**",
                _closes(one),
                ", ".join(_gpu(one.slug, gpu, own) for gpu in one.gpus) or "no GPU type",
            )
        )
        for one in found
    ]
    cut = [one if len(one) <= LINE_MAX else one[: LINE_MAX - 1] + "…" for one in lines]
    page = paged("Leaderboards", cut, number)
    if not paused:
        return page
    banner = f"⛔ submissions are stopped: {escaped(paused, 150)}"
    card = replace(page.card, body=f"{banner}\n\n{page.card.body}")
    return replace(page, card=card)


def _gpu(slug: str, gpu: str, best: Mapping[tuple[str, str], float]) -> str:
    own_us = best.get((slug, gpu))
    return escaped(gpu, 40) + (f" (you: {time_text(own_us)})" if own_us is not None else "")


def _closes(board: Board) -> str:
    if board.deadline_at is None:
        return "open" if board.state == "active" else board.state
    at = int(datetime.fromisoformat(board.deadline_at).timestamp())
    return f"{'closes' if board.state == 'active' else 'closed'} <t:{at}:R>"


def queue(gpu: str, said: dict[str, Any]) -> str:
    """What whoever submits for a GPU type now would wait for, in a line."""
    waiting, online = said.get("waiting") or 0, said.get("agents_online") or 0
    why = f" · {escaped(str(said['reason']))}" if said.get("reason") else ""
    busy = said.get("agents_busy") or 0
    return f"**{escaped(gpu)}** · {waiting} waiting · {online} agents, {busy} busy{why}"
