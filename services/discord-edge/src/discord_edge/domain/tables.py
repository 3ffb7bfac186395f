"""Tables as Discord shows them: in a block of one width, ten rows to a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from discord_edge.domain.report import Card
from discord_edge.domain.wishes import Board
from discord_edge.domain.wording import escaped, fenced
from shared.telling.units import NOTHING, one_line, time_text

ROWS = 10
WIDTH_MAX = 56


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


def ranking(title: str, items: Sequence[dict[str, Any]], number: int, note: str = "") -> Page:
    """A leaderboard's page: rank, who, score; `=` marks who shares a rank."""
    rows = [
        (
            f"{'=' if one.get('is_tied') else ''}{one['rank']}",
            one_line(str(one.get("participant") or NOTHING), 26),
            time_text(one.get("score_us")),
            f"#{one['number']}",
        )
        for one in items
    ]
    return _table(title, ("rank", "participant", "score", "id"), rows, (number, note))


def personal(title: str, items: Sequence[dict[str, Any]], number: int) -> Page:
    """One's own ranked submissions, the newest first."""
    rows = [
        (
            f"#{one['number']}",
            time_text(one.get("score_us")),
            one_line(str(one.get("name") or NOTHING), 20),
            one_line(str(one.get("verdict") or one.get("outcome") or "open"), 14),
        )
        for one in items
    ]
    return _table(title, ("id", "score", "file", "verdict"), rows, (number, ""))


def _table(
    title: str,
    heads: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    where: tuple[int, str],
) -> Page:
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
    card = Card(page.card.title, fenced(cut), footer=page.card.footer)
    return Page(card, page.number, page.count)


def boards(found: Sequence[Board], number: int, paused: str = "") -> Page:
    """The leaderboards, with when each closes on the reader's own clock, and why all are stopped.

    >>> boards([Board("sort", ("CPU",), deadline_at="2026-01-01T00:00:00+00:00")], 0).card.body
    '**sort** · closes <t:1767225600:R> · CPU'
    """
    lines = [
        " · ".join(
            (
                f"**{escaped(one.slug)}**",
                _closes(one),
                escaped(", ".join(one.gpus) or "no GPU type"),
            )
        )
        for one in found
    ]
    note = f"submissions are stopped: {one_line(paused, 200)}" if paused else ""
    return paged("Leaderboards", lines, number, note)


def _closes(board: Board) -> str:
    if board.deadline_at is None:
        return "open" if board.state == "active" else board.state
    at = int(datetime.fromisoformat(board.deadline_at).timestamp())
    return f"{'closes' if board.state == 'active' else 'closed'} <t:{at}:R>"


def queue(gpu: str, said: dict[str, Any]) -> str:
    """What whoever submits for a GPU type now would wait for, in a line."""
    ahead, online = said.get("ahead") or 0, said.get("agents_online") or 0
    why = f" · {escaped(str(said['reason']))}" if said.get("reason") else ""
    busy = said.get("agents_busy") or 0
    return f"**{escaped(gpu)}** · {ahead} waiting · {online} agents, {busy} busy{why}"
