"""Runs a problem's own program in the box of its submission: the POPCORN_FD protocol's side of it.

It is the submission's process as much as the problem's, and is believed accordingly.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.worker import settings
from harness.worker.build import Unusable

_LAST_CHARS = 1500


def run(order: dict[str, Any], descriptors: list[int], folder: Path) -> None:
    """Carries out an order of harness.supervisor.compat in the folder of the problem's files.

    The descriptors are of the pipe that the program reports to, of the memory that its exit status
    is written to, in decimal, and of the program itself where it was built. Errors: Unusable, of
    kind import_error or exception.
    """
    reported, ended, *programs = descriptors
    home = Path(order["scratch"])
    python = (sys.executable, "-s", "-B")
    if order.get("must_import"):
        status = _status((*python, order["submission"]), folder, ())
        if status:
            raise Unusable("import_error", f"{order['submission']} ended with code {status}")
        return
    cases = home / "cases.txt"
    cases.write_text(order["cases"], encoding="utf-8")
    settings.add({"POPCORN_FD": str(reported), **order["environment"]})
    begun = [f"/proc/self/fd/{one}" for one in programs] or [*python, order["main"]]
    command = (*begun, order["mode"], str(cases))
    status = _status(command, folder, (reported, *programs))
    os.close(reported)
    os.write(ended, str(status).encode())


def _status(command: tuple[str, ...], folder: Path, kept: tuple[int, ...]) -> int:
    """How a program ended; what it prints is in the run's log."""
    try:
        return subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            pass_fds=kept,
            check=False,
        ).returncode
    except OSError as error:
        raise Unusable("exception", f"{command[-1][:_LAST_CHARS]} cannot run: {error}") from error
