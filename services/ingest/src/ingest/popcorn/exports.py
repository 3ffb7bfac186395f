"""Leaderboards as a data set: every submission with its source, in one Parquet file."""

import asyncio
import importlib
import io
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from harness.vocabulary import MODES
from ingest.identity.caller import check_scope
from ingest.popcorn.conversions import leaderboard_id, seconds
from ingest.popcorn.dependencies import Dependencies, PopcornRequest
from ingest.popcorn.read_client import STAFF, ReadClient
from shared import subjects
from shared.api.submissions import SubmissionLine
from shared.errors import Refused
from shared.events import ProblemPublished, SubmissionReceived
from shared.http import LiveResponse
from shared.json_types import JsonInt
from shared.licences import NO_RELEASE, choose_licence
from shared.problems.kernelbench import COMPILE, EAGER
from shared.problems.submission_file import language_of
from shared.pseudonyms import new_pseudonym_key, pseudonym
from shared.reader import Reader
from shared.redaction import Redactor
from shared.source_files import code_language

# A row group ends at this many rows or characters.
ROWS_MAX = 1000
CHARACTERS_MAX = 4_000_000
LEADERBOARDS_MAX = 100
# Sources are read concurrently, exports one after the other: nobody waits for them.
AT_ONCE = 8
# The baselines that the platform runs with every model of KernelBench, whose slugs begin like this.
BASELINES = (EAGER, COMPILE)
MODEL_SET = re.compile(r"kernelbench-[0-9]+(?=-)")
PARQUET = "application/vnd.apache.parquet"
EXPORT_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {PARQUET: {"schema": {"type": "string", "format": "binary"}}}}
}
Row = Mapping[str, Any]
# The public versions of each leaderboard, by number.
Released = dict[str, dict[int, ProblemPublished]]


# Each column with its pyarrow type and its value; comparisons and the files follow them.
COLUMNS: Mapping[str, tuple[str, Callable[[SubmissionLine], Any]]] = {
    "submission_id": ("int64", lambda line: line.number),
    "leaderboard_id": ("int64", lambda line: leaderboard_id(line.problem)),
    "leaderboard_name": ("string", lambda line: line.problem),
    "problem_version": ("int32", lambda line: line.problem_version),
    "user_id": ("string", lambda line: line.participant_id),
    "user_name": ("string", lambda line: line.participant),
    "gpu_type": ("string", lambda line: line.gpu),
    "mode": ("string", lambda line: MODES[line.mode].public_mode),
    "file_name": ("string", lambda line: line.name or None),
    "submission_time": ("instant", lambda line: line.received_at),
    "done": ("bool_", lambda line: line.state == "finished"),
    "outcome": ("string", lambda line: line.outcome),
    "verdict": ("string", lambda line: line.verdict),
    "correct": ("bool_", lambda line: line.verdict == "passed" if line.verdict else None),
    "reason_code": ("string", lambda line: line.code),
    "eligible": ("bool_", lambda line: line.is_eligible),
    "deleted": ("bool_", lambda line: line.is_withdrawn),
    "score": ("float64", lambda line: seconds(line.score_us) if line.is_eligible else None),
}


# How many times as fast as a baseline a ranked submission was, and its participant's share of the
# problems of the level on which they are more than p times as fast.
FAST_P = ("0", "1", "2")
COMPARISONS = {
    **{f"speedup_{name}": "float64" for name in BASELINES},
    **{f"fast_{p}_{name}": "float64" for p in FAST_P for name in BASELINES},
}


class Comparisons:
    """What the submissions of an export are compared with, each leaderboard and level read once."""

    def __init__(self, client: ReadClient, reader: Reader) -> None:
        self._client, self._reader = client, reader
        self._scores_us: dict[tuple[str, str, int], Mapping[str, float]] = {}
        self._shares: dict[tuple[str, str], Mapping[str, Mapping[str, float]]] = {}

    async def columns(self, line: SubmissionLine) -> dict[str, float]:
        """Return the comparisons of a submission; empty if it is not ranked. Raises `Failed`."""
        if not (line.is_eligible and line.score_us):
            return {}
        key = line.problem, line.gpu, line.result_version
        if key not in self._scores_us:
            self._scores_us[key] = await self._client.baseline_scores(*key, self._reader)
        scores_us = self._scores_us[key]
        speedups = {
            f"speedup_{name}": scores_us[name] / line.score_us
            for name in BASELINES
            if name in scores_us
        }
        return {**speedups, **await self._level_shares(line)}

    async def _level_shares(self, line: SubmissionLine) -> Mapping[str, float]:
        """Return fast_p of the submission's participant over its level, by column."""
        model_set = MODEL_SET.match(line.problem)
        if model_set is None:
            return {}
        key = model_set[0], line.gpu
        if key not in self._shares:
            scores = await self._client.set_scores(*key, self._reader)
            self._shares[key] = {
                entry.participant_id: {
                    f"fast_{p}_{name}": shares[p]
                    for name, shares in entry.fast.items()
                    for p in FAST_P
                    if name in BASELINES
                }
                for entry in (scores.items if scores else ())
            }
        return self._shares[key].get(line.participant_id, {})


