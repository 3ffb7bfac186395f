"""Leaderboards: live, at a past moment, and paged consistently."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request
from msgspec import convert
from pydantic import Field

from ranker.archive.postgres import ArchiveReader
from ranker.domain.places import assign_places
from ranker.domain.rows import LeaderboardKey
from ranker.domain.score import add_interval
from ranker.domain.standings import Standings
from ranker.http.access import RANKED, CurrentReader, ReaderView, ReadSources
from ranker.http.cases import make_goals
from ranker.http.past import PastFolds
from ranker.http.problems import problem_row
from ranker.http.queues import count_agents, describe_gpus
from ranker.http.responses import (
    CURSOR_CHARS_MAX,
    LIMIT_MAX,
    Cursor,
    ProblemVersion,
    QueryParams,
    cursor_made_at,
    decode_cursor,
    encode_cursor,
    expired_cursor,
    json_response,
)
from ranker.service.contests import read_practice
from ranker.service.decisions import Reads
from ranker.service.leaderboard import (
    RANKED_MAX,
    PlacedEntry,
    key_values,
    make_scored_entries,
    rank_top,
    read_ladder_before,
    read_page,
)
from shared.api import leaderboards as models
from shared.api.audits import LeaderboardRow
from shared.clock import now
from shared.errors import Refused
from shared.events import SubmissionFinished
from shared.http import DocumentedRoute, TypedResponse
from shared.json_types import InstantOrNaive
from shared.problems.submission_file import language_of

# Leaderboards whose next pages may be requested; each has at most RANKED_MAX rows.
SNAPSHOTS_MAX = 100
ROWS_MAX = 200_000
LEADERS_MAX = 3
RECORDS_MAX = 40
PROGRESS_MAX = 20
# The places among which a page of one language or toolchain looks for entries.
FILTERED_MAX = 1000
FILTER_CHARS_MAX = 40
SLUG_LENGTH_MAX = 95
LIVE_NAMES = (
    *("participant", "tier", "level", "file_name", "has_several_files", "toolchains"),
    *("policy", "is_withdrawn", "is_consented"),
)
ROW_FIELDS = (
    *("rank", "best_rank", "is_tied", "submission", "number", "pooled_over", "score_us", "error"),
    *("freedom", "delta", "received_at", "duel", "confirmation"),
)

Row = dict[str, Any]


class LeaderboardCursor(Cursor, frozen=True, kw_only=True, tag="board"):
    """Where a leaderboard continues; `board` is a hash that identifies it."""

    board: str
    offset: int
    at: datetime | None = None
    best_us: float | None = None


class PageRequest(NamedTuple):
    """The requested leaderboard, offset and instant (None is now), and the first entry's score."""

    board: LeaderboardKey
    limit: int
    offset: int = 0
    at: datetime | None = None
    as_of: int | None = None
    best_us: float | None = None


class PageRows(NamedTuple):
    """The places and scores on a page of a leaderboard at a sequence, and whether more follows."""

    as_of: int
    rows: list[Row]
    is_more: bool


@dataclass
class LeaderboardCache:
    """Leaderboards that were ranked again for a page, stored for the next pages."""

    leaderboards: OrderedDict[tuple[LeaderboardKey, int], list[PlacedEntry]] = field(
        default_factory=OrderedDict
    )
    rows: int = 0

    def keep(self, board: LeaderboardKey, seq: int, placed: list[PlacedEntry]) -> None:
        """Store a leaderboard; the oldest are dropped when there are too many."""
        if (board, seq) in self.leaderboards:
            return
        self.leaderboards[board, seq] = placed
        self.rows += len(placed)
        while len(self.leaderboards) > SNAPSHOTS_MAX or self.rows > ROWS_MAX:
            _, dropped = self.leaderboards.popitem(last=False)
            self.rows -= len(dropped)


