"""Releases of the kernel archive: what others load equals what the platform shows."""

import asyncio
import fcntl
import hashlib
import itertools
import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from msgspec import structs

from ingest.site.archive import LOAD
from ranker.domain.rows import LeaderboardKey
from ranker.domain.standings import Standings
from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.releases.builder import Dataset, build_release
from ranker.releases.files import read_releases
from ranker.releases.leaderboards import USED_TABLES as USED
from ranker.releases.leaderboards import derive_standings
from ranker.releases.rows import family_of, split_of
from ranker.releases.service import HOUR_S, key_path, release, release_regularly
from ranker.releases.tables import TABLES
from ranker.service.progress import Live, ProjectionProgress
from shared import events, subjects
from shared.api.audits import LeaderboardRow
from shared.api.releases import Release
from shared.blobs import BlobStore
from shared.errors import Refused
from shared.event_log import EventLog, NewEvent, RecordedEvent
from shared.nats.event_log import NatsLog
from shared.postgres import connect
from shared.problems.compilation import compile_problem
from shared.problems.flashinfer_schema import read_schema
from shared.pseudonyms import pseudonym
from tests.support.lives import T0, problem, say
from tests.support.log_lines import collect_warnings
from tests.support.memory import MemoryBlobStore, MemoryLog
from tests.support.populated import CLOSED, FREE, GPUS, NEVER, Population, populate
from tests.support.waits import eventually
from warpboard.files import read_submission

KEY = b"k" * 32
SLUGS = ("softmax", "matmul", "kernelbench-1-1-add", "kernelbench-1-2-relu")
Row = dict[str, Any]


def dataset(folder: Path, *, names: Sequence[str] = (), key: bytes = KEY) -> Dataset:
    return Dataset(folder, key, "CC-BY-4.0", names)


async def history(log: EventLog) -> list[RecordedEvent]:
    feed, found = log.follow(0), list[RecordedEvent]()
    while len(found) < await log.last():
        found += await feed.take()
    await feed.close()
    return found


# Each reader is imported when it is used: every worker collects this file, in every tier.
def load_by_pandas(folder: Path, table: str) -> list[Row]:
    import pandas as pd  # type: ignore[import-untyped]

    frame = pd.read_parquet(folder / "data" / table, dtype_backend="pyarrow")
    columns = {name: frame[name].array._pa_array.to_pylist() for name in frame}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def load_by_polars(folder: Path, table: str) -> list[Row]:
    import polars as pl

    return pl.read_parquet(folder / "data" / table / "**/*.parquet").to_dicts()


def load_by_duckdb(folder: Path, table: str) -> list[Row]:
    import duckdb

    files = f"{folder}/data/{table}/**/*.parquet"
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        found = connection.execute("select * from read_parquet(?)", [files])
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


READERS = {"pandas": load_by_pandas, "polars": load_by_polars, "duckdb": load_by_duckdb}


def expected_standings(recorded: Sequence[RecordedEvent], seq: int) -> Standings:
    """What the platform shows after an event, without what was withdrawn since."""
    standings = Standings()
    for event in recorded:
        if event.seq <= seq or isinstance(event.fact, events.SubmissionWithdrawn):
            standings.fold(event)
    return standings


def boards(slugs: Iterable[str]) -> list[LeaderboardKey]:
    return [LeaderboardKey(*key) for key in itertools.product(slugs, GPUS, (1, 2, 3))]


def anonymous(row: LeaderboardRow, key: bytes) -> LeaderboardRow:
    source = pseudonym(key, f"source/{row.source}").replace("p-", "s-", 1)
    account = pseudonym(key, row.account)
    return structs.replace(row, account=account, submission=str(row.number), source=source)


def check_leaderboards(
    folder: Path, recorded: Sequence[RecordedEvent], slugs: Sequence[str], seqs: Sequence[int]
) -> None:
    """Compare every leaderboard at these events, from each reader's tables."""
    wanted = {seq: expected_standings(recorded, seq) for seq in seqs}
    at, entries = recorded[-1].envelope.at, 0
    for load in READERS.values():
        tables = {table: load(folder, table) for table in USED}
        for seq in seqs:
            derived = derive_standings(tables, seq)
            for board in boards(slugs):
                expected = [anonymous(row, KEY) for row in wanted[seq].board(board, at)]
                assert derived.board(board, at) == expected
                entries += len(expected)
    assert entries > 100


