"""The files of a data set: Parquet parts, and the manifest of each release."""

import hashlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ranker.releases.tables import BOOL, FLOATS, INSTANT, TABLES, TEXTS, Table
from shared.api.releases import Release, ReleaseFile
from shared.errors import Refused

FORMAT = "warpboard-release/1"
MANIFESTS = "releases"
DATA = "data"
# Rows that wait in memory for each part, in number and characters, and the most in one part. More
# groups of a part cost memory, too: each has an entry in the footer, which is written last.
GROUP_ROWS, GROUP_CHARACTERS, PART_ROWS_MAX = 10_000, 2_000_000, 1_000_000
PIECE_BYTES = 1024 * 1024


def arrow() -> Any:
    """Return pyarrow: importing it takes a third of a second and 60 MB."""
    return importlib.import_module("pyarrow")


def parquet() -> Any:
    """Return pyarrow's module for Parquet."""
    return importlib.import_module("pyarrow.parquet")


def schema_of(table: Table) -> Any:
    """The schema of a table, with the text of each column."""
    pa = arrow()
    types = {
        INSTANT: pa.timestamp("us", tz="UTC"),
        FLOATS: pa.list_(pa.float64()),
        TEXTS: pa.list_(pa.string()),
        BOOL: pa.bool_(),
    }
    return pa.schema(
        [
            pa.field(
                column.name,
                types.get(column.type) or getattr(pa, column.type)(),
                metadata={"description": column.text},
            )
            for column in table.columns
        ]
    )


class _Part:
    """One open Parquet file, and the rows that wait for it."""

    def __init__(self, path: Path, table: Table) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.rows = path, 0
        self._schema = schema_of(table)
        self._waiting: dict[str, list[Any]] = {column.name: [] for column in table.columns}
        self._count = self._characters = 0
        self._writer = parquet().ParquetWriter(path, self._schema, compression="zstd")

    def add(self, row: Mapping[str, Any]) -> None:
        for name, values in self._waiting.items():
            values.append(row.get(name))
        self._count += 1
        self._characters += len(row.get("code") or "")
        self._characters += sum(map(len, row.get("other_codes") or ()))
        if self._count == GROUP_ROWS or self._characters >= GROUP_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        if self._count:
            pa = arrow()
            batch = pa.table(
                [pa.array(self._waiting[field.name], field.type) for field in self._schema],
                schema=self._schema,
            )
            self._writer.write_table(batch)
            self.rows += self._count
            self._count = self._characters = 0
            for values in self._waiting.values():
                values.clear()

    def close(self) -> None:
        self.flush()
        self._writer.close()


class Parts:
    """The new Parquet files of a release, below a folder: one for each table and split, or more."""

    def __init__(self, folder: Path, release: int) -> None:
        self.folder, self._release = folder, release
        self._open: dict[tuple[str, str], _Part] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self.files: list[ReleaseFile] = []

    def add(self, table: str, split: str, row: Mapping[str, Any]) -> None:
        """Add a row."""
        part = self._open.get((table, split))
        if part is None:
            part = self._open[table, split] = self._next(table, split)
        part.add(row)
        if part.rows >= PART_ROWS_MAX:
            self._end(table, split)

    def close(self) -> None:
        """Finish all files."""
        for table, split in sorted(self._open):
            self._end(table, split)

    def _next(self, table: str, split: str) -> _Part:
        count = self._counts[table, split] = self._counts.get((table, split), 0) + 1
        path = self.folder / DATA / table / split / f"{self._release:06}-{count:03}.parquet"
        return _Part(path, TABLES[table])

    def _end(self, table: str, split: str) -> None:
        part = self._open.pop((table, split))
        part.close()
        self.files.append(describe(self.folder, part.path, table, split, part.rows))


def describe(
    folder: Path, path: Path, table: str = "", split: str = "", rows: int = 0
) -> ReleaseFile:
    """Return a file's entry in a manifest."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    name = path.relative_to(folder).as_posix()
    return ReleaseFile(
        path=name, table=table, split=split, rows=rows, bytes=size, sha256=digest.hexdigest()
    )


def read_column(path: Path, name: str) -> list[Any]:
    """Return a column of a part."""
    values: list[Any] = parquet().read_table(path, columns=[name]).column(0).to_pylist()
    return values


def rewrite_part(
    source: Path,
    target: Path,
    table: str,
    leaves: Callable[[Mapping[str, Any]], bool],
    by: Sequence[str],
) -> int:
    """Copy a part without the rows that leave, judged by the columns `by`; returns their number.

    A part of an earlier version gets the columns that the table has since then, without values.
    Otherwise, nothing is written if no row leaves.
    """
    file, schema = parquet().ParquetFile(source), schema_of(TABLES[table])
    batches = file.iter_batches(GROUP_ROWS, columns=list(by)) if by else ()
    masks = [[not leaves(row) for row in batch.to_pylist()] for batch in batches]
    if all(map(all, masks)) and file.schema_arrow.names == schema.names:
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    pa, removed = arrow(), 0
    with parquet().ParquetWriter(target, schema, compression="zstd") as writer:
        for number, batch in enumerate(file.iter_batches(GROUP_ROWS)):
            rows = pa.Table.from_batches([batch])
            for field in schema:
                if field.name not in rows.column_names:
                    rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
            remaining = rows.filter(pa.array(masks[number])) if masks else rows
            removed += rows.num_rows - remaining.num_rows
            writer.write_table(remaining.select(schema.names).cast(schema))
    return removed


def manifest_path(folder: Path, number: int) -> Path:
    """The path of a release's manifest."""
    return folder / MANIFESTS / f"{number:06}.json"


def read_releases(folder: Path) -> list[Release]:
    """Return all releases of a data set, the oldest first. Raises Refused if one is damaged."""
    return [read_manifest(path) for path in sorted((folder / MANIFESTS).glob("[0-9]*.json"))]


def read_manifest(path: Path) -> Release:
    """Return the release of a manifest. Raises Refused."""
    try:
        release = msgspec.json.decode(path.read_bytes(), type=Release)
    except (OSError, msgspec.DecodeError) as error:
        raise Refused("bad_release", f"{path} is not the manifest of a release: {error}") from error
    if release.format != FORMAT:
        raise Refused("bad_release", f"{path} has the format {release.format!r}, not {FORMAT!r}")
    return release


def read_rows(folder: Path, release: Release, table: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a table in a release, file by file."""
    for file in sorted(release.files, key=lambda file: file.path):
        if file.table == table:
            for batch in parquet().ParquetFile(folder / file.path).iter_batches(GROUP_ROWS):
                yield from batch.to_pylist()


def paths_of(files: Iterable[ReleaseFile]) -> set[str]:
    """Return the paths of files."""
    return {file.path for file in files}
