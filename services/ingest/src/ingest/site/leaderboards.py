"""The pages of a leaderboard, with its preview image and its feed of records.

The page has entries with their intervals, ties in words, and records over time. Another page has
the times of each case.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response

from ingest.identity.login.web import SCRIPT_POLICY, Web
from ingest.ports import ReadProxy
from ingest.site.charts import (
    DELETED,
    RECORDS_MAX,
    Dot,
    IntervalBar,
    LogScale,
    PreviewLine,
    Series,
    draw_preview,
    draw_records,
    make_bar,
    make_scale,
)
from ingest.site.page_cache import PageAddress, PageCache
from ingest.site.reads import (
    PageReads,
    api_path,
    find_visitor,
    parse_as_of,
    read_in_time,
    read_s_max,
)
from shared.api.cases import Baseline, Case
from shared.api.leaderboards import (
    CaseLeaderboards,
    Entry,
    EntryCases,
    Leaderboard,
    LeaderboardCases,
    PracticeLeaderboard,
)
from shared.errors import Refused
from shared.presentation.units import one_line, rank_text, spread_text, time_text

# With its style sheet and scripts, such a page has at most 200 kB.
ENTRIES_MAX = 50
RECORDS_LISTED_MAX = 50
FEED_RECORDS_MAX = 50
# The chart shows how so many of the first entries became faster.
PROGRESS_MAX = 8
PODIUM_MAX = 3
# More are rows of the table only.
BASELINES_MAX = 2
PREVIEW_ENTRIES_MAX = 3
PRACTICE_MAX = 200
CASE_ENTRIES_MAX = 20
CASE_PLACES_MAX = 5
CASES_MAX = 50
VERSION_MAX = 2**31 - 1
# So that the intervals of the first entries can be told apart beside entries ten times slower.
STRETCH = 0.5


class LeaderboardAddress(NamedTuple):
    """A leaderboard with what is shown of it: a version, an instant, a language, a toolchain.

    None is the newest version, now, and all entries.
    """

    slug: str
    gpu: str
    version: int | None = None
    as_of: datetime | None = None
    language: str | None = None
    toolchain: str | None = None

    @classmethod
    def parse(cls, slug: str, gpu: str, query: Mapping[str, str]) -> "LeaderboardAddress":
        """Return the address that a query asks for. Raises `Refused`."""
        return cls(
            slug,
            gpu,
            parse_version(query.get("version", "")),
            parse_as_of(query.get("as_of", "")),
            query.get("language") or None,
            query.get("toolchain") or None,
        )

    @property
    def is_filtered(self) -> bool:
        """Whether only some entries are shown."""
        return bool(self.language or self.toolchain)

    def path(self, page: str = "", **changes: Any) -> str:
        """Return the address of the page or of another page of it, with changes.

        >>> LeaderboardAddress("copy", "H100", 2).path("/cases")
        '/leaderboards/copy/H100/cases?version=2'
        """
        address = self._replace(**changes)
        query = {
            "version": address.version,
            "as_of": address.as_of and address.as_of.isoformat(),
            "language": address.language,
            "toolchain": address.toolchain,
        }
        text = urlencode({name: value for name, value in query.items() if value})
        path = f"/leaderboards/{quote(address.slug, safe='')}/{quote(address.gpu, safe='')}{page}"
        return f"{path}?{text}" if text else path


class LeaderboardRow(NamedTuple):
    """A row of the table: an entry or a baseline, which has no rank."""

    entry: Entry | None
    baseline: Baseline | None
    bar: IntervalBar | None
    is_own: bool = False


def parse_version(text: str) -> int | None:
    """Return a version from a form, None if it is empty. Raises `Refused`.

    >>> parse_version("3"), parse_version("")
    (3, None)
    """
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= VERSION_MAX):
        message = f"version: expected a number such as 2, not {text[:20]!r}"
        raise Refused("invalid_request", message, "version")
    return int(text)


def merge_rows(board: Leaderboard, account: str | None) -> list[LeaderboardRow]:
    """Return the entries of a page with the measured baselines between them, by score.

    Every page has all baselines, so that each can be compared with them.
    """
    scale = _page_scale(board)
    waiting = sorted(
        (baseline for baseline in board.baselines if baseline.score_us is not None),
        key=lambda baseline: baseline.score_us or inf,
    )
    rows = []
    for entry in board.items:
        while waiting and (waiting[0].score_us or inf) < entry.score_us:
            rows.append(_baseline_row(scale, waiting.pop(0)))
        rows.append(
            LeaderboardRow(
                entry,
                None,
                make_bar(scale, entry.score_us, entry.interval_us),
                is_own=entry.participant_id == account,
            )
        )
    return rows + [_baseline_row(scale, baseline) for baseline in waiting]


def _baseline_row(scale: LogScale, baseline: Baseline) -> LeaderboardRow:
    return LeaderboardRow(None, baseline, make_bar(scale, baseline.score_us, baseline.interval_us))


def _page_scale(board: Leaderboard) -> LogScale:
    """Return the axis of a page's bars: from the lowest to the highest end of an interval."""
    times_us: list[float | None] = []
    all_rows: list[Entry | Baseline] = [*board.items, *board.baselines]
    for timed in all_rows:
        times_us += timed.interval_us or (timed.score_us,)
    return make_scale(times_us, STRETCH)