async def parquet(
    rows: AsyncIterator[Row], columns: Mapping[str, str]
) -> AsyncGenerator[bytes, None]:
    """Yield a Parquet file of these rows; `columns` maps names to pyarrow types.

    The footer comes last, so a truncated file is not a valid Parquet file.
    """
    # Importing it takes a third of a second and 60 MB, which only exports need.
    arrow: Any = await asyncio.to_thread(importlib.import_module, "pyarrow")
    files: Any = await asyncio.to_thread(importlib.import_module, "pyarrow.parquet")
    types = {"instant": arrow.timestamp("us", tz="UTC"), "texts": arrow.list_(arrow.string())}
    schema = arrow.schema(
        [(name, types.get(kind) or getattr(arrow, kind)()) for name, kind in columns.items()]
    )
    buffer = io.BytesIO()

    def take() -> bytes:
        data = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        return data

    writer = files.ParquetWriter(arrow.PythonFile(buffer, mode="w"), schema, compression="zstd")
    async for group in _group_rows(rows):
        table = arrow.Table.from_pylist([dict(row) for row in group], schema=schema)
        await asyncio.to_thread(writer.write_table, table)
        yield take()
    await asyncio.to_thread(writer.close)
    yield take()


async def _group_rows(rows: AsyncIterator[Row]) -> AsyncIterator[Sequence[Row]]:
    group: list[Row] = []
    length = 0
    async for row in rows:
        group.append(row)
        length += sum(len(value) for value in row.values() if isinstance(value, str))
        length += sum(map(len, row.get("other_codes") or ()))
        if len(group) == ROWS_MAX or length >= CHARACTERS_MAX:
            yield group
            group, length = [], 0
    if group:
        yield group


class ExportRequest(PopcornRequest):
    """The leaderboards to export and the file name; `private` exports everything."""

    leaderboard_ids: Annotated[list[JsonInt], Field(min_length=1, max_length=LEADERBOARDS_MAX)]
    filename: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}\.parquet$")]
    private: bool


def add_export_route(router: APIRouter, deps: Dependencies) -> None:
    """The route, for admins only, also on Discord: it contains everybody's sources."""
    lock = asyncio.Lock()
    columns = {name: kind for name, (kind, _) in COLUMNS.items()}
    columns |= COMPARISONS | {"licence": "string", "code": "string"}
    columns |= {"other_names": "texts", "other_codes": "texts"}

    @router.post("/admin/export", response_class=Response, responses=EXPORT_ANSWER)
    async def export(body: ExportRequest, request: Request) -> LiveResponse:
        """Leaderboards with all submissions and sources; `private` false: only published ones."""
        caller = await deps.auth.staff(request, "admin:submissions")
        check_scope(caller, "admin:problems")
        slugs = await _requested_slugs(deps, body)
        publication = None if body.private else await _Publication.load(deps, slugs)
        details = f"{'private' if body.private else 'public'}: {body.filename}"
        decisions = deps.ingest.decisions
        await decisions.record_action("export", ", ".join(slugs), details, caller.actor)
        disposition = f'attachment; filename="{body.filename}"'
        headers = {"Content-Type": PARQUET, "Content-Disposition": disposition}
        return LiveResponse(chunks(slugs, publication), 200, headers)

    async def chunks(
        slugs: list[str], publication: "_Publication | None"
    ) -> AsyncGenerator[bytes, None]:
        """Yield the data set; only one is made at a time."""
        async with lock, aclosing(parquet(_rows(deps, slugs, publication), columns)) as pieces:
            async for piece in pieces:
                yield piece


async def _requested_slugs(deps: Dependencies, body: ExportRequest) -> list[str]:
    """Return the leaderboards to export. Raises `Refused` and `Failed`."""
    problems = await deps.read_client.problems(STAFF)
    known = {leaderboard_id(problem.slug): problem.slug for problem in problems}
    unknown = [id_ for id_ in body.leaderboard_ids if id_ not in known]
    if unknown:
        message = f"there is no leaderboard {unknown[0]}: GET /leaderboards?state=all lists them"
        raise Refused("unknown_leaderboard", message, "leaderboard_ids")
    return [known[id_] for id_ in dict.fromkeys(body.leaderboard_ids)]


