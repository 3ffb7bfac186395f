"""Rows as a Parquet file, piece by piece: of a whole leaderboard no more than a part is here."""

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any

# Rows go out in groups: so many at most, or once their texts are so long.
ROWS_MAX = 1000
CHARACTERS_MAX = 4_000_000

Row = Mapping[str, Any]


class _Pieces:
    """What was written since it was last taken, as pyarrow writes files."""

    closed = False

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: Any) -> int:
        """Take some bytes."""
        self._data += memoryview(data)
        return len(memoryview(data))

    def flush(self) -> None:
        """Do nothing: who takes the pieces sends them."""

    def take(self) -> bytes:
        """What is new."""
        taken = bytes(self._data)
        self._data.clear()
        return taken


async def parquet(
    rows: AsyncIterator[Row], columns: Mapping[str, str]
) -> AsyncGenerator[bytes, None]:
    """A Parquet file of these rows; the kinds of `columns` are pyarrow's own names of types.

    It ends in a footer, so that one that was cut off is no Parquet file.
    """
    # It takes a third of a second and 60 MB, and who exports nothing needs none of it.
    arrow: Any = await asyncio.to_thread(importlib.import_module, "pyarrow")
    files: Any = await asyncio.to_thread(importlib.import_module, "pyarrow.parquet")
    schema = arrow.schema([(name, _kind(arrow, kind)) for name, kind in columns.items()])
    pieces = _Pieces()
    writer = files.ParquetWriter(arrow.PythonFile(pieces, mode="w"), schema, compression="zstd")
    async for group in _groups(rows):
        table = arrow.Table.from_pylist([dict(row) for row in group], schema=schema)
        await asyncio.to_thread(writer.write_table, table)
        yield pieces.take()
    await asyncio.to_thread(writer.close)
    yield pieces.take()


def _kind(arrow: Any, name: str) -> Any:
    return arrow.timestamp("us", tz="UTC") if name == "instant" else getattr(arrow, name)()


async def _groups(rows: AsyncIterator[Row]) -> AsyncIterator[Sequence[Row]]:
    group: list[Row] = []
    length = 0
    async for row in rows:
        group.append(row)
        length += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(group) == ROWS_MAX or length >= CHARACTERS_MAX:
            yield group
            group, length = [], 0
    if group:
        yield group