def parse_page_request(
    board: LeaderboardKey, limit: int, at: datetime | None, cursor: str | None
) -> PageRequest:
    """Parse a page request, from the cursor if there is one. Raises Refused."""
    if cursor is None:
        return PageRequest(board, limit, 0, at)
    read = decode_cursor(cursor, LeaderboardCursor)
    if read.board != _hash_key(board) or not 0 < read.offset <= RANKED_MAX:
        raise Refused("bad_cursor", "the cursor is from another list", "cursor")
    at = require_zone(read.at)
    return PageRequest(board, limit, read.offset, at, read.as_of, read.best_us)


def find_best_us(request: PageRequest, page: PageRows) -> float | None:
    """The score of the leaderboard's first entry, None if there is none."""
    if request.offset == 0 and page.rows:
        return float(page.rows[0]["score_us"])
    return request.best_us


def next_cursor(request: PageRequest, page: PageRows) -> str | None:
    """The cursor of the next page, None after the last."""
    if not page.is_more:
        return None
    cursor = LeaderboardCursor(
        made_at=cursor_made_at(),
        as_of=page.as_of,
        board=_hash_key(request.board),
        offset=request.offset + request.limit,
        at=request.at,
        best_us=find_best_us(request, page),
    )
    return encode_cursor(cursor)


def end_page(request: PageRequest, page: PageRows, submission: str) -> tuple[PageRequest, PageRows]:
    """A page that ends with the entry of a submission, so that the next one begins behind it."""
    places = [row["submission"] for row in page.rows].index(submission) + 1
    return request._replace(limit=places), page._replace(is_more=True)


def _hash_key(board: LeaderboardKey) -> str:
    return hashlib.sha256("/".join(map(str, board)).encode()).hexdigest()[:16]


def require_zone(at: datetime | None) -> datetime | None:
    """Check that an instant has a time zone. Raises Refused."""
    if at is not None and at.tzinfo is None:
        raise Refused("invalid_request", f"as_of {at} has no time zone: end it with Z", "as_of")
    return at


class ArchivedLeaderboards:
    """Leaderboards at past instants."""

    def __init__(self, archive: ArchiveReader | None) -> None:
        self._folds = PastFolds(archive, "leaderboards")

    async def board(
        self, board: LeaderboardKey, at: datetime, limit: int
    ) -> tuple[int, list[dict[str, Any]]]:
        """The last sequence at that instant and the rows, best first. Raises Refused or Failed."""
        state = Standings()
        seq = await self._folds.fold(
            lambda archive: archive.read_past(board.problem, board.gpu, at), state.fold
        )
        results = state.results.get(board, {})
        return seq, [
            _make_past_row(row, results[row.submission]) for row in state.board(board, at)[:limit]
        ]


def _make_past_row(row: LeaderboardRow, result: SubmissionFinished) -> dict[str, Any]:
    low, high = result.interval_us or (None, None)
    run_values = {"run_us": result.score_us, "low_us": low, "high_us": high}
    grading = {"grade": result.grade, "is_provisional": result.is_provisional}
    grading["yardstick_us"] = result.yardstick_us
    pooled_over = list(row.pooled_over) if len(row.pooled_over) > 1 else []
    fields = {name: getattr(row, name) for name in ROW_FIELDS} | {"pooled_over": pooled_over}
    fields["participant_id"] = row.account
    return fields | run_values | grading