async def _rows(
    deps: Dependencies, slugs: Sequence[str], publication: "_Publication | None"
) -> AsyncIterator[Row]:
    """Yield every submission, or every published one, by leaderboard and newest first."""
    reader = STAFF if publication is None else Reader()
    comparisons = Comparisons(deps.read_client, reader)
    for slug in slugs:
        batch: list[SubmissionLine] = []
        async with aclosing(deps.read_client.iterate_all({"problem": slug}, reader)) as lines:
            async for line in lines:
                if publication is None or await publication.has(line):
                    batch.append(line)
                if len(batch) == AT_ONCE:
                    for row in await _make_rows(deps, batch, publication, comparisons):
                        yield row
                    batch = []
        for row in await _make_rows(deps, batch, publication, comparisons):
            yield row


async def _make_rows(
    deps: Dependencies,
    lines: Sequence[SubmissionLine],
    publication: "_Publication | None",
    comparisons: Comparisons,
) -> list[Row]:
    reader = STAFF if publication is None else Reader()
    sources = await asyncio.gather(
        *(deps.read_client.source_files(line.number, reader) for line in lines)
    )
    rows = []
    for line, files in zip(lines, sources, strict=True):
        row = {name: value(line) for name, (_, value) in COLUMNS.items()}
        row |= await comparisons.columns(line) | {
            "code": files[0].text if files else None,
            "other_names": [file.name for file in files[1:]],
            "other_codes": [file.text for file in files[1:]],
        }
        rows.append(row if publication is None else await publication.view(line, row))
    return rows


class _Publication:
    """What everybody may have of leaderboards: what a release of the kernel archive would have.

    `released` has the public versions of each leaderboard, by number.
    """

    def __init__(self, deps: Dependencies, released: Released, licence: str) -> None:
        self._deps, self._released, self._licence = deps, released, licence
        self._pseudonym_key = new_pseudonym_key()
        self._redactor = Redactor(())
        # Whether each participant accepts what a version requires.
        self._agreements: dict[tuple[str, int, str], bool] = {}

    @classmethod
    async def load(cls, deps: Dependencies, slugs: Sequence[str]) -> "_Publication":
        """Load what is public now. Raises `Refused` (`private_only`) and `Failed`."""
        boards, at = deps.ingest.boards, deps.clock()
        released = {slug: await boards.released_versions(slug, at) for slug in slugs}
        publication = cls(deps, released, await deps.read_client.release_licence())
        names = await deps.ingest.ports.account_store.personal_names()
        publication._redactor = Redactor(names)
        return publication

    async def has(self, line: SubmissionLine) -> bool:
        """Whether a submission is public: while its owner accepts what its version requires."""
        version, account = (
            self._released[line.problem].get(line.problem_version),
            line.participant_id,
        )
        if version is None or line.mode != "ranked" or line.is_withdrawn:
            return False
        key = line.problem, version.number, account
        if key not in self._agreements:
            consents = self._deps.ingest.consents
            self._agreements[key] = await consents.allows_release(account, line.problem, version)
        return self._agreements[key]

    async def view(self, line: SubmissionLine, row: Row) -> Row:
        """Return a row without names, and with its source only under a licence of its author."""
        licence, code = await self._licence_of(line), row["code"]
        names: list[str] = []
        codes: list[str] = []
        if licence is None or code is None:
            licence = code = None
        else:
            code = await self._redact(code, language_of(line.name))
            for name, other in zip(row["other_names"], row["other_codes"], strict=True):
                names.append(self._redactor.line(name))
                codes.append(await self._redact(other, code_language(name)))
        hidden = {"user_name": None, "file_name": None, "licence": licence, "code": code}
        hidden |= {"other_names": names, "other_codes": codes}
        return {**row, **hidden, "user_id": pseudonym(self._pseudonym_key, line.participant_id)}

    async def _redact(self, code: str, language: str) -> str:
        return (await asyncio.to_thread(self._redactor.source, code, language)).text

    async def _licence_of(self, line: SubmissionLine) -> str | None:
        history = await self._deps.ingest.ports.log.history(subjects.submission(line.id))
        own = [
            event.fact.licence for event in history if isinstance(event.fact, SubmissionReceived)
        ]
        account = self._deps.ingest.preferences.find(line.participant_id).licence
        licence = choose_licence(own[0] if own else NO_RELEASE, account, self._licence)
        return licence.name if licence else None
