"""Views of a release, which are derived from its tables and written whole with each release."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ranker.domain.rows import LeaderboardKey
from ranker.releases.exchange import ReleaseReader
from ranker.releases.files import GROUP_ROWS, arrow, describe, parquet, schema_of
from ranker.releases.leaderboards import USED_TABLES, derive_standings
from ranker.releases.tables import VIEWS, VIEWS_FOLDER
from shared.api.audits import LeaderboardRow
from shared.api.releases import ReleaseFile

Row = Mapping[str, Any]
BEST_TIMES = "best_times"
_CASE_COLUMNS = ("run", "name", "stage", "is_hidden", "time_us", "low_us", "high_us")


class _Entry(NamedTuple):
    """An entry of a leaderboard."""

    board: LeaderboardKey
    row: LeaderboardRow


def write_views(reader: ReleaseReader, target: Path) -> list[ReleaseFile]:
    """Write the views below a folder, and return their files."""
    path = target / VIEWS_FOLDER / f"{BEST_TIMES}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    schema, count, waiting = schema_of(VIEWS[BEST_TIMES]), 0, list[Row]()
    with parquet().ParquetWriter(path, schema, compression="zstd") as writer:
        for row in _best_times(reader):
            waiting.append(row)
            if len(waiting) == GROUP_ROWS:
                writer.write_table(arrow().Table.from_pylist(waiting, schema=schema))
                count, waiting = count + len(waiting), []
        writer.write_table(arrow().Table.from_pylist(waiting, schema=schema))
    return [describe(target, path, rows=count + len(waiting))]


def _best_times(reader: ReleaseReader) -> Iterator[Row]:
    """Yield the entries of each leaderboard by their speed-up at each case, the fastest first."""
    entries = _read_entries(reader)
    by_case: defaultdict[tuple[LeaderboardKey, str], list[tuple[float, _Entry, Row]]]
    by_case = defaultdict(list)
    for case in reader.rows("cases", (*_CASE_COLUMNS, "yardstick_us")) if entries else ():
        entry = entries.get(case["run"])
        is_timed = case["stage"] == "time" and case["time_us"] and case["yardstick_us"]
        if entry is not None and is_timed and not case["is_hidden"]:
            speedup = case["yardstick_us"] / case["time_us"]
            by_case[entry.board, case["name"]].append((speedup, entry, case))
    for (board, name), timed in sorted(by_case.items(), key=lambda item: item[0]):
        timed.sort(key=lambda item: (-item[0], item[1].row.number))
        for place, (speedup, entry, case) in enumerate(timed, 1):
            yield {
                "problem": board.problem,
                "version": board.problem_number,
                "gpu": board.gpu,
                "case": name,
                "place": place,
                "submission": entry.row.number,
                "participant": entry.row.account,
                "rank": entry.row.rank,
                "time_us": case["time_us"],
                "low_us": case["low_us"],
                "high_us": case["high_us"],
                "yardstick_us": case["yardstick_us"],
                "speedup": speedup,
            }


def _read_entries(reader: ReleaseReader) -> dict[int, _Entry]:
    """Return the entries of all leaderboards at the release, by the run that counts."""
    release = reader.release
    tables = {table: reader.rows(table) for table in USED_TABLES}
    standings, entries = derive_standings(tables, release.seq), dict[int, _Entry]()
    for board in sorted(standings.results) if release.at is not None else ():
        assert release.at is not None, "a leaderboard has an event before it"
        for row in standings.board(board, release.at):
            run = standings.results[board][row.submission].run
            if run is not None:
                entries[int(run)] = _Entry(board, row)
    return entries
