"""The ranker's commands as the cli runs them: what they are asked, and how their ends are told."""

import os
from pathlib import Path

import pytest

from ranker.export.file import Writer
from shared.errors import Failed, Refused
from tests.ranker.audited import Town
from tests.ranker.lives import Life
from warpboard.processes.audit import Asked, audit, audit_file
from warpboard.processes.copying import export_log, import_log
from warpboard.processes.ranker import alone
from warpboard.processes.replay import rebuild, replay


def test_everything_that_is_asked_is_passed_on() -> None:
    asked = Asked(
        "matmul",
        "H200",
        version=2,
        as_of="2026-11-21T12:00:00Z",
        keys=["k1", "k2"],
        seals=Path("s.json"),
    )
    assert asked.arguments() == [
        *("audit", "matmul", "H200", "--json", "--version", "2"),
        *("--as-of", "2026-11-21T12:00:00Z", "--seals", "s.json", "--key", "k1", "--key", "k2"),
    ]


async def test_a_file_that_is_not_there_is_refused_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "log.gz"
    with pytest.raises(Refused) as refused:
        await audit_file(file, os.environ, Asked("matmul", "CPU"))
    assert refused.value.reason == f"there is no file {file}"


async def test_a_command_that_takes_too_long_is_ended() -> None:
    with pytest.raises(Failed, match="audit was not over after 0 s"):
        await alone(os.environ, "audit", "matmul", "CPU", within_s=0.01)


@pytest.mark.parametrize("what", [rebuild, replay])
async def test_without_a_platform_nothing_is_replayed(what: object, tmp_path: Path) -> None:
    assert callable(what)
    with pytest.raises(Failed, match="no platform runs in"):
        await what(tmp_path)


async def exported(folder: Path, file: Path) -> str:
    """A small log in a file; the key of its seals."""
    town = await Town(folder).found()
    await town.live(Life("s1"))
    await town.seal()
    writer = Writer(file, len(town.rows()), town.seal_key)
    for row in town.rows():
        writer.write(row)
    writer.close()
    return town.seal_key


@pytest.mark.server
async def test_a_log_goes_into_a_folder_that_does_not_run_and_out_again(tmp_path: Path) -> None:
    first, second, folder = tmp_path / "log.gz", tmp_path / "again.gz", tmp_path / "platform"
    key = await exported(tmp_path, first)
    stored = await import_log(folder, os.environ, first, "operator:op")
    again = await export_log(folder, os.environ, second, with_blobs=True)
    assert again["events"] == stored["recorded_seq"] == stored["events"] + 1
    asked = Asked("identity", "CPU", keys=[key])
    reports = [await audit_file(file, os.environ, asked) for file in (first, second)]
    assert [report["findings"] for report in reports] == [[], []]
    assert reports[0]["rows"] == reports[1]["rows"]
    with pytest.raises(Refused, match="nothing is folded yet"):
        await audit(folder, os.environ, asked)
