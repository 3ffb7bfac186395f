"""What the environment says to the command line; its only reader."""

import getpass
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from shared.errors import Failed, Refused
from warpboard.domain.names import ANYONE, checked_token, legal_participant
from warpboard.domain.names import participant as checked_participant

FOLDER = Path(".warpboard")
STATE = "state.json"
TOKEN = "operator_token"  # noqa: S105  (a file's name)
CREDENTIALS = Path("warpboard") / "credentials.toml"
REPORTS = Path("warpboard") / "reports"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Settings:
    """Where the platform is and who asks it, as far as the environment says; child processes
    get all of `environ`. `credentials` is the file in which tokens are kept, `reports` the folder
    of those that checks have made."""

    url: str | None
    participant: str
    token: str | None
    operator_token: str | None
    credentials: Path
    reports: Path
    environ: Mapping[str, str]

    def token_for(self, url: str) -> str | None:
        """The environment's token, which goes to the environment's platform alone if it names one.

        >>> found = read({"WARPBOARD_TOKEN": "wb_1", "WARPBOARD_URL": "https://h"})
        >>> found.token_for("https://h"), found.token_for("https://elsewhere")
        ('wb_1', None)
        """
        return self.token if self.url in (None, url) else None


def load() -> Settings:
    """The settings of this process. Errors: Refused."""
    return read(os.environ)


def read(environ: Mapping[str, str]) -> Settings:
    """The settings in an environment. Errors: Refused for a URL or name that cannot be one."""
    url = environ.get("WARPBOARD_URL")
    name = environ.get("WARPBOARD_PARTICIPANT")
    return Settings(
        url=checked_url(url, "WARPBOARD_URL") if url else None,
        participant=checked_participant(name) if name else legal_participant(_account()),
        token=_token(environ, "WARPBOARD_TOKEN"),
        operator_token=_token(environ, "WARPBOARD_OPERATOR_TOKEN"),
        credentials=_place(environ, "XDG_CONFIG_HOME", ".config") / CREDENTIALS,
        reports=_place(environ, "XDG_CACHE_HOME", ".cache") / REPORTS,
        environ=dict(environ),
    )


def _place(environ: Mapping[str, str], name: str, usual: str) -> Path:
    """Where programs keep what they know of a person. Source: the XDG base directories."""
    named = environ.get(name) or ""
    return Path(named) if named.startswith("/") else Path(environ.get("HOME") or "/") / usual


def _token(environ: Mapping[str, str], name: str) -> str | None:
    token = environ.get(name) or None
    return checked_token(token, name) if token else None


def is_here(url: str) -> bool:
    """Whether a URL leads to this machine.

    >>> is_here("http://127.0.0.1:8000"), is_here("https://warpboard.example")
    (True, False)
    """
    return urlsplit(url).hostname in LOOPBACK


def _account() -> str:
    """The name of the account that runs this process; it may have none, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ANYONE


def checked_url(url: str, name: str) -> str:
    """A URL without a trailing slash. Errors: Refused, naming where it came from."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise Refused("bad_settings", f"{name} is {url!r}: expected http://host:port", name)
    return url.rstrip("/")


def _folders(folder: Path | None, here: Path) -> list[Path]:
    return [folder] if folder else [one / FOLDER for one in (here, *here.parents)]


def found_folder(folder: Path | None, here: Path) -> Path:
    """The data directory that was named, else the nearest from here up, else the one to be."""
    found = (one for one in _folders(folder, here) if (one / STATE).exists())
    return folder or next(found, here / FOLDER)


def found_token(folder: Path) -> str | None:
    """The operators' token of the platform in a folder; None if it cannot be read."""
    try:
        return (folder / TOKEN).read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def found_url(folder: Path | None, here: Path) -> str:
    """The URL of the platform whose data directory this is, or the nearest .warpboard from here up.

    Errors: Refused for a file that no platform wrote; Failed if there is none.
    """
    for state in (one / STATE for one in _folders(folder, here)):
        try:
            return checked_url(str(json.loads(state.read_bytes())["url"]), str(state))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Refused("bad_settings", f"{state} is not a platform's: {error!r}") from error
    looked = f"in {folder}" if folder else "here"
    raise Failed(f"no platform runs {looked}: start one with warpboard up, or name one with --url")
