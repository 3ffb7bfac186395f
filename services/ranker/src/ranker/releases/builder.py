"""Builds a release: what the log has gained since the previous one, in bounded memory.

The log is read twice: once for what may be published, and once for the rows. Everything else is
derived from it and from the key of the data set, so that the same log gives the same bytes; the
time by which embargoes are judged is that of the log's last event.
"""

import asyncio
import copy
import gzip
import hashlib
import shutil
import tempfile
import zlib
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ranker.releases import exchange
from ranker.releases.card import card_lines
from ranker.releases.files import (
    FORMAT,
    MANIFESTS,
    Parts,
    describe,
    manifest_path,
    paths_of,
    read_releases,
    rewrite_part,
)
from ranker.releases.index import Index
from ranker.releases.lineage import LineageFold, Signatures
from ranker.releases.publication import Publication
from ranker.releases.rows import (
    PRECISION,
    REDUCED,
    Privacy,
    Publications,
    RowFold,
    SamplesRequest,
    SourceRequest,
)
from ranker.releases.tables import TABLES, schema_lines
from ranker.releases.views import write_views
from ranker.service.progress import log_progress
from shared.api.releases import Release, ReleaseFile, TableChange
from shared.blobs import BlobNotFound, BlobStore
from shared.errors import Refused
from shared.event_log import EventSource, RecordedEvent
from shared.private_files import open_private
from shared.problems.flashinfer_schema import DEFINITION, Definition
from shared.pseudonyms import KEY_BYTES, new_pseudonym_key
from shared.redaction import Redactor
from shared.source_files import code_language, join_texts, unpack_files

# Blobs are read concurrently.
AT_ONCE = 8
SAMPLES_BYTES_MAX = 32 * 1024 * 1024
WORK = ".part"
SCHEMA, CARD = "SCHEMA.md", "README.md"


class Dataset(NamedTuple):
    """A data set: its folder, its key, the operator's licence, and the names to replace.

    `signatures` is the file in which the signatures of sources are kept for the next release.
    """

    folder: Path
    key: bytes
    licence: str
    names: Collection[str]
    signatures: Path | None = None


def load_dataset_key(path: Path) -> bytes:
    """Return the key of a data set, which is generated at first. Raises Refused."""
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_private(path) as file:
                file.write(new_pseudonym_key().hex().encode())
        key = bytes.fromhex(path.read_text())
    except (OSError, ValueError) as error:
        raise Refused("bad_file", f"{path} is not the key of a data set: {error}") from error
    if len(key) != KEY_BYTES:
        raise Refused("bad_file", f"{path} is not the key of a data set")
    return key


async def build_release(
    log: EventSource, blobs: BlobStore, dataset: Dataset, seq: int | None = None
) -> Release:
    """Write the next release, up to an event; the newest one if it has that event already.

    Raises Refused, and Failed if the log or the blobs cannot be read.
    """
    releases = await asyncio.to_thread(read_releases, dataset.folder)
    previous = releases[-1] if releases else None
    until = seq or await log.last()
    if not until:
        raise Refused("wrong_state", "the log has no event yet: there is nothing to release")
    if previous is not None and previous.seq >= until:
        if seq is None and previous.seq > until:
            raise _other_log(previous)
        return previous
    work = dataset.folder / WORK
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            span = _Span(previous, until)
            build = _Build(log, blobs, dataset, span, Path(scratch, "index"))
            release = await build.run()
        await asyncio.to_thread(_install, dataset.folder, work, release, previous)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return release


def _other_log(previous: Release) -> Refused:
    message = (
        f"release {previous.number} ends at event {previous.seq}, where this log has another "
        "event, or none: it lost its end, or is of another platform; choose another folder"
    )
    return Refused("bad_release", message, "folder")


class _Span(NamedTuple):
    """What a release adds: the events after the previous one, up to another."""

    previous: Release | None
    until: int


def _digest_of(event: RecordedEvent) -> str:
    """The SHA-256 of an event as the log has it."""
    return hashlib.sha256(event.body).hexdigest()


