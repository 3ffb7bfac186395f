"""What the least work of a problem's cases makes of times and scores, as it is answered."""

from typing import Any

import msgspec

from ranker.domain.roofs import share, shown
from ranker.http.access import safe_case
from ranker.service import Board, Reads
from shared.events import Roof

Row = dict[str, Any]


def told(row: Row) -> list[Row]:
    """The cases of a submission as they may leave, each timed one with what it amounts to."""
    roofs = msgspec.convert(row["roofs"], list[Roof])
    cases = [safe_case(case) for case in row["cases"]]
    if not roofs:
        return cases
    return [case | {"roofline": shown(roofs, row["gpu"], case)} for case in cases]


async def shares(reads: Reads, board: Board, rows: list[Row]) -> list[Row]:
    """The rows of a leaderboard, each with its share of the roofline. Errors: Failed."""
    found = await reads.rows("roofs", slug=board.problem, number=board.problem_number)
    roofs = msgspec.convert(found[0]["roofs"], list[Roof]) if found else []
    rule = found[0]["ranking_by"] if found else ""
    return [
        row
        | {"roofline_fraction": share(roofs, board.gpu, rule, row["score_us"]) if roofs else None}
        for row in rows
    ]
