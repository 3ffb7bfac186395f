"""The log of a folder's platform into a file, and out of one into a fresh folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpboard.processes.ranker import either, stopped


async def export_log(
    folder: Path, environ: Mapping[str, str], file: Path, *, with_blobs: bool
) -> dict[str, Any]:
    """Write a folder's log, whether its platform runs or not; what was written.

    Errors: Refused; Failed.
    """
    arguments = ["export", str(file), *(["--blobs"] if with_blobs else [])]
    return (await either(folder, environ, *arguments)).answer


async def import_log(
    folder: Path, environ: Mapping[str, str], file: Path, actor: str
) -> dict[str, Any]:
    """Fill the empty log of a folder whose platform does not run; what is there now.

    Errors: Refused; Failed.
    """
    arguments = ("import", str(file), "--actor", actor)
    return (await stopped(folder, environ, *arguments)).answer
