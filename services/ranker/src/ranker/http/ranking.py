"""The rank of a submission, or why it is not ranked.

Reads of one database snapshot are done once, and shared until something is written.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable
from datetime import datetime
from typing import Any, TypeVar

from ranker.domain.places import assign_places
from ranker.domain.rows import LeaderboardKey
from ranker.service.decisions import Reads
from ranker.service.leaderboard import RANKED_MAX, make_scored_entries, read_ladder, read_standing
from shared.clock import now

RANKED = "ranked"
SUPERSEDED = "a better entry of the same participant is ranked"
REPLACED = "a run of the same source that is not noisy counts instead"
US = 1e-6
RESULT_FIELDS = (
    *("is_eligible", "code", "reason"),
    *("score_us", "run_us", "pooled_over", "interval_us"),
)
FIELDS = (
    *RESULT_FIELDS,
    *("rank", "best_rank", "tied_with", "best_number", "own_best_us", "rank_before"),
    *("delta_to_best", "delta_to_next", "appeal_url"),
)
# Changes by the clock alone, such as the end of a ban, are seen this late.
SNAPSHOT_S_MAX = 1.0
# Results per snapshot; a page has at most about 100 KiB.
RESULTS_MAX = 256

Result = TypeVar("Result")
Row = dict[str, Any]


class ReadSnapshot:
    """Reads of the database at one snapshot; each is done once for all readers."""

    def __init__(self, reads: Reads, snapshot: str, at: datetime) -> None:
        self.reads = reads
        self.snapshot = snapshot
        self.at = at
        self._results: dict[Hashable, asyncio.Task[Any]] = {}

    def is_current(self, snapshot: str, at: datetime) -> bool:
        """Whether the results still hold at an instant when this snapshot was visible."""
        age_s = (at - self.at).total_seconds()
        return self.snapshot == snapshot and 0 <= age_s < SNAPSHOT_S_MAX

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """The rows of a statement; callers must not change them. Raises Failed."""
        ask = self.reads.rows
        return await self.find_once((statement, *values.items()), lambda: ask(statement, **values))

    async def find_once(
        self, key: Hashable, find: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Result:
        """The shared result of `find`; callers must not change it. Raises the errors of `find`."""
        task: asyncio.Task[Result] | None = self._results.get(key)
        if task is None:
            task = asyncio.create_task(find())
            self._results[key] = task
            if len(self._results) > RESULTS_MAX:
                del self._results[next(iter(self._results))]
            task.add_done_callback(lambda ended: self._forget(key, ended))
        # The first caller may be cancelled; the others wait for the same task.
        return await asyncio.shield(task)

    def _forget(self, key: Hashable, ended: "asyncio.Task[Any]") -> None:
        """A failure is only reported to those who waited for it."""
        if (ended.cancelled() or ended.exception()) and self._results.get(key) is ended:
            del self._results[key]


class ReadSnapshots:
    """Finds the current snapshot; readers who ask during a query share the next one."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._newest: ReadSnapshot | None = None
        self._current_query: asyncio.Task[ReadSnapshot] | None = None
        self._next_query: asyncio.Task[ReadSnapshot] | None = None

    async def now(self) -> ReadSnapshot:
        """A snapshot that is not older than this call. Raises Failed."""
        if self._next_query is None:
            self._next_query = asyncio.create_task(self._query_snapshot(self._current_query))
        return await asyncio.shield(self._next_query)

    async def _query_snapshot(self, before: "asyncio.Task[ReadSnapshot] | None") -> ReadSnapshot:
        """The newest snapshot if nothing was written since, else a new one.

        A Postgres snapshot says which transactions are visible. If that is unchanged, so are all
        reads, including names and notes that no event carries.
        """
        if before is not None:
            await asyncio.wait({before})
        # Later callers may know of writes that this query does not see.
        self._current_query, self._next_query = self._next_query, None
        at = now()
        (row,) = await self._reads.rows("snapshot")
        newest = self._newest
        if newest is None or not newest.is_current(row["snapshot"], at):
            newest = self._newest = ReadSnapshot(self._reads, row["snapshot"], at)
        return newest


