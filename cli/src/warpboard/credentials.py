"""The file in which a person's tokens are kept, one for each platform."""

import json
import os
import tomllib
from contextlib import suppress
from pathlib import Path

from shared.errors import Refused

HEAD = "# Tokens of warpboard, one for each platform. Who reads this file can submit as you.\n"


class TokenFile:
    """A Keys in a TOML file that its owner alone can read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def place(self) -> str:
        """Where the tokens are."""
        return str(self._path)

    def token(self, url: str) -> str | None:
        """The token of a platform. Errors: Refused if the file is not ours."""
        return self._read().get(url)

    def keep(self, url: str, token: str) -> None:
        """Keep a platform's token instead of the one before. Errors: Refused."""
        self._write(self._read() | {url: token})

    def forget(self, url: str) -> bool:
        """Keep no token of a platform any more; False if there was none. Errors: Refused."""
        kept = self._read()
        if url not in kept:
            return False
        self._write({one: token for one, token in kept.items() if one != url})
        return True

    def _read(self) -> dict[str, str]:
        try:
            found = tomllib.loads(self._path.read_text(encoding="utf-8"))
            return {url: str(about["token"]) for url, about in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Refused(
                "bad_settings",
                f"{self._path} is no file of tokens ({type(error).__name__}): mend it, or remove "
                "it and log in again",
            ) from error

    def _write(self, kept: dict[str, str]) -> None:
        """Replace the file whole; it is never open to others, not even while it is written."""
        lines = [f"[{json.dumps(url)}]\ntoken = {json.dumps(kept[url])}\n" for url in sorted(kept)]
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
