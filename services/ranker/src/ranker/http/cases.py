"""How each case of a submission ended, with the arguments that a public one was made of."""

from typing import Any

from fastapi import FastAPI, Request

from ranker.http.access import Asker, Row, Seen
from ranker.http.answers import NumberInPath, answered
from ranker.http.goals import compared
from ranker.http.problems import SEED, Manifests, problem_row
from ranker.http.roofs import told
from ranker.http.shapes.cases import CaseShown, Estimate
from ranker.service import Board, Reads
from shared.answers import Answer
from shared.blobs import Blobs
from shared.errors import Failed

LISTS = ("tests", "benchmarks")


def cases(app: FastAPI, reads: Reads, blobs: Blobs) -> None:
    """The read of cases."""
    manifests = Manifests(blobs)

    @app.get("/v1/submissions/{number}/cases")
    async def case_results(
        request: Request, who: Asker, number: NumberInPath
    ) -> Answer[list[CaseShown]]:
        """How each case of one's own submission ended, all that failed among them."""
        seen = Seen(reads, who)
        row = await seen.own(number)
        problem = await problem_row(seen, row["problem"], row["problem_number"])
        try:
            made_of = _arguments(await manifests.of(problem["manifest"]))
        except Failed:
            # How they ended is worth more than what they were made of.
            made_of = {}
        board = Board(row["problem"], row["gpu"], row["problem_number"])
        shown = await compared(reads, board, told(row))
        found = [_case(index, case, made_of) for index, case in enumerate(shown)]
        return answered(request, found)


def _arguments(manifest: Row) -> dict[str, Row]:
    """The arguments of each case that a problem has, by its name; without the seed."""
    every = (case for key in LISTS for case in manifest[key])
    return {
        case["name"]: {key: one for key, one in case["args"].items() if key != SEED}
        for case in every
    }


def _case(index: int, case: Row, made_of: dict[str, Row]) -> CaseShown:
    """A case as the contract has it; of a hidden one nothing but its verdict."""
    is_hidden = bool(case.get("is_hidden"))
    return {
        "index": index,
        "name": case["name"],
        "stage": case["stage"],
        "visibility": "hidden" if is_hidden else "public",
        "case": None if is_hidden else made_of.get(case["name"]),
        "verdict": case["verdict"],
        "message": case.get("message") or None,
        "wrong": case.get("wrong", 0),
        "mismatches": case.get("mismatches", []),
        "estimate": None if is_hidden else _estimate(case),
        "roofline": None if is_hidden else case.get("roofline"),
        "vs_baseline": case.get("vs_baseline", {}),
    }


def _estimate(case: dict[str, Any]) -> Estimate | None:
    if case.get("time_us") is None:
        return None
    return {
        "time_us": case["time_us"],
        "time_us_ci95": case.get("interval_us"),
        "statistics": case.get("statistics", {}),
        "samples": case.get("samples"),
        "dropped": case.get("dropped"),
        "process_us": case.get("process_us"),
        "error": case.get("error"),
        "freedom": case.get("freedom"),
        "null_us": case.get("null_us"),
        "grade": case.get("grade"),
    }
