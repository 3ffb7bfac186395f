"""The results of a submission's cases: public parts, rooflines and speed-ups."""

import msgspec
from fastapi import APIRouter, Request

from ranker.domain.goals import case_roofline, roofline_share
from ranker.domain.rows import LeaderboardKey
from ranker.http.access import CurrentReader, ReadSources, Row, safe_case
from ranker.http.goals import add_speedups
from ranker.http.problem_details import SEED
from ranker.http.problems import ManifestCache, problem_row
from ranker.http.responses import NumberInPath, json_response
from ranker.service.ports import Reads
from shared.api.cases import CaseShown
from shared.errors import Failed
from shared.events import Roof
from shared.response_types import DocumentedRoute, TypedResponse

LISTS = ("tests", "benchmarks")


def cases_router(sources: ReadSources) -> APIRouter:
    """The route of case results."""
    router, manifests = APIRouter(route_class=DocumentedRoute), ManifestCache(sources.blobs)

    @router.get("/v1/submissions/{number}/cases")
    async def case_results(
        request: Request, reader: CurrentReader, number: NumberInPath
    ) -> TypedResponse[list[CaseShown]]:
        """The result of each case of an own submission, including all failures."""
        await sources.wait_until_folded(number)
        view = sources.view(reader)
        row = await view.own(number)
        problem = await problem_row(view, row["problem"], row["problem_version"])
        try:
            arguments = _find_arguments(await manifests.load(problem["manifest"]))
        except Failed:
            # The results are more important than the arguments.
            arguments = {}
        board = LeaderboardKey(row["problem"], row["gpu"], row["problem_version"])
        results = await add_speedups(sources.reads, board, make_public_cases(row))
        items = [_make_case(index, case, arguments) for index, case in enumerate(results)]
        return json_response(request, items)

    return router


def _find_arguments(manifest: Row) -> dict[str, Row]:
    """The arguments of each case of a problem by name, without the seed."""
    cases = (case for key in LISTS for case in manifest[key])
    return {
        case["name"]: {key: value for key, value in case["args"].items() if key != SEED}
        for case in cases
    }


def _make_case(index: int, case: Row, arguments: dict[str, Row]) -> CaseShown:
    """A case in the form of the public API; of a hidden one only the verdict."""
    is_hidden = bool(case.get("is_hidden"))
    fields = {
        "index": index,
        "name": case["name"],
        "stage": case["stage"],
        "is_hidden": is_hidden,
        "args": None if is_hidden else arguments.get(case["name"]),
        "verdict": case["verdict"],
        "message": case.get("message") or None,
        "wrong": case.get("wrong", 0),
        "mismatches": case.get("mismatches", []),
        "estimate": None if is_hidden else _make_estimate(case),
        "roofline": None if is_hidden else case.get("roofline"),
        "vs_baseline": case.get("vs_baseline", {}),
    }
    return msgspec.convert(fields, CaseShown)


def _make_estimate(case: Row) -> Row | None:
    if case.get("time_us") is None:
        return None
    return {
        "time_us": case["time_us"],
        "interval_us": case.get("interval_us"),
        "statistics": case.get("statistics", {}),
        "samples": case.get("samples"),
        "dropped": case.get("dropped"),
        "process_us": case.get("process_us"),
        "error": case.get("error"),
        "freedom": case.get("freedom"),
        "null_us": case.get("null_us"),
        "grade": case.get("grade"),
    }


def make_public_cases(row: Row) -> list[Row]:
    """The public cases of a submission, timed ones with their roofline figures."""
    roofs = msgspec.convert(row["roofs"], list[Roof])
    cases = [safe_case(case) for case in row["cases"]]
    if not roofs:
        return cases
    return [case | {"roofline": case_roofline(roofs, row["gpu"], case)} for case in cases]


async def add_roofline_shares(reads: Reads, board: LeaderboardKey, rows: list[Row]) -> list[Row]:
    """Add to each row of a leaderboard its share of the roofline. Raises Failed."""
    versions = await reads.rows("roofs", slug=board.problem, number=board.problem_number)
    roofs = msgspec.convert(versions[0]["roofs"], list[Roof]) if versions else []
    rule = versions[0]["ranking_by"] if versions else ""
    return [
        row
        | {
            "roofline_fraction": roofline_share(roofs, board.gpu, rule, row["score_us"])
            if roofs
            else None
        }
        for row in rows
    ]
