"""Images of leaderboards and participants for the pages of others: badges and cards, as SVG.

They show what a visitor without a login can see, whoever asks, so that caches may keep them.
"""

import asyncio
import csv
import io
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from ingest.identity.login.web import Web
from ingest.ports import ReadProxy
from ingest.site.leaderboards import LeaderboardAddress, Sizes, read_leaderboard
from ingest.site.reads import PageReads, api_path, find_visitor, read_in_time
from shared.api.leaderboards import Entry, Leaderboard, Leaderboards, PublicParticipant
from shared.api.problems import Problem, Problems
from shared.errors import Refused
from shared.presentation.units import count_text, one_line, rank_text, spread_text, time_text
from shared.reader import ANONYMOUS_READER

IMAGE_S = 300
SEARCH_CHARS_MAX, PROBLEMS_MAX = 100, 200
SVG = "image/svg+xml"
CARD_ROWS_MAX = 5
# At 11 pixels, DejaVu Sans and Verdana are about this wide. The text is fitted to its box.
CHAR_PX, PADDING_PX = 6.6, 16
THEMES = ("light", "dark")
# A file has at most so many entries; programs read further pages as JSON.
CSV_ENTRIES_MAX, CSV_PAGE = 1000, 200
CSV_FIELDS = (
    *("rank", "best_rank", "is_tied", "participant", "score_us", "low_us", "high_us", "grade"),
    *("language", "toolchains", "tier", "level", "number", "received_at"),
)
# Spreadsheets take what begins with these for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Badge(NamedTuple):
    """What a badge says: a label and a value, each with the width of its box in pixels."""

    label: str
    value: str

    @property
    def label_px(self) -> int:
        """The width of the box of the label."""
        return text_px(self.label)

    @property
    def value_px(self) -> int:
        """The width of the box of the value."""
        return text_px(self.value)


class CardRow(NamedTuple):
    """A row of a card; a medal for the first three ranks."""

    rank: int
    rank_text: str
    name: str
    value: str


def text_px(text: str) -> int:
    """Return the width of a box for a text of a badge.

    >>> text_px("warpboard")
    75
    """
    return round(CHAR_PX * len(text)) + PADDING_PX


def make_board_badge(board: Leaderboard) -> Badge:
    """Return the badge of a leaderboard: its best score and who leads."""
    label = f"{one_line(board.title, 40)} on {board.gpu}"
    if not board.items:
        return Badge(label, "no entry yet")
    leader = board.items[0]
    others = ", tied" if leader.is_tied else ""
    return Badge(
        label, f"{time_text(leader.score_us)} by {leader.participant or 'a deleted name'}{others}"
    )


def make_person_badge(person: PublicParticipant) -> Badge:
    """Return the badge of a participant: first places and leaderboards.

    >>> make_person_badge(PublicParticipant(
    ...     participant_id="a", participant="ada", entries=[], records=[], rating=None, as_of=0))
    Badge(label='ada on Warpboard', value='on 0 leaderboards')
    """
    firsts = sum(entry.rank == 1 for entry in person.entries)
    boards = f"on {count_text(len(person.entries), 'leaderboard')}"
    value = f"{count_text(firsts, 'first place')}, {boards}" if firsts else boards
    return Badge(f"{person.participant} on Warpboard", value)


def list_board_rows(entries: Sequence[Entry]) -> list[CardRow]:
    """Return the first entries of a leaderboard as rows of its card."""
    return [
        CardRow(
            entry.rank,
            rank_text(entry.rank, entry.best_rank, is_tied=entry.is_tied),
            one_line(entry.participant or "name deleted", 32),
            spread_text(entry.score_us, entry.interval_us),
        )
        for entry in entries
    ]


def list_person_rows(person: PublicParticipant) -> list[CardRow]:
    """Return the best places of a participant as rows of their card."""
    best = sorted(person.entries, key=lambda entry: (entry.rank, entry.title))[:CARD_ROWS_MAX]
    return [
        CardRow(
            entry.rank,
            rank_text(entry.rank, entry.best_rank, is_tied=entry.is_tied),
            one_line(f"{entry.title} on {entry.gpu}", 36),
            time_text(entry.score_us),
        )
        for entry in best
    ]


def escape_cell(value: object) -> object:
    """Return a value of a CSV file that no spreadsheet takes for a formula.

    >>> escape_cell("=1+1"), escape_cell("ada"), escape_cell(-1.5)
    ("'=1+1", 'ada', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def write_csv(entries: Sequence[Entry]) -> bytes:
    """Return entries as a CSV file. Source: RFC 4180."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(CSV_FIELDS)
    for entry in entries:
        low_us, high_us = entry.interval_us or (None, None)
        values: dict[str, object] = {
            "low_us": low_us,
            "high_us": high_us,
            "toolchains": " ".join(entry.toolchains),
            "received_at": entry.received_at.isoformat(),
        }
        row = [values[name] if name in values else getattr(entry, name) for name in CSV_FIELDS]
        writer.writerow([escape_cell(value) for value in row])
    return text.getvalue().encode()


async def read_entries(reads: PageReads, address: LeaderboardAddress) -> list[Entry]:
    """Read the first entries of a leaderboard, page by page. Raises `Refused` and `Failed`."""
    entries: list[Entry] = []
    cursor = None
    while len(entries) < CSV_ENTRIES_MAX:
        board = await read_leaderboard(reads, address, cursor, Sizes(CSV_PAGE, 0))
        entries += board.items
        cursor = board.next_cursor
        if cursor is None:
            break
    return entries