class _Build:
    def __init__(
        self, log: EventSource, blobs: BlobStore, dataset: Dataset, span: _Span, index: Path
    ) -> None:
        self.log, self.blobs, self.dataset, self.index = log, blobs, dataset, index
        self.previous, self.until = previous, _ = span
        self.work = dataset.folder / WORK
        self.number = previous.number + 1 if previous else 1
        self.redactor = Redactor(dataset.names)
        self.parts = Parts(self.work, self.number)
        self.last_event = ""

    async def run(self) -> Release:
        """Write all files, and return the release without installing it."""
        now, before = await self._read_publications()
        index = Index(self.index)
        after = self.previous.seq if self.previous else 0
        privacy = Privacy(self.dataset.key, self.redactor)
        fold = RowFold(index, Publications(now, before, after), privacy)
        lineage = LineageFold(index, self.dataset.key)
        signatures_file = self.dataset.signatures or self.index.with_suffix(".signatures")
        try:
            with Signatures(signatures_file, self._read) as signatures:
                async with aclosing(_pages(self.log, self.until, "rows")) as pages:
                    async for page in pages:
                        for event in page:
                            for table, split, row in fold.fold(event):
                                self.parts.add(table, split, row)
                        await self._add_blobs(fold)
                        await self._add_lineage(fold, lineage, signatures)
        finally:
            index.close()
        self.parts.close()
        earlier, removed = await asyncio.to_thread(self._keep_parts, fold, now, before)
        definitions = await self._read_definitions(now)
        return await asyncio.to_thread(self._describe, now, earlier, removed, definitions)

    async def _read_definitions(self, now: Publication) -> dict[str, Definition]:
        """The definitions of FlashInfer-Trace that public problems were made of, by their names."""
        definitions: dict[str, Definition] = {}
        for slug in sorted(slug for slug in now.problems if now.shows_problem(slug)):
            for number, version in sorted(now.problems[slug].versions.items()):
                blob = version.files.get(DEFINITION)
                data = await self._read(blob.digest) if blob else None
                if data is not None:
                    name = exchange.definition_name(slug, number)
                    definitions[name] = exchange.redact_definition(data, name, self.redactor)
        return definitions

    async def _read_publications(self) -> tuple[Publication, Publication | None]:
        """The publications at this release and at the previous one.

        Raises Refused if the log is not the one of the previous release.
        """
        now, before = Publication(self.dataset.licence), None
        async with aclosing(_pages(self.log, self.until, "settings")) as pages:
            async for page in pages:
                for event in page:
                    now.fold(event)
                    if self.previous and self._is_end_of(self.previous, event):
                        before = copy.deepcopy(now)
                        before.licence = self.previous.licence
                    if event.seq == self.until:
                        self.last_event = _digest_of(event)
        if self.previous and before is None:
            raise _other_log(self.previous)
        return now, before

    @staticmethod
    def _is_end_of(release: Release, event: RecordedEvent) -> bool:
        return event.seq == release.seq and _digest_of(event) == release.event

    async def _add_blobs(self, fold: RowFold) -> None:
        """Add the sources and samples that the last events made public."""
        sources, samples = fold.sources, fold.samples
        fold.sources, fold.samples = [], []
        for first in range(0, len(sources), AT_ONCE):
            some = sources[first : first + AT_ONCE]
            blobs = await asyncio.gather(*(self._read(it.blob.digest) for it in some))
            for request, data in zip(some, blobs, strict=True):
                if data is not None:
                    self._add_source(request, data)
        for block in samples:
            data = await self._read(block.blob.digest)
            if data is not None:
                self._add_samples(fold, block, data)

    async def _add_lineage(
        self, fold: RowFold, lineage: LineageFold, signatures: Signatures
    ) -> None:
        """Add what the last submissions come from."""
        requests, fold.lineage = fold.lineage, []
        known = await signatures.of({request.digest for request in requests})
        for request in requests:
            for row in lineage.fold(request, known[request.digest]):
                self.parts.add("lineage", request.split, row)

    async def _read(self, digest: str) -> bytes | None:
        try:
            return await self.blobs.get(digest)
        except BlobNotFound:
            return None

    def _add_source(self, request: SourceRequest, data: bytes) -> None:
        files = unpack_files("", data)
        languages = [request.row["language"], *(code_language(file.name) for file in files[1:])]
        entry, *others = [
            self.redactor.source(file.text, language)
            for file, language in zip(files, languages, strict=True)
        ]
        row = request.row | {
            "code": entry.text,
            "other_names": [self.redactor.line(file.name) for file in files[1:]],
            "other_codes": [other.text for other in others],
            "redactions": sum(redacted.replaced for redacted in (entry, *others)),
        }
        self.parts.add("sources", request.split, row)
        label = request.precision
        if REDUCED.search(join_texts(files)):
            label = label | {"value": "reduced"}
        self.parts.add("labels", request.split, label)

    def _add_samples(self, fold: RowFold, request: SamplesRequest, data: bytes) -> None:
        for name, processes in _read_samples(data).items():
            if name in request.hidden:
                continue
            for process, record in enumerate(processes):
                for pair, blocks in enumerate(record.pairs):
                    for side, block in (("A", blocks.A), ("B", blocks.B)):
                        if block is not None:
                            row = request.row | {
                                "case": fold.case_name(name),
                                "process": process,
                                "pair": pair,
                                "side": side,
                                "time_us": block.time_us,
                            }
                            self.parts.add("samples", request.split, row)

    def _keep_parts(
        self, fold: RowFold, now: Publication, before: Publication | None
    ) -> tuple[list[ReleaseFile], dict[str, int]]:
        """The earlier parts, rewritten without the rows that left; and how many of each table."""
        files: list[ReleaseFile] = []
        removed: dict[str, int] = {}
        closed = {
            slug
            for slug in (before.problems if before else ())
            if before and before.shows_problem(slug) and not now.shows_problem(slug)
        }
        for file in self.previous.files if self.previous else ():
            if not file.table:
                continue
            by, leaves = _leaving(file.table, fold, closed)
            stem = Path(file.path)
            target = self.work / stem.with_name(f"{stem.stem}-r{self.number}.parquet")
            source = self.dataset.folder / file.path
            count = rewrite_part(source, target, file.table, leaves, by)
            removed[file.table] = removed.get(file.table, 0) + count
            rows = file.rows - count
            is_same = not target.exists()
            files.append(
                file if is_same else describe(self.work, target, file.table, file.split, rows)
            )
        return files, removed

    def _describe(
        self,
        now: Publication,
        earlier: Sequence[ReleaseFile],
        removed: Mapping[str, int],
        definitions: Mapping[str, Definition],
    ) -> Release:
        """Write the pages and the exchange formats, and return the whole release."""
        files = sorted([*earlier, *self.parts.files], key=lambda file: file.path)
        tables = {
            name: TableChange(
                rows=sum(file.rows for file in files if file.table == name),
                added=sum(file.rows for file in self.parts.files if file.table == name),
                removed=removed.get(name, 0),
            )
            for name in TABLES
        }
        release = Release(
            format=FORMAT,
            number=self.number,
            previous=self.previous.number if self.previous else None,
            seq=self.until,
            event=self.last_event,
            at=now.at,
            licence=self.dataset.licence,
            tables=tables,
            files=files,
            added=[],
            removed=[],
        )
        reader = exchange.ReleaseReader(release, (self.work, self.dataset.folder))
        pages = exchange.write(reader, self.work, definitions)
        pages += write_views(reader, self.work)
        for name, lines in ((SCHEMA, schema_lines()), (CARD, card_lines(release))):
            path = self.work / name
            path.write_text("".join(f"{line}\n" for line in lines))
            pages.append(describe(self.work, path))
        files = sorted([*files, *pages], key=lambda file: file.path)
        known_paths = paths_of(self.previous.files) if self.previous else set()
        return msgspec.structs.replace(
            release,
            files=files,
            added=sorted(paths_of(files) - known_paths),
            removed=sorted(known_paths - paths_of(files)),
        )


