"""Where reports of checks are kept: what was checked is not checked again to be published."""

import os
from pathlib import Path

KEPT_MAX = 500
BYTES_MAX = 1024 * 1024


class ReportFolder:
    """A Reports in a folder; a report that cannot be kept is made again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def found(self, key: str) -> str | None:
        """A report that was kept under a key."""
        try:
            with (self._path / f"{key}.json").open("rb") as opened:
                return opened.read(BYTES_MAX).decode()
        except (OSError, ValueError):
            return None

    def keep(self, key: str, text: str) -> None:
        """Keep a report; of too many the oldest go."""
        fresh = self._path / f".{key}.{os.getpid()}"
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(self._path / f"{key}.json")
            kept = sorted(self._path.glob("*.json"), key=lambda one: one.stat().st_mtime)
            for old in kept[:-KEPT_MAX]:
                old.unlink(missing_ok=True)
        except OSError:
            # It serves the next publishing alone, which then checks once more.
            return