async def check_population(
    log: EventLog, blobs: BlobStore, slugs: Sequence[str], submissions: int, folder: Path
) -> list[Release]:
    """Populate a log, release it twice, and compare every leaderboard with the log's."""
    await populate(log, blobs, Population(list(slugs), submissions))
    recorded = await history(log)
    last = len(recorded)
    await build_release(log, blobs, dataset(folder), last // 2)
    await build_release(log, blobs, dataset(folder))
    seqs = [last, last // 4, last // 2, 3 * last // 4]
    check_leaderboards(folder, recorded, [*slugs, FREE, NEVER], seqs)
    return read_releases(folder)


@pytest.mark.feature("D2", "N6")
async def test_every_leaderboard_is_derived_again_from_the_tables(tmp_path: Path) -> None:
    log, blobs = MemoryLog(), MemoryBlobStore()
    first, second = await check_population(log, blobs, SLUGS, 400, tmp_path)
    # The second release has the first one's files, but for those that lost rows.
    kept = {file.path: file.sha256 for file in first.files if file.table}
    again = {file.path: file.sha256 for file in second.files}
    assert all(again[path] == kept[path] for path in kept.keys() & again.keys())
    assert first.seq < second.seq
    numbers = {row["number"] for row in load_by_polars(tmp_path, "submissions")}
    gone = {row["submission"] for row in load_by_polars(tmp_path, "tombstones")}
    assert gone
    assert not gone & numbers
    assert all(row["problem"] != CLOSED for row in load_by_polars(tmp_path, "submissions"))
    check_foreign_keys(tmp_path)
    check_best_times(tmp_path, await history(log))


def check_best_times(folder: Path, recorded: Sequence[RecordedEvent]) -> None:
    """Compare the view of each case with the runs of the log's own leaderboards."""
    import polars as pl

    at, standings = recorded[-1].envelope.at, expected_standings(recorded, len(recorded))
    cases = {
        subjects.last_token(event.envelope.aggregate): event.fact.cases
        for event in recorded
        if isinstance(event.fact, events.RunCompleted)
    }
    expected: dict[tuple[str, str, int, str], list[tuple[float, int, str, int]]] = {}
    for board in boards(SLUGS):
        for row in standings.board(board, at):
            run = standings.results[board][row.submission].run or ""
            # Runs of rejudges have no events in this population.
            for case in cases.get(run, ()):
                if case.stage == "time" and case.time_us and case.yardstick_us:
                    key = board.problem, board.gpu, board.problem_number, case.name
                    ratio, name = -case.yardstick_us / case.time_us, pseudonym(KEY, row.account)
                    expected.setdefault(key, []).append((ratio, row.number, name, row.rank))
    view: dict[tuple[str, str, int, str], list[tuple[float, int, str, int]]] = {}
    for it in pl.read_parquet(folder / "views" / "best_times.parquet").to_dicts():
        if it["problem"] in SLUGS:
            key = it["problem"], it["gpu"], it["version"], it["case"]
            item = -it["speedup"], it["submission"], it["participant"], it["rank"]
            view.setdefault(key, []).append(item)
            assert it["place"] == len(view[key])
    assert len(view) > 4
    assert view == {key: sorted(items) for key, items in expected.items()}


def check_foreign_keys(folder: Path) -> None:
    for name, table in TABLES.items():
        if not (folder / "data" / name).exists():
            continue
        rows = load_by_polars(folder, name)
        for column in table.columns:
            if column.references:
                target, key = column.references.split(".")
                known = {row[key] for row in load_by_polars(folder, target)}
                assert {row[column.name] for row in rows} - {None} <= known, (name, column.name)


@pytest.mark.feature("N21")
async def test_a_withdrawn_submission_leaves_and_its_file_is_gone(tmp_path: Path) -> None:
    log, blobs = MemoryLog(), MemoryBlobStore()
    await populate(log, blobs, Population(list(SLUGS), 60))
    first = await build_release(log, blobs, dataset(tmp_path))
    gone = load_by_polars(tmp_path, "sources")[0]["submission"]
    received = next(event for event in await history(log) if event.seq == gone)
    id_ = subjects.last_token(received.envelope.aggregate)
    await say(log, subjects.moderation(id_), events.SubmissionWithdrawn(reason="mine"))
    second = await build_release(log, blobs, dataset(tmp_path))
    for name, change in second.tables.items():
        rows = load_by_polars(tmp_path, name) if change.rows else []
        assert len(rows) == change.rows
        column = "number" if name == "submissions" else "submission"
        numbers = {row.get(column) for row in rows}
        assert (gone in numbers) == (name == "tombstones"), name
        assert not change.added or name == "tombstones", name
    assert {second.tables[name].removed for name in ("submissions", "sources", "runs")} == {1}
    async with reads(tmp_path, log) as http:
        shown = (await http.get("/v1/archive/releases")).json()["items"]
        assert [release["number"] for release in shown] == [2, 1]
        whole = (await http.get("/v1/archive/releases/2")).json()
        assert whole["removed"] == second.removed
        for file in whole["files"]:
            data = (await http.get(f"/v1/archive/files/{file['sha256']}")).content
            assert hashlib.sha256(data).hexdigest() == file["sha256"]
        lost = next(file for file in first.files if file.path in second.removed and file.table)
        assert (await http.get(f"/v1/archive/files/{lost.sha256}")).status_code == 404
        assert (await http.get("/v1/archive/releases/3")).status_code == 404


@pytest.mark.feature("N9", "D3")
async def test_merged_accounts_are_one_participant_until_they_are_separated(
    tmp_path: Path,
) -> None:
    log, blobs = MemoryLog(), MemoryBlobStore()
    await populate(log, blobs, Population(list(SLUGS), 120))
    recorded = await history(log)
    at, standings = recorded[-1].envelope.at, expected_standings(recorded, len(recorded))
    placed = {row.account for board in boards(SLUGS) for row in standings.board(board, at)}
    part, into = sorted(placed)[:2]
    merged = events.AccountMerged(into=into, undo_until_at=T0)
    seqs = [await log.last()]
    for fact in (merged, events.MergeUndone(into=into), merged):
        await say(log, subjects.account(part), fact)
        seqs.append(await log.last())
        await build_release(log, blobs, dataset(tmp_path))
    recorded = await history(log)
    names = {it: pseudonym(KEY, it) for it in (part, into)}
    labels = [
        (row["label"], row["participant"], row["value"])
        for row in sorted(load_by_polars(tmp_path, "labels"), key=lambda row: row["seq"])
        if row["label"] in ("merged", "separated")
    ]
    assert labels == [(it, names[part], names[into]) for it in ("merged", "separated", "merged")]
    # The part has rows of its own, but no place beside the whole.
    tables = {
        table: load_by_polars(tmp_path, table) if (tmp_path / "data" / table).exists() else []
        for table in USED
    }
    assert names[part] in {row["participant"] for row in tables["submissions"]}
    at = recorded[-1].envelope.at
    for seq, has_part in zip(seqs, (True, False, True, False), strict=True):
        derived, expected = derive_standings(tables, seq), expected_standings(recorded, seq)
        shown = [row for board in boards(SLUGS) for row in derived.board(board, at)]
        assert shown == [
            anonymous(row, KEY) for board in boards(SLUGS) for row in expected.board(board, at)
        ]
        assert (names[part] in {row.account for row in shown}) == has_part


@asynccontextmanager
async def reads(folder: Path, log: EventLog) -> AsyncIterator[httpx.AsyncClient]:
    """The read API with the releases of a folder, as ranker serves it."""
    nothing = cast("Any", None)
    progress = ProjectionProgress()
    sources = ReadSources(nothing, progress, Live(), log.last, nothing, releases=folder)
    transport = httpx.ASGITransport(create_app(sources), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://ranker") as http:
        yield http


@pytest.mark.feature("D1")
async def test_others_read_the_exchange_formats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, blobs = MemoryLog(), MemoryBlobStore()
    await populate(log, blobs, Population(list(SLUGS), 200))
    release = await build_release(log, blobs, dataset(tmp_path))
    check_solutions(tmp_path)
    check_kernelbench(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets  # type: ignore[import-untyped]

    sources = datasets.load_dataset(str(tmp_path), "sources", cache_dir=str(tmp_path / "cache"))
    assert sum(part.num_rows for part in sources.values()) == release.tables["sources"].rows
    families: dict[str, set[str]] = {}
    for split, part in sources.items():
        for slug in part["problem"]:
            families.setdefault(family_of(slug), set()).add(split)
    assert all(splits == {split_of(family)} for family, splits in families.items())


@pytest.mark.feature("D6")
async def test_the_definition_of_a_problem_is_read_by_a_loader_of_its_form(tmp_path: Path) -> None:
    log, blobs = MemoryLog(), MemoryBlobStore()
    await populate(log, blobs, Population(list(SLUGS), 30))
    example = Path("tests/problems/flashinfer")
    document = json.loads((example / "definitions/norm/ragged_norm_h8.json").read_text())
    document["description"] = "By zorgblat, see /home/zorgblat/norm"
    document["reference"] += "\n# zorgblat@example.org wrote it\n"
    blob = await blobs.put(json.dumps(document).encode())
    version = structs.replace(problem(), files={"definition.json": blob}, publish="always")
    await say(log, subjects.problem("ragged-norm"), version)
    closing = events.LeaderboardChanged(visibility="closed", reason="")
    await say(log, subjects.problem("hidden-norm"), version)
    await say(log, subjects.problem("hidden-norm"), closing)
    await build_release(log, blobs, dataset(tmp_path, names=["zorgblat"]))
    (path,) = (tmp_path / "exchange/flashinfer/definitions").rglob("*.json")
    definition = read_schema(path.read_bytes())
    assert definition.name == path.stem == "ragged-norm-v1"
    assert definition.description == "By [name], see [path]"
    assert "zorgblat" not in path.read_text()
    assert definition.axes == read_schema(json.dumps(document).encode()).axes
    # With its workloads it is a problem again.
    workloads = next((example / "workloads").rglob("*.jsonl")).read_bytes()
    tensors = {
        f"tensors/{file.relative_to(example)}": file.read_bytes()
        for file in (example / "tensors").rglob("*.safetensors")
    }
    files = {"definition.json": path.read_bytes(), "workloads.jsonl": workloads, **tensors}
    again = compile_problem("again", files | {"warpboard.yml": b"gpus: [CPU]\n"})
    assert b"zorgblat" not in b"".join(again.files.values())


@pytest.mark.feature("D7")
async def test_a_data_set_is_loaded_as_the_page_and_the_card_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, blobs = MemoryLog(), MemoryBlobStore()
    await populate(log, blobs, Population(list(SLUGS), 60))
    folder = tmp_path / "kernels"
    release = await build_release(log, blobs, dataset(folder))
    rows = release.tables["verdicts"].rows
    card = (folder / "README.md").read_text()
    guide = await asyncio.to_thread(GUIDE.read_text)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for _, module, line in LOAD:
        names: dict[str, Any] = {}
        exec(f"import {module}\nverdicts = {line}\nprint(verdicts)", names)  # noqa: S102  (the page's own lines)
        assert len(names["verdicts"]) == rows, module
    (block,) = re.findall(r"## Loading\n\n```python\n(.*?)```", guide, re.DOTALL)
    names = {}
    exec(block, names)  # noqa: S102
    assert len(names["verdicts"]) == rows
    monkeypatch.chdir(folder)
    for name, module, line in (
        ("pandas", "pandas", "{}"),
        ("polars", "polars", "{}"),
        ("DuckDB", "duckdb", 'duckdb.sql("{}").df()'),
    ):
        (code,) = re.findall(rf"- {name}: `([^`]*)`", card)
        names = {}
        exec(f"import {module}\nverdicts = {line.format(code)}", names)  # noqa: S102
        assert len(names["verdicts"]) == rows, name


def check_solutions(folder: Path) -> None:
    """A solution is one that `warpboard submit` takes, and each trace names one."""
    root = folder / "exchange/flashinfer"
    sources = {row["submission"]: row["code"] for row in load_by_polars(folder, "sources")}
    paths = list(root.glob("solutions/*/*/*/*.json"))
    names = {path.stem for path in paths}
    assert names == {f"submission-{number}" for number in sources}
    for path in paths[:5]:
        (file,) = read_submission(path)
        assert sources[int(path.stem.removeprefix("submission-"))] in file.text
    traces = [
        json.loads(line)
        for path in root.glob("traces/*/*/*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert {trace["solution"] for trace in traces} <= names
    statuses = {trace["evaluation"]["status"] for trace in traces}
    assert statuses == {"PASSED", "INCORRECT_NUMERICAL"}
    for trace in traces:
        is_passed = trace["evaluation"]["status"] == "PASSED"
        assert ("performance" in trace["evaluation"]) == is_passed
        assert trace["workload"]["axes"] == {"size": 1024}


def check_kernelbench(folder: Path) -> None:
    """fast_p is the share of a level's problems, and speed-ups are the ratios of scores."""
    import polars as pl

    results = pl.read_parquet(folder / "exchange/kernelbench/results.parquet").to_dicts()
    shares = pl.read_parquet(folder / "exchange/kernelbench/fast_p.parquet").to_dicts()
    baselines: dict[tuple[str, int, str, str], float] = {
        (row["problem"], row["version"], row["gpu"], row["name"]): row["score_us"]
        for row in load_by_polars(folder, "baselines")
        if row["score_us"]
    }
    compared = [row for row in results if row["speedup_eager"] is not None]
    assert compared
    for row in compared:
        key = row["problem"], row["version"], row["gpu"], "eager"
        assert row["correct"]
        assert row["speedup_eager"] == baselines[key] / row["runtime_us"]
    assert {row["level"] for row in shares} == {"catalogue", "kernelbench-1"}
    for row in shares:
        solved = {
            other["problem"]
            for other in results
            if (other["level"], other["gpu"], other["participant"])
            == (row["level"], row["gpu"], row["participant"])
            and (other[f"speedup_{row['baseline']}"] or 0) > row["p"]
        }
        assert row["fast_p"] == len(solved) / row["problems"]


def contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.feature("N21")
async def test_the_same_log_gives_the_same_bytes(tmp_path: Path) -> None:
    log, blobs = MemoryLog(), MemoryBlobStore()
    await populate(log, blobs, Population(list(SLUGS), 120))
    last = await log.last()
    for name in ("first", "second"):
        for seq in (last // 2, last):
            await build_release(log, blobs, dataset(tmp_path / name), seq)
    assert contents(tmp_path / "first") == contents(tmp_path / "second")
    other = await build_release(log, blobs, dataset(tmp_path / "other", key=b"o" * 32), last)
    people = {
        folder: {row["participant"] for row in load_by_polars(tmp_path / folder, "submissions")}
        for folder in ("first", "other")
    }
    assert len(people["first"]) == len(people["other"])
    assert not people["first"] & people["other"]
    assert other.number == 1


async def test_a_log_that_lost_its_end_is_refused_for_the_data_set_of_the_whole_one(
    tmp_path: Path,
) -> None:
    """Otherwise everything would count as new, and what was withdrawn would stay."""
    log, blobs = MemoryLog(), MemoryBlobStore()
    await populate(log, blobs, Population(list(SLUGS), 60))
    first = await build_release(log, blobs, dataset(tmp_path))
    before = contents(tmp_path)

    async def shortened(count: int, *, has_more: bool) -> EventLog:
        """The first events; with other ones after them than before."""
        other = MemoryLog()
        for event in (await history(log))[:count]:
            await other.append(NewEvent(event.envelope, None))
        for number in range(first.seq - count + 5 if has_more else 0):
            fact = events.SubmissionWithdrawn(reason="again")
            await say(other, subjects.moderation(f"other{number}"), fact)
        return other

    for has_more in (False, True):
        other = await shortened(first.seq - 3, has_more=has_more)
        with pytest.raises(Refused, match=r"another event, or none: .* choose another folder"):
            await build_release(other, blobs, dataset(tmp_path))
        assert contents(tmp_path) == before
    # The whole log, put back by a repair, goes on.
    whole = await shortened(first.seq, has_more=True)
    second = await build_release(whole, blobs, dataset(tmp_path))
    assert (second.number, second.tables["submissions"].added) == (2, 0)


GUIDE = Path("docs/kernel-archive.md")
CATALOGUE = sorted(path.parent.name for path in Path("problems").glob("*/warpboard.yml"))


@pytest.mark.feature("D8")
@pytest.mark.long
@pytest.mark.server
async def test_a_whole_platform_is_derived_again(tmp_path: Path, nats_log: Any) -> None:
    models = [f"kernelbench-1-{number}-model-{number}" for number in range(40 - len(CATALOGUE))]
    blobs = MemoryBlobStore()
    await check_population(nats_log, blobs, [*CATALOGUE, *models], 3000, tmp_path)


@pytest.mark.feature("D5")
@pytest.mark.server
async def test_releases_are_built_at_intervals_and_a_failed_one_is_tried_again(
    tmp_path: Path, nats_log: NatsLog, postgres_dsn: str
) -> None:
    """As the setting of ranker has it, beside what the platform does."""
    blobs, folder = MemoryBlobStore(), tmp_path / "kernels"
    build = partial(release, nats_log, blobs, postgres_dsn, folder, "MIT")

    async def has_releases(count: int) -> bool:
        return len(read_releases(folder)) >= count

    async def has_warned(text: str) -> bool:
        return any(text in line for line in warnings)

    with collect_warnings("ranker.releases.service") as warnings:
        job = asyncio.create_task(release_regularly(build, 0.1 / HOUR_S))
        try:
            # Nothing has happened yet; then somebody else builds a release, and then nobody.
            await eventually(lambda: has_warned("the log has no event yet"))
            with key_path(folder).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                await populate(nats_log, blobs, Population(["softmax"], 30))
                await eventually(lambda: has_warned("is being built already"))
                assert not await has_releases(1)
            await eventually(lambda: has_releases(1))
            held = events.SubmissionHeld(reason="", rule="x")
            await say(nats_log, subjects.moderation("s1"), held)
            await eventually(lambda: has_releases(2))
            # A release that would have nothing new is none.
            assert [known.number for known in read_releases(folder)] == [1, 2]
            assert read_releases(folder)[1].seq == await nats_log.last()
        finally:
            job.cancel()
            await asyncio.wait([job])


@pytest.mark.server
async def test_a_release_of_a_running_platform_knows_the_names_there(
    tmp_path: Path, nats_log: NatsLog, postgres_dsn: str
) -> None:
    """Its key is beside the folder, for its owner alone, and only one build runs at a time."""
    blobs, folder = MemoryBlobStore(), tmp_path / "kernels"
    await populate(nats_log, blobs, Population(["softmax"], 30, ["by zorgblat"]))
    async with await connect(postgres_dsn, "accounts") as connection:
        statement = b"insert into participant (account, name) values ('a', 'zorgblat')"
        await connection.execute(statement)
    built = await release(nats_log, blobs, postgres_dsn, folder, "MIT")
    assert built.tables["sources"].rows
    for name in ("sources", "versions"):
        text = str(load_by_polars(folder, name))
        assert "zorgblat" not in text
        assert "by [name]" in text
    key = key_path(folder)
    assert key.stat().st_mode & 0o077 == 0
    assert key.read_text() not in str(contents(folder))
    with key.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Refused, match="is being built already"):
            await release(nats_log, blobs, postgres_dsn, folder, "MIT")
