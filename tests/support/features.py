"""Whether the tests of each row of docs/features.md passed, from the reports of a CI run.

`python -m tests.support.features FOLDER` reads all reports in a folder. It fails if of some row no
test passed, so a row whose tests were all skipped fails, too.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from docs.features import load_features

from tests.support.reruns import RunReport, read_report


def find_unproven(rows: Iterable[str], reports: Iterable[RunReport]) -> Iterator[str]:
    """Yield each row without a test that passed, with the reason."""
    passed = {row for report in reports for row in report.features}
    yield from (f"{row}: none of its tests passed" for row in rows if row not in passed)


def main(folder: str) -> int:
    """Return 0 if every row has a test that passed."""
    paths = sorted(Path(folder).glob("*.json"))
    reports = [report for path in paths if (report := read_report(path)) is not None]
    rows = load_features()
    reasons = list(find_unproven(rows, reports))
    print(*reasons, sep="\n")  # noqa: T201
    print(f"== features: {len(rows) - len(reasons)} of {len(rows)} have a test that passed")  # noqa: T201
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
