"""Views of a release, which are derived from its tables and written whole with each release.

The leaderboards are ranked one after the other: what waits for its turn is on disk, so that memory
grows with the largest leaderboard, and not with the data set.
"""

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import msgspec

from ranker.domain.places import ScoredEntry, assign_places
from ranker.domain.rows import LeaderboardKey
from ranker.domain.standings import Standings
from ranker.releases.exchange import ReleaseReader
from ranker.releases.files import GROUP_ROWS, arrow, describe, parquet, schema_of
from ranker.releases.leaderboards import derive_standings, fold_tables, moves_leaderboards
from ranker.releases.tables import VIEWS, VIEWS_FOLDER
from shared.api.releases import ReleaseFile
from shared.postgres import load_statements

Row = Mapping[str, Any]
BEST_TIMES = "best_times"
_SUBMISSION_COLUMNS = ("number", "problem", "gpu", "version", "participant", "source_group", "at")
_TIMED_COLUMNS = ("run", "name", "time_us", "low_us", "high_us", "yardstick_us")
_CACHE_KIB = 16 * 1024
# The database is made by these statements, in order.
_MAKE = (
    *("create_steps", "create_entries", "index_entries_by_board", "index_entries_by_run"),
    "create_cases",
)


def write_views(reader: ReleaseReader, target: Path) -> list[ReleaseFile]:
    """Write the views below a folder, and return their files."""
    path = target / VIEWS_FOLDER / f"{BEST_TIMES}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    schema, count = schema_of(VIEWS[BEST_TIMES]), 0
    with (
        tempfile.TemporaryDirectory() as folder,
        _Database(Path(folder, BEST_TIMES)) as database,
        parquet().ParquetWriter(path, schema, compression="zstd") as writer,
    ):
        everybody = _fold_everybody(reader)
        _add_entries(reader, database, everybody)
        _rank_entries(database, everybody)
        _add_cases(reader, database)
        rows = database.run("best_times")
        while group := [dict(row) for row in islice(rows, GROUP_ROWS)]:
            writer.write_table(arrow().Table.from_pylist(group, schema=schema))
            count += len(group)
    return [describe(target, path, rows=count)]


class _Database:
    """A temporary SQLite file, from which leaderboards are read one at a time."""

    def __init__(self, path: Path) -> None:
        self._sql = load_statements("ranker.releases", "views.sql")
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        pragmas = ("journal_mode = off", "synchronous = off", f"cache_size = -{_CACHE_KIB}")
        tables = [self._sql[name] for name in _MAKE]
        for statement in (*(f"pragma {pragma}" for pragma in pragmas), *tables, "begin"):
            self._db.execute(statement)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def run(self, statement: str, *values: object) -> Iterator[sqlite3.Row]:
        """Run a statement, and return its rows."""
        return self._db.execute(self._sql[statement], values)

    def run_for_each(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement for each row of values."""
        self._db.executemany(self._sql[statement], rows)


def _fold_everybody(reader: ReleaseReader) -> Standings:
    """Return the standings with bans, merges and duels, which belong to no single submission."""
    labels = (row for row in reader.rows("labels") if row["submission"] is None)
    tables = {"labels": labels, "duels": reader.rows("duels")}
    return derive_standings(tables, reader.release.seq)


def _add_entries(reader: ReleaseReader, database: _Database, everybody: Standings) -> None:
    """Add the best entry of each account on each leaderboard, without ranks."""
    database.run_for_each("add_step", _list_steps(reader, everybody.merged))
    for _, own in groupby(database.run("steps"), key=itemgetter("account")):
        tables: dict[str, list[Row]] = {}
        for step in own:
            tables.setdefault(step["kind"], []).append(msgspec.msgpack.decode(step["data"]))
        standings = Standings(banned=everybody.banned, merged=everybody.merged)
        fold_tables(standings, tables, reader.release.seq)
        database.run_for_each("add_entry", _list_entries(reader, standings))
    database.run("drop_steps")


def _list_steps(
    reader: ReleaseReader, merged: Mapping[str, str]
) -> Iterator[tuple[str, str, bytes]]:
    """Yield the rows that entries follow from, with the account that each belongs to now."""
    tables: tuple[tuple[str, Iterable[Row]], ...] = (
        ("submissions", reader.rows("submissions", _SUBMISSION_COLUMNS)),
        ("verdicts", reader.rows("verdicts")),
        (
            "labels",
            (
                row
                for row in reader.rows("labels")
                if row["submission"] is not None and moves_leaderboards(row)
            ),
        ),
    )
    for kind, rows in tables:
        for row in rows:
            participant = row["participant"]
            yield merged.get(participant, participant), kind, msgspec.msgpack.encode(row)


def _list_entries(reader: ReleaseReader, standings: Standings) -> Iterator[tuple[object, ...]]:
    at = reader.release.at
    for board, results in standings.results.items():
        assert at is not None, "a leaderboard has an event before it"
        for entry in standings.best_entries(board, at):
            run, scored = results[entry.submission].run, entry.score({})
            yield (
                *(board.problem, board.gpu, board.problem_number),
                *(scored.number, scored.score_us, scored.error, scored.freedom, scored.delta),
                *(scored.source, scored.is_noisy, entry.received.account),
                None if run is None else int(run),
            )


def _rank_entries(database: _Database, everybody: Standings) -> None:
    """Rank the entries of one leaderboard after the other."""
    for board in [LeaderboardKey(*row) for row in database.run("boards")]:
        wins, rows = everybody.wins.get(board, {}), [*database.run("entries", *board)]
        ids = {row["number"]: row["id"] for row in rows}
        places = assign_places(
            [
                ScoredEntry(
                    *(row["number"], row["score_us"], row["error"], row["freedom"], row["delta"]),
                    row["source"],
                    wins.get(row["source"], {}),
                    is_noisy=bool(row["is_noisy"]),
                )
                for row in rows
            ]
        )
        ranks = [(place.rank, ids[place.number]) for place in places]
        database.run_for_each("set_rank", ranks)


def _add_cases(reader: ReleaseReader, database: _Database) -> None:
    """Add the public timed cases of the runs that entries have."""

    @lru_cache(maxsize=1)  # The cases of a run follow each other.
    def is_of_entry(run: int) -> bool:
        return bool([*database.run("has_entry", run)])

    database.run_for_each(
        "add_case",
        (
            tuple(case[name] for name in _TIMED_COLUMNS)
            for case in reader.rows("cases", (*_TIMED_COLUMNS, "stage", "is_hidden"))
            if case["stage"] == "time"
            and not case["is_hidden"]
            and case["time_us"]
            and case["yardstick_us"]
            and is_of_entry(case["run"])
        ),
    )