@dataclass
class PageReader:
    """Reads the pages of leaderboards: now, as an earlier page was read, or at a past instant."""

    reads: Reads
    past: ArchivedLeaderboards
    snapshots: LeaderboardCache = field(default_factory=LeaderboardCache)

    async def read(self, request: PageRequest) -> PageRows:
        """Read a page. Raises Refused or Failed."""
        if request.at is None:
            return await self._read_now(request)
        end = request.offset + request.limit
        seq, rows = await self.past.board(request.board, request.at, end + 1)
        return PageRows(seq, rows[request.offset : end], len(rows) > end)

    async def _read_now(self, request: PageRequest) -> PageRows:
        """The live leaderboard, or the next page of a leaderboard read before."""
        end = request.offset + request.limit
        seq = request.as_of
        placed = None if seq is None else self.snapshots.leaderboards.get((request.board, seq))
        if placed is None:
            positions = range(request.offset, end)
            page = await read_page(self.reads, request.board, positions, now(), request.as_of)
            seq = page.seq if request.as_of is None else request.as_of
            if page.holds:
                rows = [_make_row(placed) for placed in page.placed]
                return PageRows(seq, rows, min(page.total, RANKED_MAX) > end)
            placed = await self._rank_again(request)
            self.snapshots.keep(request.board, seq, placed)
        assert seq is not None, "every page has a sequence"
        rows = [_make_row(entry) for entry in placed[request.offset : end]]
        return PageRows(seq, rows, len(placed) > end)

    async def _rank_again(self, request: PageRequest) -> list[PlacedEntry]:
        if request.as_of is None:
            return await rank_top(self.reads, request.board, RANKED_MAX, now())
        ladder = await read_ladder_before(self.reads, request.board, RANKED_MAX, request.as_of)
        if not ladder:
            raise expired_cursor()
        rows = {row["number"]: row for row in ladder}
        return [
            PlacedEntry(place, rows[place.number])
            for place in assign_places(make_scored_entries(ladder))
        ]


async def make_entries(
    reads: Reads, board: LeaderboardKey, placed_entries: Sequence[PlacedEntry]
) -> list[Row]:
    """The rows that a leaderboard shows for entries with places. Raises Failed."""
    rows = [_make_row(placed) for placed in placed_entries]
    submissions = [row["submission"] for row in rows]
    shown_rows = await reads.rows("shown", **key_values(board), submissions=submissions)
    return _add_shown(rows, shown_rows)


def _make_row(placed: PlacedEntry) -> Row:
    entry, place = placed.row, placed.place
    row = {name: entry[name] for name in ("submission", "score_us", "error", "freedom", "delta")}
    row["pooled_over"] = entry["pooled_over"] if len(entry["pooled_over"]) > 1 else []
    rank_fields = {"rank": place.rank, "best_rank": place.best_rank, "is_tied": place.is_tied}
    return row | rank_fields | {"duel": place.duel}


def _add_shown(
    rows: Sequence[Row], shown_rows: Sequence[Row], *, are_past: bool = False
) -> list[Row]:
    """Add to rows with places and scores what is shown of their submissions.

    A live row without it is left out: it changed between the two reads.
    """
    details: dict[str, Row] = {}
    if are_past:
        details = {row["submission"]: dict.fromkeys(LIVE_NAMES) for row in rows}
    details |= {row["submission"]: row for row in shown_rows}
    return [
        add_interval(details[row["submission"]] | row)
        for row in rows
        if row["submission"] in details
    ]


class LeaderboardsQuery(QueryParams):
    """The problem whose leaderboards to list, by default all, and how many entries and records."""

    problem: Annotated[str, Field(max_length=SLUG_LENGTH_MAX)] | None = None
    top: Annotated[int, Field(ge=0, le=LEADERS_MAX)] = 0
    records: Annotated[int, Field(ge=0, le=RECORDS_MAX)] = 0


class RecordsQuery(QueryParams):
    """The version and number of records to list."""

    version: ProblemVersion = None
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = 100


