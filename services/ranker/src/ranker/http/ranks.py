"""Where a submission stands, or why it is not ranked."""

from collections import Counter
from typing import Any

from ranker.domain.ties import places
from ranker.http.moments import Moment
from ranker.service import Board
from ranker.service.top import RANKED_MAX, read_ladder, read_standing, standings

RANKED = "ranked"
US = 1e-6

Row = dict[str, Any]


class Ladder:
    """A leaderboard whose places are made again, as `standing` has them for one account."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = {row["account"]: row for row in rows}
        self._scores_us = [row["score_us"] for row in rows]
        self._ranks = {place.number: place.rank for place in places(standings(rows))}
        self._shared = Counter(self._ranks.values())

    def standing(self, account: str) -> Row:
        """Where an account stands, and the slowest score of the rank before its own."""
        best_us = self._scores_us[0] if self._scores_us else None
        entry = self._rows.get(account)
        if entry is None:
            return {"number": None, "best_us": best_us}
        rank = self._ranks[entry["number"]]
        ahead_us = self._scores_us[rank - 2] if rank > 1 else None
        shared = self._shared[rank]
        return {**entry, "rank": rank, "shared": shared, "best_us": best_us, "ahead_us": ahead_us}


async def ranking(moment: Moment, row: Row, decided: Row) -> Row | None:
    """Where a submission stands, or why not; None while nothing is to be ranked."""
    if row["state"] != "finished":
        return _pending(row) if row["mode"] == RANKED else None
    said = _ended(row)
    against = _against(decided)
    if against is not None:
        return said | against
    if not row["is_eligible"]:
        return said
    board = Board(row["problem"], row["gpu"], row["result_version"])
    said["own_best_us"] = await _own_best_us(moment, row, board)
    standing = await _standing(moment, board, row["account"])
    return said | {"status": "ranked"} | _placed(row, standing)


def seconds(time_us: float | None) -> float | None:
    """A time as the contract has it. Units: microseconds in, seconds out."""
    return None if time_us is None else time_us * US


def _pending(row: Row) -> Row:
    reason = "its runs are not over" if row["state"] != "ranking" else "it is being decided"
    said = {"status": "pending", "eligible": None, "code": "awaiting_runs", "reason": reason}
    return _blank(row) | said


def _blank(row: Row) -> Row:
    """The shape of every answer, with nothing in it yet."""
    return {
        "status": "not_ranked",
        "eligible": None,
        "code": None,
        "reason": None,
        "evidence": {},
        "gpu": row["gpu"],
        "rank": None,
        "is_tied": False,
        "tied_with": None,
        "score_us": None,
        "run_us": None,
        "pooled_over": [],
        "interval_us": None,
        "score": None,
        "ci95": None,
        "best_number": None,
        "delta_to_best": None,
        "own_best_us": None,
        "delta_to_next": None,
        "problem_version": row["result_version"],
        "decided_at": row["finished_at"],
        "appeal_url": None,
    }


def _ended(row: Row) -> Row:
    """What the one decision on a submission said."""
    is_bounded = row["low_us"] is not None
    bounds = [row["low_us"], row["high_us"]] if is_bounded else None
    return _blank(row) | {
        "status": "held" if row["is_held"] else "not_ranked",
        "eligible": row["is_eligible"],
        "code": row["code"],
        "reason": row["reason"],
        "evidence": _evidence(row),
        "score_us": row["score_us"],
        "run_us": row["run_us"],
        "pooled_over": row["pooled_over"],
        "interval_us": bounds,
        "score": seconds(row["score_us"]),
        "ci95": bounds and [seconds(one) for one in bounds],
        "appeal_url": None if row["is_eligible"] else _appeal_url(row),
    }


def _evidence(row: Row) -> Row:
    """The first thing that went wrong; of a hidden case no more than its verdict."""
    if row["verdict"] in (None, "passed"):
        return {}
    failed = (case for case in row["cases"] if case["verdict"] not in ("passed", "skipped"))
    case = next(failed, {"stage": row["stage"], "verdict": row["verdict"], "name": None})
    name = "a hidden case" if case.get("is_hidden") else case["name"]
    return {"stage": case["stage"], "case": name, "verdict": case["verdict"]}


def _appeal_url(row: Row) -> str:
    return f"/v1/submissions/{row['number']}/appeal"


def _against(decided: Row) -> Row | None:
    """What people decided against a submission or its participant, with their reason."""
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


async def _own_best_us(moment: Moment, row: Row, board: Board) -> float | None:
    """What its participant had to beat."""
    where = {**board._asdict(), "account": row["account"], "before": row["number"]}
    where["source"] = row["source_digest"]
    (best,) = await moment.reads.rows("own_best", **where)
    found: float | None = best["score_us"]
    return found


async def _standing(moment: Moment, board: Board, account: str) -> Row:
    """Where an account stands: as it is kept, unless a ban ended by the clock alone."""
    standing = await read_standing(moment.reads, board, account, moment.at)
    if standing is not None:
        return standing
    ladder = await moment.once(board, lambda: _ladder(moment, board))
    return ladder.standing(account)


async def _ladder(moment: Moment, board: Board) -> Ladder:
    return Ladder(await read_ladder(moment.reads, board, RANKED_MAX, moment.at))


def _placed(row: Row, standing: Row) -> Row:
    """Its own place, that of its source, or the better one of its participant's."""
    if standing["number"] is None:
        return {}
    said: Row = {"best_number": standing["number"]}
    if standing["source"] != row["source_digest"]:
        superseded = {"code": "superseded", "reason": "an own entry that is better stands"}
        return said | _behind(row["score_us"], standing["best_us"]) | superseded
    if standing["submission"] != row["id"]:
        said["code"] = "pooled"
    rank, others = standing["rank"], standing["shared"] - 1
    placed = {"rank": rank, "is_tied": others > 0, "tied_with": others}
    # Who shares a rank is behind nobody of that rank: the difference means nothing.
    best_us = standing["score_us"] if rank == 1 else standing["best_us"]
    return said | placed | _behind(standing["score_us"], best_us, standing["ahead_us"])


def _behind(score_us: float, best_us: float, ahead_us: float | None = None) -> Row:
    """How far a score is behind the first, and behind the nearest of a better rank; in seconds."""
    return {
        "delta_to_best": max(0.0, score_us - best_us) * US,
        "delta_to_next": None if ahead_us is None else (score_us - ahead_us) * US,
    }
