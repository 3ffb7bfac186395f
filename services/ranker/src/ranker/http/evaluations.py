"""Evaluations: how far they are, their results as they come, and what they used."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from msgspec import convert

from ranker.domain.yardsticks import show_cases
from ranker.http.access import CurrentReader, ReaderView, ReadSources, require_staff, safe_case
from ranker.http.responses import NUMBER_MAX, Limit
from ranker.service.decisions import Reads
from shared.api import evaluations as models
from shared.api.cases import Case
from shared.blobs import BlobNotFound, BlobStore
from shared.clock import now
from shared.errors import Failed, Refused
from shared.evaluations import ItemResult, read_items, read_results
from shared.events import HARNESS_CODE
from shared.http import DocumentedRoute, LiveResponse
from shared.states import EVALUATION_STATES

STREAM_S_MAX = 3600.0
SILENT_S_MAX = 15.0
# A client skips empty lines.
KEEPALIVE = b"\n"
HEADERS = {
    "Content-Type": "application/x-ndjson",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
DAYS_MAX = 366
HOUR_S = 3600.0
USES_MAX = 1000
SOURCES_MAX = 256
# Of an item's result; what only the file holds, such as the key of its run, stays there.
SHOWN = (
    *("stage", "stages", "speedup", "interval", "time_us", "time_interval_us", "grade"),
    *("composition", "doubts", "took_s", "usage"),
)
# The owner of an equal source may have printed what is theirs.
SHOWN_TO_OWNER = ("log_head", "log_tail")

Row = dict[str, Any]


def evaluations_router(sources: ReadSources) -> APIRouter:
    """The routes of evaluations."""
    router, streams = APIRouter(route_class=DocumentedRoute), ResultStreams(sources)

    @router.get("/v1/evaluations")
    async def list_evaluations(
        reader: CurrentReader,
        problem: Annotated[str | None, Query()] = None,
        before: Annotated[int | None, Query(ge=1, le=NUMBER_MAX)] = None,
        limit: Limit = 50,
    ) -> models.Evaluations:
        """One's own evaluations, newest first; operators see those of everybody."""
        if reader.account is None and not reader.is_staff:
            raise Refused("missing_credential", "this list needs a token: it shows your own")
        view = sources.view(reader)
        rows = await _read_rows(
            view,
            account=None if reader.is_staff else reader.account,
            problem=problem and problem.lower(),
            before=before,
            limit=limit + 1,
        )
        page = [row for row in rows[:limit] if view.owns(row)]
        return models.Evaluations(
            items=[_describe(row) for row in page],
            next_before=rows[limit - 1]["seq"] if len(rows) > limit else None,
            as_of=sources.progress.seq,
        )

    @router.get("/v1/evaluations/{evaluation}")
    async def read_evaluation(reader: CurrentReader, evaluation: str) -> models.Evaluation:
        """How far one's own evaluation is."""
        return _describe(await find_evaluation(sources, reader, evaluation))

    @router.get("/v1/evaluations/{evaluation}/results")
    async def results(
        reader: CurrentReader,
        evaluation: str,
        after: Annotated[int, Query(ge=0, le=SOURCES_MAX)] = 0,
        *,
        wait: bool = True,
    ) -> LiveResponse:
        """The results of an evaluation after so many, a line of JSON for each, as they come.

        The response ends with the evaluation; without `wait`, with the results that there are. A
        client that lost the connection continues after the `number` of its last result.
        """
        row = await find_evaluation(sources, reader, evaluation)
        if streams.open >= sources.streams_max:
            message = f"{sources.streams_max} streams are open here"
            raise Refused("too_many_streams", message, None, 2.0)
        return LiveResponse(streams.lines(row, after, wait=wait), 200, HEADERS)

    _add_staff_routes(router, sources)
    return router


def _add_staff_routes(router: APIRouter, sources: ReadSources) -> None:
    @router.get("/v1/admin/evaluations")
    async def uses(
        reader: CurrentReader, days: Annotated[int, Query(ge=1, le=DAYS_MAX)] = 1
    ) -> models.EvaluationUses:
        """What each token used for evaluations, for operators."""
        require_staff(reader)
        since = now() - timedelta(days=days)
        rows = await sources.reads.rows("evaluation_uses", since=since, limit=USES_MAX)
        priced = [row | {"cost": _cost(sources.device_prices, row)} for row in rows]
        items = convert(priced, list[models.EvaluationUse])
        return models.EvaluationUses(since=since, items=items, as_of=sources.progress.seq)

    @router.get("/internal/verdicts")
    async def verdicts(
        source: Annotated[list[str], Query(max_length=SOURCES_MAX)], problem_digest: str, gpu: str
    ) -> models.CachedVerdicts:
        """The verdicts of sources, under the harness codes that agents of a GPU type have now."""
        codes = {
            offer["registration"]["details"].get(HARNESS_CODE, "")
            for offer in sources.live.agents.values()
            if offer.get("registration", {}).get("gpu") == gpu
        } - {""}
        rows = await sources.reads.rows(
            "verdicts",
            sources=source,
            problem_digest=problem_digest,
            gpu=gpu,
            harnesses=sorted(codes),
        )
        return models.CachedVerdicts(items=convert(rows, list[models.CachedVerdictFound]))


def _cost(prices: Mapping[str, float], row: Row) -> float | None:
    price = prices.get(row["gpu"])
    return None if price is None else round(price * row["device_s"] / HOUR_S, 4)