class LeaderboardQuery(RecordsQuery):
    """The page of a leaderboard, its instant (`at` is an alias of `as_of`), and what is beside it.

    The records are those of now, also in the past. A page of one language or toolchain has the
    matching entries of at most 1,000 places, and may be empty although another one follows.
    """

    records: Annotated[int, Field(ge=0, le=LIMIT_MAX)] = 0
    progress: Annotated[int, Field(ge=0, le=PROGRESS_MAX)] = 0
    language: Annotated[str, Field(max_length=FILTER_CHARS_MAX)] | None = None
    toolchain: Annotated[str, Field(max_length=FILTER_CHARS_MAX)] | None = None
    as_of: InstantOrNaive | None = None
    at: InstantOrNaive | None = None
    cursor: Annotated[str, Field(max_length=CURSOR_CHARS_MAX)] | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether only some entries are asked for."""
        return self.language is not None or self.toolchain is not None

    def accepts(self, row: Row) -> bool:
        """Whether an entry has the language and the toolchain."""
        is_language = self.language in (None, find_language(row))
        return is_language and (
            self.toolchain is None or self.toolchain in (row["toolchains"] or ())
        )


def find_language(row: Row) -> str | None:
    """The language of an entry; None if it is no longer stored."""
    return None if row["file_name"] is None else language_of(row["file_name"])


def leaderboards_router(sources: ReadSources) -> APIRouter:
    """The routes of leaderboards and their pages."""
    router = APIRouter(route_class=DocumentedRoute)

    @router.get("/v1/leaderboards")
    async def list_leaderboards(
        reader: CurrentReader, request: Request, query: Annotated[LeaderboardsQuery, Query()]
    ) -> TypedResponse[models.Leaderboards]:
        """List every leaderboard that has an entry, or those of one problem."""
        seq = await read_checkpoint(sources.reads)
        problem = None if query.problem is None else query.problem.lower()
        filters = {"problem": problem, "top": query.top, "records": query.records}
        rows = await sources.view(reader).rows("leaderboards", **filters)
        items = convert(rows, list[models.LeaderboardLine])
        body = models.Leaderboards(items=items, agents_online=count_agents(sources.live), as_of=seq)
        return json_response(request, body, seq)

    _add_leaderboard(router, sources)
    _add_practice(router, sources)
    return router


def _add_leaderboard(router: APIRouter, sources: ReadSources) -> None:
    pages = PageReader(sources.reads, ArchivedLeaderboards(sources.archive))

    @router.get("/v1/leaderboards/{slug}/{gpu}")
    async def read_leaderboard(
        request: Request,
        reader: CurrentReader,
        slug: str,
        gpu: str,
        query: Annotated[LeaderboardQuery, Query()],
    ) -> TypedResponse[models.Leaderboard]:
        """One leaderboard, best first; tied entries share a rank."""
        view = sources.view(reader)
        problem, board = await find_leaderboard(view, slug, gpu, query.version)
        page_request = parse_page_request(
            board, query.limit, require_zone(query.as_of or query.at), query.cursor
        )
        if query.is_filtered:
            page_request = page_request._replace(limit=FILTERED_MAX)
        page = await pages.read(page_request)
        (details,) = await view.rows(
            "leaderboard_details",
            **key_values(board),
            submissions=[row["submission"] for row in page.rows],
            followed=[row["submission"] for row in page.rows[: query.progress]],
            limit=query.records,
            at=now(),
            until=page_request.at,
        )
        is_past = page_request.at is not None
        rows = _add_shown(page.rows, details["shown"], are_past=is_past)
        if query.is_filtered:
            matching = [row for row in rows if query.accepts(row)]
            rows = matching[: query.limit]
            if len(matching) > query.limit:
                page_request, page = end_page(page_request, page, rows[-1]["submission"])
        best_us = find_best_us(page_request, page)
        goals = make_goals(view, board, details, None if is_past else best_us)
        versions = problem["leaderboards"]
        body = models.Leaderboard(
            problem=board.problem,
            title=problem["title"],
            problem_version=board.problem_number,
            gpu=board.gpu,
            items=[_make_entry(view, goals.against(row), problem) for row in rows],
            baselines=goals.baselines,
            milestones=goals.milestones,
            other_versions=_make_other_versions(versions, board),
            gpu_leaderboards=describe_gpus(sources.live, problem, versions, board.problem_number),
            records=convert(details["records"], list[models.Record]),
            progress=convert(details["progress"], list[models.EntryProgress]),
            languages=problem["languages"],
            best_us=best_us,
            deadline_at=problem["deadline_at"],
            has_practice=problem["has_practice"],
            next_cursor=next_cursor(page_request, page),
            as_of=page.as_of,
            as_of_at=page_request.at,
            frozen=problem["state"] != "active",
            parked=sources.progress.parked,
        )
        return json_response(request, body, page.as_of)


def _add_practice(router: APIRouter, sources: ReadSources) -> None:
    @router.get("/v1/leaderboards/{slug}/{gpu}/practice")
    async def read_practice_board(
        request: Request,
        reader: CurrentReader,
        slug: str,
        gpu: str,
        query: Annotated[RecordsQuery, Query()],
    ) -> TypedResponse[models.PracticeLeaderboard]:
        """The practice leaderboard: what was received after the deadline, best first.

        It changes nothing on the leaderboard itself. A problem of a contest has its practice in the
        standing of the contest.
        """
        view, seq = sources.view(reader), await read_checkpoint(sources.reads)
        problem, board = await find_leaderboard(view, slug, gpu, query.version)
        placed = await read_practice(sources.reads, board, now())
        accounts = sorted({entry.run.account for entry in placed[: query.limit]})
        names = await view.rows("participant_names", accounts=accounts)
        by_account = {row["account"]: row["name"] for row in names}
        body = models.PracticeLeaderboard(
            problem=board.problem,
            title=problem["title"],
            gpu=board.gpu,
            problem_version=board.problem_number,
            items=[
                models.PracticeEntry(
                    rank=entry.place.rank,
                    is_tied=entry.place.is_tied,
                    number=entry.run.number,
                    participant_id=entry.run.account,
                    participant=by_account.get(entry.run.account),
                    score_us=entry.pool.score_us,
                    received_at=entry.run.received_at,
                )
                for entry in placed[: query.limit]
            ],
            entries_count=len(placed),
            deadline_at=problem["deadline_at"],
            is_open=problem["has_practice"] and problem["state"] == "ended",
            as_of=seq,
        )
        return json_response(request, body, seq)


async def read_checkpoint(reads: Reads) -> int:
    """The sequence up to which the read models are folded. Raises Failed."""
    (checkpoint,) = await reads.rows("checkpoint")
    return int(checkpoint["seq"])


def _make_other_versions(rows: list[Row], board: LeaderboardKey) -> list[models.OtherVersion]:
    others = [row for row in rows if row["problem_version"] != board.problem_number]
    return convert([row for row in others if row["gpu"] == board.gpu], list[models.OtherVersion])


async def read_records(view: ReaderView, board: LeaderboardKey, limit: int) -> list[models.Record]:
    """The newest records of a leaderboard. Raises Failed."""
    rows = await view.rows("records", **key_values(board), limit=limit, at=now())
    return convert(rows, list[models.Record])


async def find_leaderboard(
    view: ReaderView, slug: str, gpu: str, version: int | None
) -> tuple[Row, LeaderboardKey]:
    """A problem and one of its leaderboards, ignoring case. Raises Refused."""
    problem = await problem_row(view, slug)
    if problem["are_ranks_hidden"]:
        contest = problem["contest"]
        reason = f"the contest {contest} hides the ranks of {problem['slug']} in this phase"
        hint = f"its standing shows what is public: /v1/contests/{contest}/standing"
        raise Refused("no_access", f"{reason}; {hint}", "slug")
    # GPU types that are closed for submissions keep their leaderboard.
    types = {name.lower(): name for name in (*problem["gpus_closed"], *problem["gpus"])}
    if gpu.lower() not in types:
        known = ", ".join(types.values())
        raise Refused("not_found", f"{slug} has no GPU type {gpu!r}: {known}", "gpu")
    return problem, LeaderboardKey(
        problem["slug"], types[gpu.lower()], version or problem["problem_version"]
    )


def _make_entry(view: ReaderView, row: Row, problem: Row) -> models.Entry:
    source = {
        "problem": problem["slug"],
        "mode": RANKED,
        "source_visible": row["policy"],
        "board_deadline_at": problem["deadline_at"],
        "are_sources_hidden": problem["are_sources_hidden"],
    }
    is_visible = view.source_hidden(row | source, now()) is None
    details = {
        "source_visible": is_visible,
        "language": find_language(row),
        "toolchains": row["toolchains"] or [],
        "has_several_files": bool(row["has_several_files"]),
    }
    return convert(row | details, models.Entry)