def find_first_gpu(problem: Problem, boards: Leaderboards) -> str:
    """Return the GPU type to open: the first with entries, else with an agent, else the first."""
    names = [*problem.gpus, *problem.gpus_closed]
    with_entries = {
        line.gpu for line in boards.items if line.problem_version == problem.problem_version
    }
    for known in (with_entries, set(boards.agents_online)):
        for name in names:
            if name in known:
                return name
    return names[0]


def add_badges(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    """Add the images of leaderboards and participants, and the page with what to copy."""
    visitor_reads = PageReads(ranker, ANONYMOUS_READER)

    def image(request: Request, template: str, **values: Any) -> Response:
        theme = request.query_params.get("theme", "")
        values["theme"] = theme if theme in THEMES else THEMES[0]
        data = web.templates.get_template(template).render(values).encode()
        response = web.revalidated(request, data, SVG)
        response.headers["Cache-Control"] = f"public, max-age={IMAGE_S}"
        del response.headers["Vary"]
        return response

    @router.get("/leaderboards/{slug}/{gpu}/badge.svg")
    async def board_badge(request: Request, slug: str, gpu: str) -> Response:
        """The best score of a leaderboard as a badge."""
        address = LeaderboardAddress(slug, gpu)
        board = await read_leaderboard(visitor_reads, address, sizes=Sizes(1, 0))
        return image(request, "badge.svg", badge=make_board_badge(board))

    @router.get("/leaderboards/{slug}/{gpu}/card.svg")
    async def board_card(request: Request, slug: str, gpu: str) -> Response:
        """The first entries of a leaderboard as a card."""
        address = LeaderboardAddress(slug, gpu)
        board = await read_leaderboard(visitor_reads, address, sizes=Sizes(CARD_ROWS_MAX, 0))
        entries_count = sum(
            row.entries_count for row in board.gpu_leaderboards if row.gpu == board.gpu
        )
        return image(
            request,
            "card.svg",
            title=one_line(board.title, 44),
            subtitle=f"on {board.gpu}, {count_text(entries_count, 'entry', 'entries')}",
            rows=list_board_rows(board.items),
        )

    @router.get("/people/{name}/badge.svg")
    async def person_badge(request: Request, name: str) -> Response:
        """The first places of a participant as a badge."""
        person = await _read_person(visitor_reads, name)
        return image(request, "badge.svg", badge=make_person_badge(person))

    @router.get("/people/{name}/card.svg")
    async def person_card(request: Request, name: str) -> Response:
        """The best places of a participant as a card."""
        person = await _read_person(visitor_reads, name)
        return image(
            request,
            "card.svg",
            title=one_line(person.participant, 44),
            subtitle=make_person_badge(person).value,
            rows=list_person_rows(person),
        )

    _add_pages(router, web, ranker)


async def _read_person(reads: PageReads, name: str) -> PublicParticipant:
    return await read_in_time(reads.read(api_path("participants", name), PublicParticipant))


def _add_pages(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    @router.get("/leaderboards/{slug}/{gpu}/badge")
    async def board_page(request: Request, slug: str, gpu: str) -> Response:
        """What to copy to show a leaderboard elsewhere."""
        visitor = await find_visitor(request, web, ranker)
        board = await read_leaderboard(
            visitor.reads, LeaderboardAddress(slug, gpu), sizes=Sizes(1, 0)
        )
        return web.public_page(
            request,
            "embed.html",
            visitor.session,
            has_script=True,
            name=f"{one_line(board.title, 80)} on {board.gpu}",
            target=LeaderboardAddress(board.problem, board.gpu).path(),
        )

    @router.get("/people/{name}/badge")
    async def person_page(request: Request, name: str) -> Response:
        """What to copy to show a participant elsewhere."""
        visitor = await find_visitor(request, web, ranker)
        person = await _read_person(visitor.reads, name)
        return web.public_page(
            request,
            "embed.html",
            visitor.session,
            has_script=True,
            name=one_line(person.participant, 80),
            target=f"/people/{quote(person.participant, safe='')}",
        )

    @router.get("/leaderboards/{slug}/{gpu}/entries.csv")
    async def entries_file(request: Request, slug: str, gpu: str) -> Response:
        """The first entries of a leaderboard as a CSV file, filtered as its page."""
        visitor = await find_visitor(request, web, ranker)
        address = LeaderboardAddress.parse(slug, gpu, request.query_params)
        entries = await read_entries(visitor.reads, address)
        response = web.revalidated(request, write_csv(entries), "text/csv; charset=utf-8")
        response.headers["Content-Disposition"] = 'inline; filename="entries.csv"'
        return response

    @router.get("/leaderboards/{slug}")
    async def first_leaderboard(request: Request, slug: str) -> Response:
        """Go to the first leaderboard of a problem."""
        reads = (await find_visitor(request, web, ranker)).reads
        problems, boards = await read_in_time(
            asyncio.gather(
                reads.read(
                    api_path("problems"),
                    Problems,
                    search=slug[:SEARCH_CHARS_MAX],
                    limit=PROBLEMS_MAX,
                ),
                reads.read(api_path("leaderboards"), Leaderboards, problem=slug),
            )
        )
        problem = next((it for it in problems.items if it.slug == slug.lower()), None)
        if problem is None:
            raise Refused("not_found", f"there is no problem {slug[:100]!r}")
        address = LeaderboardAddress(problem.slug, find_first_gpu(problem, boards))
        return RedirectResponse(address.path(), 307, {"Cache-Control": "no-store"})