class Ladder:
    """The ranks of a leaderboard, computed again; `standing` is that of one account."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = {row["account"]: row for row in rows}
        self._scores_us = [row["score_us"] for row in rows]
        self._orders_us = [row["order_us"] for row in rows]
        places = assign_places(make_scored_entries(rows))
        self._places = {place.number: place for place in places}
        self._shared = Counter(place.rank for place in places)

    def standing(self, account: str) -> Row:
        """The rank of an account, and the slowest score of the rank before."""
        best_us = self._scores_us[0] if self._scores_us else None
        entry = self._rows.get(account)
        if entry is None:
            return {"number": None, "best_us": best_us}
        place = self._places[entry["number"]]
        rank = place.rank
        ahead_us = self._orders_us[rank - 2] if rank > 1 else None
        place_fields = {"rank": rank, "best_rank": place.best_rank, "shared": self._shared[rank]}
        return {**entry, **place_fields, "best_us": best_us, "ahead_us": ahead_us}


async def describe_ranking(snapshot: ReadSnapshot, row: Row, decided: Row) -> Row | None:
    """The rank of a submission or why it has none; None if it is not a ranked one."""
    if row["state"] != "finished":
        return _make_pending(row) if row["mode"] == RANKED else None
    result = _make_blank(row) | {
        "status": "held" if row["is_held"] else "not_ranked",
        **{name: row[name] for name in RESULT_FIELDS},
        "evidence": _find_evidence(row),
        "appeal_url": None if row["is_eligible"] else f"/v1/submissions/{row['number']}/appeal",
    }
    decision = _find_decision(decided)
    if decision is not None:
        return result | decision
    if not row["is_eligible"]:
        return result
    board = LeaderboardKey(row["problem"], row["gpu"], row["result_version"])
    result |= await _read_own_best(snapshot, row, board)
    standing = await _read_standing(snapshot, board, row["participant_id"])
    return result | {"status": "ranked"} | _make_place(row, standing)


def hide_places(ranking: Row | None) -> Row | None:
    """A ranking without what tells of the entries of others."""
    if ranking is None:
        return None
    hidden = dict.fromkeys(("rank", "best_rank", "rank_before", "delta_to_best", "delta_to_next"))
    return ranking | hidden | {"is_tied": False, "tied_with": None}


def _make_pending(row: Row) -> Row:
    reason = "its runs are not over" if row["state"] != "ranking" else "it is being decided"
    pending = {"status": "pending", "is_eligible": None, "code": "awaiting_runs", "reason": reason}
    return _make_blank(row) | pending


def _make_blank(row: Row) -> Row:
    return dict.fromkeys(FIELDS) | {
        "status": "not_ranked",
        "evidence": {},
        "gpu": row["gpu"],
        "is_tied": False,
        "pooled_over": [],
        "problem_version": row["result_version"],
        "decided_at": row["finished_at"],
    }


def _find_evidence(row: Row) -> Row:
    """The first failure; of a hidden case only its verdict."""
    if row["verdict"] in (None, "passed"):
        return {}
    failed = (case for case in row["cases"] if case["verdict"] not in ("passed", "skipped"))
    case = next(failed, {"stage": row["stage"], "verdict": row["verdict"], "name": None})
    name = "a hidden case" if case.get("is_hidden") else case["name"]
    return {"stage": case["stage"], "case": name, "verdict": case["verdict"]}


def _find_decision(decided: Row) -> Row | None:
    if decided["is_withdrawn"]:
        reason = decided["withdrawn_reason"] or "it was withdrawn"
        return {"status": "removed", "code": "withdrawn", "reason": reason}
    if decided["is_disqualified"]:
        return {"status": "removed", "code": "disqualified", "reason": decided["reason"]}
    if decided["is_held"]:
        return {"status": "held", "code": "manual_hold", "reason": decided["reason"]}
    if decided["banned_at"] is not None:
        return {"status": "removed", "code": "banned", "reason": decided["ban_reason"]}
    return None


async def _read_own_best(snapshot: ReadSnapshot, row: Row, board: LeaderboardKey) -> Row:
    """The owner's best score there before the submission, and the rank it would have now."""
    (best,) = await snapshot.reads.rows(
        "own_best",
        **board._asdict(),
        account=row["participant_id"],
        before=row["number"],
        source=row["pooling_source"],
    )
    return {"own_best_us": best["score_us"], "rank_before": best["rank_before"]}


async def _read_standing(snapshot: ReadSnapshot, board: LeaderboardKey, account: str) -> Row:
    """The place of an account: the stored one, unless a ban ended by the clock alone."""
    standing = await read_standing(snapshot.reads, board, account, snapshot.at)
    if standing is not None:
        return standing

    async def rank_again() -> Ladder:
        return Ladder(await read_ladder(snapshot.reads, board, RANKED_MAX, snapshot.at))

    return (await snapshot.find_once(board, rank_again)).standing(account)


def _make_place(row: Row, standing: Row) -> Row:
    """The place of the submission, of its source, or of the participant's better entry."""
    if standing["number"] is None:
        return {}
    place: Row = {"best_number": standing["number"]}
    if standing["source"] != row["pooling_source"] or not row["counts"]:
        is_other = standing["source"] != row["pooling_source"]
        code, reason = ("superseded", SUPERSEDED) if is_other else ("replaced", REPLACED)
        distances = _distances(row["score_us"], standing["best_us"])
        return place | distances | {"code": code, "reason": reason}
    if standing["submission"] != row["id"]:
        place["code"] = "pooled"
    rank, others = standing["rank"], standing["shared"] - 1
    best_rank = find_best_rank(standing)
    rank_fields = {"rank": rank, "best_rank": best_rank, "is_tied": others > 0, "tied_with": others}
    # Entries that share a rank are not behind each other: their difference means nothing.
    best_us = standing["score_us"] if 1 in (rank, best_rank) else standing["best_us"]
    ahead_us = standing["ahead_us"] if best_rank is None else None
    return place | rank_fields | _distances(standing["score_us"], best_us, ahead_us)


def find_best_rank(standing: Row) -> int | None:
    """The best rank that a noisy entry may have; None if it has one rank."""
    best_rank: int | None = standing["best_rank"]
    return best_rank if best_rank is not None and best_rank < standing["rank"] else None


def _distances(score_us: float, best_us: float, ahead_us: float | None = None) -> Row:
    """The distance to the best score and to the next better rank, in seconds."""
    # A copy may be faster than its original, which gives it its rank.
    is_behind = ahead_us is not None and score_us > ahead_us
    return {
        "delta_to_best": max(0.0, score_us - best_us) * US,
        "delta_to_next": (score_us - ahead_us) * US if ahead_us is not None and is_behind else None,
    }
