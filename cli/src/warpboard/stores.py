"""What the command line keeps between commands: a person's tokens, and reports of checks."""

import json
import os
import tomllib
from contextlib import suppress
from pathlib import Path

from shared.errors import Refused

REPORTS_MAX = 500
REPORT_BYTES_MAX = 1024 * 1024
HEAD = "# Tokens of warpboard, one for each platform. Who reads this file can submit as you.\n"


class TokenFile:
    """A person's tokens, one for each platform, in a TOML file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def place(self) -> str:
        """The path of the file."""
        return str(self._path)

    def token(self, url: str) -> str | None:
        """Return the token of a platform. Raises Refused if the file is invalid."""
        return self._read().get(url)

    def keep(self, url: str, token: str) -> None:
        """Store a platform's token, replacing the previous one. Raises Refused."""
        self._write(self._read() | {url: token})

    def forget(self, url: str) -> bool:
        """Remove the token of a platform; false if there was none. Raises Refused."""
        tokens = self._read()
        if url not in tokens:
            return False
        self._write({known_url: token for known_url, token in tokens.items() if known_url != url})
        return True

    def _read(self) -> dict[str, str]:
        try:
            document = tomllib.loads(self._path.read_text(encoding="utf-8"))
            return {url: str(entry["token"]) for url, entry in document.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Refused(
                "bad_settings",
                f"{self._path} is not a file of tokens ({type(error).__name__}): fix it, or remove "
                "it and log in again",
            ) from error

    def _write(self, tokens: dict[str, str]) -> None:
        """Replace the whole file; it is never readable by others, not even while it is written."""
        lines = [
            f"[{json.dumps(url)}]\ntoken = {json.dumps(tokens[url])}\n" for url in sorted(tokens)
        ]
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                fresh.unlink()
            opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(opened, "w", encoding="utf-8") as file:
                file.write("\n".join((HEAD, *lines)))
            fresh.replace(self._path)
        except OSError as error:
            raise Refused("unwritable", f"{self._path} cannot be written: {error}") from error


class ReportFolder:
    """Reports of checks in a folder; one that cannot be stored is made again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def found(self, key: str) -> str | None:
        """Return the report that was stored under a key."""
        try:
            with (self._path / f"{key}.json").open("rb") as opened:
                return opened.read(REPORT_BYTES_MAX).decode()
        except (OSError, ValueError):
            return None

    def keep(self, key: str, text: str) -> None:
        """Store a report; if there are too many, the oldest go."""
        fresh = self._path / f".{key}.{os.getpid()}"
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(self._path / f"{key}.json")
            reports = sorted(self._path.glob("*.json"), key=lambda report: report.stat().st_mtime)
            for old in reports[:-REPORTS_MAX]:
                old.unlink(missing_ok=True)
        except OSError:
            # Only the next publication needs it, which then checks again.
            return