def _leaving(table: str, fold: RowFold, closed: Collection[str]) -> tuple[list[str], Any]:
    """By which columns a table's rows leave, and which rows do."""
    names = {column.name for column in TABLES[table].columns}
    key = "number" if table == "submissions" else "submission"
    # With a source, what was seen in it leaves, too.
    without_source = fold.sources_removed if table in ("sources", "labels", "lineage") else set()
    by = [key] if key in names and table != "tombstones" and fold.removed | without_source else []
    by += [name for name in ("label", "parent") if by and name in names]
    by += ["problem"] if "problem" in names and closed else []

    def leaves(row: Mapping[str, Any]) -> bool:
        # A row of the lineage leaves with either of its submissions.
        numbers = {row.get(key), row.get("parent")}
        is_without_source = bool(numbers & without_source)
        is_without_source &= row.get("label") in (None, PRECISION)
        is_gone = bool(numbers & fold.removed) or row.get("problem") in closed
        return is_gone or is_without_source

    return by, leaves


def _install(folder: Path, work: Path, release: Release, previous: Release | None) -> None:
    """Move the files of a release into place, the manifest last; then drop what left."""
    for path in sorted(path for path in work.rglob("*") if path.is_file()):
        target = folder / path.relative_to(work)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
    manifest = manifest_path(folder, release.number)
    manifest.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder / MANIFESTS / f".{manifest.name}.part"
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(release)) + b"\n")
    fresh.replace(manifest)
    for name in release.removed if previous else ():
        (folder / name).unlink(missing_ok=True)


async def _pages(
    log: EventSource, until: int, step: str
) -> AsyncGenerator[Sequence[RecordedEvent], None]:
    """Yield the events up to a sequence, page by page."""
    feed, seq = log.follow(0), 0
    try:
        while seq < until:
            page = [event for event in await feed.take() if event.seq <= until]
            if not page:
                return
            yield page
            seq = page[-1].seq
            log_progress(step, seq, until)
    finally:
        await feed.close()


class _Block(msgspec.Struct):
    time_us: list[float] = []


class _Pair(msgspec.Struct):
    A: _Block | None = None
    B: _Block | None = None


class _Process(msgspec.Struct):
    pairs: list[_Pair] = []


class _Case(msgspec.Struct):
    processes: list[_Process] = []


class _Samples(msgspec.Struct):
    cases: dict[str, _Case] = {}


def _read_samples(data: bytes) -> dict[str, list[_Process]]:
    """Return the processes of each case; nothing if an agent wrote something else."""
    try:
        text = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(data, SAMPLES_BYTES_MAX)
        samples = msgspec.json.decode(text, type=_Samples)
    except (zlib.error, gzip.BadGzipFile, msgspec.DecodeError):
        return {}
    return {name: case.processes for name, case in samples.cases.items()}