class CaseColumn(NamedTuple):
    """A case of a leaderboard, and the best time of the entries that are shown."""

    name: str
    best_us: float | None


class CaseTimes(NamedTuple):
    """An entry, and its times of the cases; None for a case that it does not have."""

    entry: EntryCases
    cases: Sequence[Case | None]


def list_case_times(
    entries: Sequence[EntryCases],
) -> tuple[Sequence[CaseColumn], Sequence[CaseTimes]]:
    """Return the cases of a leaderboard as columns, and a row for each entry."""
    by_entry = [{case.name: case for case in entry.cases} for entry in entries]
    names = list(dict.fromkeys(name for cases in by_entry for name in cases))[:CASES_MAX]
    times_us = {
        name: [cases[name].time_us or inf for cases in by_entry if name in cases] for name in names
    }
    columns = [CaseColumn(name, min(times_us[name])) for name in names]
    rows = [
        CaseTimes(entry, [cases.get(name) for name in names])
        for entry, cases in zip(entries, by_entry, strict=True)
    ]
    return columns, rows


class Sizes(NamedTuple):
    """How much of a leaderboard is read: entries, records, and progress of so many entries."""

    entries: int = ENTRIES_MAX
    records: int = RECORDS_MAX
    progress: int = 0


PAGE = Sizes(progress=PROGRESS_MAX)
PAGE_TEMPLATE = "leaderboard.html"


async def read_leaderboard(
    reads: PageReads, address: LeaderboardAddress, cursor: str | None = None, sizes: Sizes = PAGE
) -> Leaderboard:
    """Read a leaderboard with its records and progress. Raises `Refused` and `Failed`."""
    path = api_path("leaderboards", address.slug, address.gpu)
    return await read_in_time(
        reads.read(path, Leaderboard, **_leaderboard_query(address, cursor, sizes)),
        read_s_max(address.as_of),
    )


def _leaderboard_query(
    address: LeaderboardAddress, cursor: str | None, sizes: Sizes
) -> dict[str, object]:
    return {
        "limit": sizes.entries,
        "records": sizes.records,
        "progress": sizes.progress,
        "version": address.version,
        "as_of": address.as_of and address.as_of.isoformat(),
        "language": address.language,
        "toolchain": address.toolchain,
        "cursor": cursor,
    }