async def _read_rows(reads: Reads | ReaderView, **values: object) -> list[Row]:
    filters = {"id": None, "account": None, "problem": None, "before": None, "limit": 1}
    return await reads.rows("evaluations", **filters | values)


async def find_evaluation(sources: ReadSources, reader: CurrentReader, id_: str) -> Row:
    """Return an evaluation that the reader owns. Raises Refused (`unknown_evaluation`)."""
    view = sources.view(reader)
    rows = await _read_rows(view, id=id_)
    if not rows:
        # It may have been accepted a moment ago.
        await sources.wait_until_folded(await sources.log_end())
        rows = await _read_rows(view, id=id_)
    if not rows or not view.owns(rows[0]):
        raise Refused("unknown_evaluation", f"you have no evaluation {id_[:64]!r}", "evaluation")
    return rows[0]


def _describe(row: Row) -> models.Evaluation:
    state = EVALUATION_STATES.get(row["state"])
    computed = {
        "state_owner": state.owner if state else None,
        "results_url": f"/v1/evaluations/{row['id']}/results",
    }
    return convert(row | computed, models.Evaluation)


@dataclass
class ResultStreams:
    """The results of evaluations, for many readers at once."""

    sources: ReadSources
    open: int = 0

    async def lines(self, row: Row, after: int, *, wait: bool) -> AsyncGenerator[bytes, None]:
        """The results after so many; with `wait`, also those that come until the end."""
        self.open += 1
        try:
            async for line in self._follow(ResultReader(self.sources, row), after, wait=wait):
                yield line
        finally:
            self.open -= 1

    async def _follow(
        self, reader: "ResultReader", sent: int, *, wait: bool
    ) -> AsyncGenerator[bytes, None]:
        progress, until = self.sources.progress, time.monotonic() + STREAM_S_MAX
        with progress.follow(reader.row["id"]) as moved:
            while time.monotonic() < until and not progress.is_over:
                moved.clear()
                with suppress(Failed):  # During an outage.
                    is_last = await reader.is_over()
                    async for result in reader.results(sent):
                        sent = result.number
                        yield msgspec.json.encode(result) + b"\n"
                    if is_last or not wait:
                        return
                with suppress(TimeoutError):
                    async with asyncio.timeout(SILENT_S_MAX):
                        await moved.wait()
                        continue
                yield KEEPALIVE


@dataclass
class ResultReader:
    """Reads the results of one evaluation; `ids` are the owner's names of its items.

    `file` is the digest and the content of the last file of results.
    """

    sources: ReadSources
    row: Row
    ids: list[str] = field(default_factory=list)
    file: tuple[str, Sequence[ItemResult]] = ("", ())

    async def is_over(self) -> bool:
        """Whether no result is missing in what is read from now on."""
        if self.row["state"] != "finished":
            (self.row,) = await _read_rows(self.sources.reads, id=self.row["id"])
        return bool(self.row["state"] == "finished")

    async def results(self, after: int) -> AsyncGenerator[models.EvaluationResult, None]:
        """The results that there are, after so many. Raises Failed."""
        if not self.ids:
            file = await self.sources.blobs.get(self.row["file"])
            self.ids = [item.id for item in await asyncio.to_thread(read_items, file)]
        number = 0
        for part in await self.sources.reads.rows("evaluation_parts", id=self.row["id"]):
            if number + part["count"] > after:
                lines = await self._read_lines(part)
                for result in self._make_results(part, number, lines):
                    if result.number > after:
                        yield result
            number += part["count"]

    async def _read_lines(self, part: Row) -> list[ItemResult]:
        """The results of a part in the file of its run; empty if that is not what was promised."""
        digest = part["results"]
        if digest and digest != self.file[0]:
            self.file = digest, await _read_file(self.sources.blobs, digest)
        results = self.file[1] if digest else ()
        lines = list(results[part["line"] : part["line"] + part["count"]])
        return lines if [line.verdict for line in lines] == list(part["verdicts"]) else []

    def _make_results(
        self, part: Row, number: int, lines: list[ItemResult]
    ) -> Iterator[models.EvaluationResult]:
        for offset in range(part["count"]):
            item = part["first"] + offset
            known = {
                "number": number + offset + 1,
                "item": item,
                "id": self.ids[item],
                "outcome": part["outcome"],
                "failure_code": part["code"],
                "reason": part["reason"],
                "is_cached": part["is_cached"],
                "source_digest": self.row["sources"][item],
                "problem_digest": self.row["problem_digest"],
                "harness_code": part["harness"],
            }
            if part["outcome"] == "completed":
                known["verdict"] = part["verdicts"][offset]
                known |= _shown(lines[offset], is_cached=part["is_cached"]) if lines else {}
            yield convert(known, models.EvaluationResult)


async def _read_file(blobs: BlobStore, digest: str) -> Sequence[ItemResult]:
    """The results in a file that an agent stored; empty if it is gone or unreadable."""
    try:
        return await asyncio.to_thread(read_results, await blobs.get(digest))
    except (BlobNotFound, Refused):
        return ()


def _shown(result: ItemResult, *, is_cached: bool) -> Row:
    """What a result says beside its verdict, as the result of a test does."""
    names = (*SHOWN, "reason", *(() if is_cached else SHOWN_TO_OWNER))
    cases = [safe_case(case) for case in convert(msgspec.to_builtins(result.cases), list[Row])]
    fields = {name: getattr(result, name) for name in names}
    return fields | {"cases": convert(show_cases(cases, None), list[Case])}
