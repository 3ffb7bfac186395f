"""Projections folded anew beside a running platform's own, by the ranker's own command."""

from pathlib import Path
from typing import Any

from warpboard.processes.ranker import running

REBUILD_S_MAX = 300.0


async def rebuild(folder: Path) -> dict[str, Any]:
    """How read models folded anew compare with the live ones. Errors: Refused; Failed."""
    return (await running(folder, "rebuild", within_s=REBUILD_S_MAX)).answer


async def replay(
    folder: Path,
    projection: str = "ranker",
    source: str = "stream",
    file: Path | None = None,
    *,
    switch: bool = False,
) -> dict[str, Any]:
    """The same for `ranker` or `archive`, from `stream`, `archive` or `file`, switched if asked.

    Errors: Refused; Failed.
    """
    arguments = ["replay", "--projection", projection, "--source", source]
    if file is not None:
        arguments += ["--file", str(file)]
    if switch:
        arguments.append("--switch")
    return (await running(folder, *arguments)).answer