def list_progress(board: Leaderboard) -> list[Series]:
    """Return the best scores over time of the first entries of a page, as lines of a chart."""
    by_account = {line.participant_id: line.points for line in board.progress}
    return [
        Series(
            entry.participant or DELETED,
            [
                Dot(
                    point.at,
                    point.score_us,
                    time_text(point.score_us),
                    f"/submissions/{point.number}",
                )
                for point in by_account[entry.participant_id]
            ],
            str(index),
        )
        for index, entry in enumerate(
            entry for entry in board.items if entry.participant_id in by_account
        )
    ]


def _leaderboard_values(
    board: Leaderboard, requested: LeaderboardAddress, account: str | None
) -> dict[str, Any]:
    """Return the values of the page of a leaderboard."""
    address = requested._replace(slug=board.problem, gpu=board.gpu)
    versions = [board.problem_version, *(row.problem_version for row in board.other_versions)]
    records = [
        record for record in board.records if address.as_of is None or record.at <= address.as_of
    ]
    tabs = [
        gpu
        for gpu in board.gpu_leaderboards
        if gpu.agents_online or gpu.entries_count or gpu.gpu == board.gpu
    ]
    progress = list_progress(board)
    return {
        "board": board,
        "address": address,
        "rows": merge_rows(board, account),
        "scale": _page_scale(board),
        "is_all_provisional": all(entry.is_provisional for entry in board.items),
        "own_account": account,
        "baseline_names": list(
            dict.fromkeys(name for entry in board.items for name in entry.vs_baseline)
        )[:BASELINES_MAX],
        "has_yardstick": any(entry.speedup is not None for entry in board.items),
        "has_roofline": any(entry.roofline_fraction is not None for entry in board.items),
        "versions": sorted(versions, reverse=True),
        "tabs": tabs,
        "gpus_without_agents": [row.gpu for row in board.gpu_leaderboards if row not in tabs],
        "unmeasured": [row for row in board.baselines if row.score_us is None],
        "records": records[:RECORDS_LISTED_MAX],
        "chart": draw_records(records, progress, board.baselines),
        "progress": progress,
        "levels": [
            _page_scale(board).position(baseline.score_us)
            for baseline in board.baselines
            if baseline.score_us is not None
        ],
        "podium": board.items[:PODIUM_MAX],
        "has_choices": address.is_filtered
        or board.next_cursor is not None
        or len({(entry.language, *entry.toolchains) for entry in board.items}) > 1,
        "languages": _choices(
            address.language, [entry.language for entry in board.items], board.languages
        ),
        "toolchains": _choices(
            address.toolchain, [name for entry in board.items for name in entry.toolchains]
        ),
    }


def _choices(
    chosen: str | None, shown: Sequence[str | None], accepted: Sequence[str] = ()
) -> list[str]:
    """Return the values of a filter: those shown, those accepted, and the chosen one."""
    return sorted({name for name in (chosen, *shown, *accepted) if name})


