"""Views of a release, which are derived from its tables and written whole with each release.

The leaderboards are ranked one after the other: what waits for its turn is on disk, so that memory
grows with the largest leaderboard, and not with the data set.
"""

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import lru_cache
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from ranker.domain.places import ScoredEntry, assign_places
from ranker.domain.rows import LeaderboardKey
from ranker.domain.standings import Standings
from ranker.releases.exchange import ReleaseReader
from ranker.releases.files import GROUP_ROWS, arrow, describe, parquet, schema_of
from ranker.releases.leaderboards import derive_standings, fold_tables, moves_leaderboards
from ranker.releases.tables import VIEWS, VIEWS_FOLDER
from shared.api.releases import ReleaseFile

Row = Mapping[str, Any]
BEST_TIMES = "best_times"
_SUBMISSION_COLUMNS = ("number", "problem", "gpu", "version", "participant", "source_group", "at")
_TIMED_COLUMNS = ("run", "name", "time_us", "low_us", "high_us", "yardstick_us")
_CACHE_KIB = 16 * 1024
_TABLES = (
    # The rows that an account's entries follow from, as MessagePack.
    "create table step (account text, kind text, data blob)",
    # The best entry of an account on a leaderboard, and then its rank.
    """create table entry (
        problem text, gpu text, version integer, number integer, score_us real, error real,
        freedom integer, delta real, source text, is_noisy integer, account text, run integer,
        rank integer
    )""",
    "create index entry_of_board on entry (problem, gpu, version)",
    "create index entry_of_run on entry (run)",
    """create table timed (
        run integer, name text, time_us real, low_us real, high_us real, yardstick_us real
    )""",
)
_INSERT_ENTRY = "insert into entry values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, null)"
_BEST_TIMES = """
    select problem, version, gpu, name as "case",
           row_number() over (
               partition by problem, gpu, version, name
               order by yardstick_us / time_us desc, number
           ) as place,
           number as submission, account as participant, rank, time_us, low_us, high_us,
           yardstick_us, yardstick_us / time_us as speedup
    from timed join entry using (run)
    order by problem, gpu, version, name, place
"""


def write_views(reader: ReleaseReader, target: Path) -> list[ReleaseFile]:
    """Write the views below a folder, and return their files."""
    path = target / VIEWS_FOLDER / f"{BEST_TIMES}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    schema, count = schema_of(VIEWS[BEST_TIMES]), 0
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(_open_database(Path(folder, BEST_TIMES))) as database,
        parquet().ParquetWriter(path, schema, compression="zstd") as writer,
    ):
        everybody = _fold_everybody(reader)
        _add_entries(reader, database, everybody)
        _rank_entries(database, everybody)
        _add_cases(reader, database)
        rows = iter(database.execute(_BEST_TIMES))
        while group := [dict(row) for row in islice(rows, GROUP_ROWS)]:
            writer.write_table(arrow().Table.from_pylist(group, schema=schema))
            count += len(group)
    return [describe(target, path, rows=count)]


def _open_database(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)
    database.row_factory = sqlite3.Row
    pragmas = ("journal_mode = off", "synchronous = off", f"cache_size = -{_CACHE_KIB}")
    for statement in (*(f"pragma {pragma}" for pragma in pragmas), *_TABLES, "begin"):
        database.execute(statement)
    return database


def _fold_everybody(reader: ReleaseReader) -> Standings:
    """Return what is not of one submission: bans, merges and duels."""
    labels = (row for row in reader.rows("labels") if row["submission"] is None)
    tables = {"labels": labels, "duels": reader.rows("duels")}
    return derive_standings(tables, reader.release.seq)


def _add_entries(reader: ReleaseReader, database: sqlite3.Connection, everybody: Standings) -> None:
    """Add the best entry of each account on each leaderboard, without ranks."""
    database.executemany("insert into step values (?, ?, ?)", _list_steps(reader, everybody.merged))
    steps = database.execute("select account, kind, data from step order by account")
    for _, own in groupby(steps, key=itemgetter("account")):
        tables: dict[str, list[Row]] = {}
        for step in own:
            tables.setdefault(step["kind"], []).append(msgspec.msgpack.decode(step["data"]))
        standings = Standings(banned=everybody.banned, merged=everybody.merged)
        fold_tables(standings, tables, reader.release.seq)
        database.executemany(_INSERT_ENTRY, _list_entries(reader, standings))
    database.execute("drop table step")


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
            if run is not None:
                yield (
                    *(board.problem, board.gpu, board.problem_number),
                    *(scored.number, scored.score_us, scored.error, scored.freedom, scored.delta),
                    *(scored.source, scored.is_noisy, entry.received.account, int(run)),
                )


def _rank_entries(database: sqlite3.Connection, everybody: Standings) -> None:
    """Rank the entries of one leaderboard after the other."""
    boards = database.execute("select distinct problem, gpu, version from entry").fetchall()
    for problem, gpu, version in boards:
        wins = everybody.wins.get(LeaderboardKey(problem, gpu, version), {})
        rows = database.execute(
            "select * from entry where problem = ? and gpu = ? and version = ?",
            (problem, gpu, version),
        ).fetchall()
        runs = {row["number"]: row["run"] for row in rows}
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
        database.executemany(
            "update entry set rank = ? where run = ?",
            [(place.rank, runs[place.number]) for place in places],
        )


def _add_cases(reader: ReleaseReader, database: sqlite3.Connection) -> None:
    """Add the public timed cases of the runs that entries have."""

    @lru_cache(maxsize=1)  # The cases of a run follow each other.
    def is_of_entry(run: int) -> bool:
        query = "select 1 from entry where run = ? limit 1"
        return database.execute(query, (run,)).fetchone() is not None

    database.executemany(
        "insert into timed values (?, ?, ?, ?, ?, ?)",
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
