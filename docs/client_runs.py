"""Runs the commands of the public client, as its contract tests do, and says how each ended."""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

from docs.set_runs import Outcome

ROOT = Path(__file__).parents[1]
TESTS = "tests/contract_popcorn/test_real_client.py"
LIMIT_S = 1800
REASON_CHARS = 160


def run_commands(binary: Path) -> dict[str, list[Outcome]]:
    """Each test by its sentence; the outcomes are of both forms of the address."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", TESTS, f"--junitxml={report}"],
            cwd=ROOT,
            env={**os.environ, "WARPBOARD_POPCORN_CLI": str(binary)},
            timeout=LIMIT_S,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        return _outcomes(report)


def _outcomes(report: Path) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314  (pytest wrote it)
        name, _, parameters = case.get("name", "").partition("[")
        ended = [part for part in case if part.tag in ("failure", "error", "skipped")]
        said = " ".join(part.get("message", part.tag) for part in ended)
        outcome = Outcome("right", parameters.rstrip("]") or "once", said[:REASON_CHARS])
        found.setdefault(_sentence(name), []).append(outcome)
    return found


def _sentence(name: str) -> str:
    """A test's name as a sentence.

    >>> _sentence("test_point_03_a_submission_that_succeeds_exits_0")
    'a submission that succeeds exits 0'
    """
    words = name.removeprefix("test_").split("_")
    return " ".join(words[2:] if words[0] == "point" else words)
