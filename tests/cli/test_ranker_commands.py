"""The ranker's commands as the cli runs them: what they are asked, and how their ends are told."""

import asyncio
import os
from pathlib import Path

import pytest

from ranker.archive.log_file import LogFileWriter
from shared.errors import Failed, Refused
from tests.cli.command_runner import run_warpboard
from tests.ranker.audit_platform import AuditPlatform
from tests.support.lives import Life
from warpboard.processes.maintenance import (
    run_alone,
    run_beside_platform,
    run_beside_servers,
    run_in_folder,
)


async def test_a_file_that_is_not_there_is_refused_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "log.gz"
    with pytest.raises(Refused) as refused:
        await run_alone(os.environ, "audit", "matmul", "CPU", "--json", "--file", str(file))
    assert refused.value.reason == f"there is no file {file}"


async def test_a_command_that_takes_too_long_is_ended() -> None:
    with pytest.raises(Failed, match="audit was not over after 0 s"):
        await run_alone(os.environ, "audit", "matmul", "CPU", within_s=0.01)


async def test_without_a_platform_nothing_runs_beside_it(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no platform runs in"):
        await run_beside_platform(tmp_path, "rebuild")


async def exported(folder: Path, file: Path) -> str:
    """A small log in a file; the key of its seals."""
    town = await AuditPlatform(folder).found()
    await town.live(Life("s1"))
    await town.seal()
    writer = LogFileWriter(file, len(town.rows()), town.seal_key)
    for row in town.rows():
        writer.write(row)
    writer.close()
    return town.seal_key


@pytest.mark.long
def test_an_audit_that_is_not_clean_ends_with_exit_code_1(tmp_path: Path) -> None:
    file = tmp_path / "log.gz"
    asyncio.run(exported(tmp_path, file))
    other_key = "00" * 32
    audit = ("server", "audit", "identity", "CPU", "--file", file, "--key", other_key)
    result = run_warpboard(*audit)
    assert result.exit_code == 1
    assert "NOT CLEAN from event" in result.stdout


@pytest.mark.long
@pytest.mark.server
async def test_a_log_goes_into_a_folder_that_does_not_run_and_out_again(tmp_path: Path) -> None:
    first, second, folder = tmp_path / "log.gz", tmp_path / "again.gz", tmp_path / "platform"
    key = await exported(tmp_path, first)
    with pytest.raises(
        Refused, match=r"it lacks: the manifest log\.gz\.manifest\.json, accounts, blobs"
    ):
        await run_beside_servers(folder, os.environ, "import", str(first))
    steps: list[tuple[str, int, int]] = []
    words = ("import", str(first), "--incomplete")
    stored = await run_beside_servers(
        folder, os.environ, *words, show=lambda *step: steps.append(step)
    )
    assert ("events verified", 1, stored["events"]) in steps
    again = await run_in_folder(folder, os.environ, "export", str(second))
    # The change of the seal key and the import are recorded.
    assert again["events"] == stored["recorded_seq"] == stored["events"] + 2
    arguments = ("audit", "identity", "CPU", "--json")
    reports = [
        await run_alone(os.environ, *arguments, "--key", known, "--file", str(path))
        for known, path in ((key, first), (stored["seal_key"]["new_key"], second))
    ]
    assert [report["findings"] for report in reports] == [[], []]
    assert reports[0]["rows"] == reports[1]["rows"]
    with pytest.raises(Refused, match="nothing is folded yet"):
        await run_in_folder(folder, os.environ, *arguments)
