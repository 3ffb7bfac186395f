"""The API asked at random by its own document.

`python -m tests.contract_openapi.asking` does so for long, beside a platform of its own, and says
how many cases there were.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.contract_openapi.hooks import NUMBERS
from tests.support.documents import Found
from tests.support.town import Town, founded

HERE = Path(__file__).parent
LIMIT_S = 1500
SEED = 20261121
# In short, each is asked what they are not simply refused: tests/ingest tries who may do what.
ADMIN = "^/(v1/)?admin/"
AT_RANDOM = ("--phases", "examples,fuzzing", "--max-examples", "1", "--no-shrink")
QUICK: Mapping[str, Sequence[str]] = {
    "nobody": ("--phases", "examples", "--no-shrink", "--include-method", "GET"),
    "participant": (*AT_RANDOM, "--exclude-path-regex", ADMIN),
    "operator": (*AT_RANDOM, "--include-path-regex", f"{ADMIN}|^/v1/problems"),
}
LONG = ("--phases", "examples,coverage,fuzzing", "--max-examples", "20")
COUNT = re.compile(r"^\s+(\d+) generated", re.MULTILINE)


def ask(town: Town, headers: Mapping[str, str], how: Sequence[str]) -> Found:
    """Ask every operation of the document as somebody, often about what is there."""
    said = [part for name, value in headers.items() for part in ("-H", f"{name}: {value}")]
    # What was found before would be asked first: here nothing is kept.
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *(Path(sys.executable).with_name("schemathesis"), "--config-file"),
                *(HERE / "schemathesis.toml", "run", f"{town.url}/v1/openapi.json"),
                *("--seed", str(SEED), "--checks", "all", "--continue-on-failure"),
                "--generation-deterministic",
                *("--request-timeout", "30", "--warnings", "off"),
                *how,
                *said,
            ],
            env=os.environ
            | {"SCHEMATHESIS_HOOKS": str(HERE / "hooks.py"), "NO_COLOR": "1"}
            | {NUMBERS: " ".join(map(str, town.numbers.values()))},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    counted = COUNT.search(done.stdout)
    assert counted, done.stdout + done.stderr
    return Found(int(counted[1]), done.returncode == 0, done.stdout)


def askers(town: Town) -> dict[str, Mapping[str, str]]:
    """Who asks; the operator last, for what they decide changes what others are answered."""
    return {"nobody": {}, "participant": town.tokens["ada"], "operator": town.operator}


def main() -> int:
    """Ask for long; the exit code."""
    is_well = True
    with tempfile.TemporaryDirectory() as folder, founded(Path(folder)) as town:
        for name, headers in askers(town).items():
            found = ask(town, headers, LONG)
            sys.stdout.write(
                f"{name}: {found.cases} cases, {'all well' if found.is_well else found.text}\n"
            )
            is_well = is_well and found.is_well
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