def add_leaderboard_pages(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    """Add the pages of a leaderboard."""
    pages = PageCache(ranker)

    @router.get("/leaderboards/{slug}/{gpu}")
    async def leaderboard(request: Request, slug: str, gpu: str) -> Response:
        """A leaderboard, now or at an instant, page by page; the newest page follows changes."""
        requested = LeaderboardAddress.parse(slug, gpu, request.query_params)
        cursor = request.query_params.get("cursor") or None

        def values(board: Leaderboard, account: str | None = None) -> dict[str, Any]:
            is_live = requested.as_of is None and cursor is None
            fields = _leaderboard_values(board, requested, account)
            return fields | {"is_next": cursor is not None, "is_live": is_live}

        visitor = await find_visitor(request, web, ranker)
        if visitor.session is None and not web.read_notice(request):

            def render(board: Leaderboard) -> bytes:
                return web.render_public(request, PAGE_TEMPLATE, None, **values(board)).encode()

            url = f"{request.url.path}?{request.url.query}"
            path = api_path("leaderboards", slug, gpu)
            address = PageAddress.make(url, path, **_leaderboard_query(requested, cursor, PAGE))
            page = await read_in_time(pages.find(address, render), read_s_max(requested.as_of))
            return web.revalidated(request, page.data, "text/html", SCRIPT_POLICY, page.etag)
        board = await read_leaderboard(visitor.reads, requested, cursor)
        fields = values(board, visitor.account)
        return web.public_page(request, PAGE_TEMPLATE, visitor.session, has_script=True, **fields)

    @router.get("/leaderboards/{slug}/{gpu}/cases")
    async def cases(request: Request, slug: str, gpu: str) -> Response:
        """Who is fastest at each case, and the times of each case of the fastest entries."""
        version = parse_version(request.query_params.get("version", ""))
        visitor = await find_visitor(request, web, ranker)
        path = api_path("leaderboards", slug, gpu, "cases")
        board = await read_in_time(
            visitor.reads.read(path, LeaderboardCases, version=version, limit=CASE_ENTRIES_MAX)
        )
        by_case = await read_in_time(
            visitor.reads.read(
                api_path("leaderboards", slug, gpu, "best-times"),
                CaseLeaderboards,
                version=version,
                limit=CASE_PLACES_MAX,
            )
        )
        columns, rows = list_case_times(board.items)
        values: dict[str, Any] = {
            "board": board,
            "address": LeaderboardAddress(board.problem, board.gpu, version),
            "columns": columns,
            "rows": rows,
            "by_case": by_case.items,
        }
        return web.public_page(request, "cases.html", visitor.session, **values)

    @router.get("/leaderboards/{slug}/{gpu}/practice")
    async def practice(request: Request, slug: str, gpu: str) -> Response:
        """The practice leaderboard: what was received after the deadline."""
        version = parse_version(request.query_params.get("version", ""))
        visitor = await find_visitor(request, web, ranker)
        board = await read_in_time(
            visitor.reads.read(
                api_path("leaderboards", slug, gpu, "practice"),
                PracticeLeaderboard,
                version=version,
                limit=PRACTICE_MAX,
            )
        )
        values: dict[str, Any] = {
            "board": board,
            "entries": board.items,
            "address": LeaderboardAddress(board.problem, board.gpu, version),
            "own_account": visitor.account,
            "may_submit": board.is_open,
        }
        return web.public_page(request, "practice.html", visitor.session, has_script=True, **values)

    _add_previews(router, web, ranker)


def _add_previews(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    @router.get("/leaderboards/{slug}/{gpu}/feed.atom")
    async def feed(request: Request, slug: str, gpu: str) -> Response:
        """The newest standing records as an Atom feed."""
        visitor = await find_visitor(request, web, ranker)
        board = await read_leaderboard(
            visitor.reads, LeaderboardAddress(slug, gpu), sizes=Sizes(1, FEED_RECORDS_MAX)
        )
        text = web.templates.get_template("feed.xml").render(
            board=board,
            address=LeaderboardAddress(board.problem, board.gpu),
            records=[record for record in board.records if record.is_standing],
        )
        return web.revalidated(request, text.encode(), "application/atom+xml")

    @router.get("/leaderboards/{slug}/{gpu}/card.png")
    async def preview(request: Request, slug: str, gpu: str) -> Response:
        """The image that other sites show beside a link to the leaderboard."""
        visitor = await find_visitor(request, web, ranker)
        board = await read_leaderboard(
            visitor.reads, LeaderboardAddress(slug, gpu), sizes=Sizes(PREVIEW_ENTRIES_MAX, 0)
        )
        lines = tuple(
            PreviewLine(
                rank_text(entry.rank, entry.best_rank, is_tied=entry.is_tied),
                one_line(entry.participant or "name deleted", 40),
                spread_text(entry.score_us, entry.interval_us),
            )
            for entry in board.items
        )
        title = one_line(board.title, 60)
        image = await asyncio.to_thread(draw_preview, title, f"on {board.gpu}", lines)
        return web.revalidated(request, image, "image/png")
