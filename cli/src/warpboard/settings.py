"""The command line's settings, the only reader of its environment, and the files that it keeps."""

import getpass
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from shared.errors import Failed, Refused
from shared.private_files import create_private_folder, open_private
from warpboard.domain.names import ANYONE, checked_token, legal_participant
from warpboard.domain.names import participant as checked_participant

FOLDER = Path(".warpboard")
STATE = "state.json"
TOKEN = "operator_token"  # noqa: S105  (a file's name)
CREDENTIALS = Path("warpboard") / "credentials.toml"
REPORTS = Path("warpboard") / "reports"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
REPORTS_MAX = 500
REPORT_BYTES_MAX = 1024 * 1024
HEAD = "# Tokens of warpboard, one for each platform. Who reads this file can submit as you.\n"


@dataclass(frozen=True)
class Settings:
    """Where the platform is and who uses it, as far as the environment names them.

    `model_key` is that of a model's endpoint. Child processes get all of `environ`. `credentials`
    is the file of stored tokens, `reports` the folder of check reports.
    """

    url: str | None
    participant: str
    token: str | None
    operator_token: str | None
    model_key: str
    credentials: Path
    reports: Path
    environ: Mapping[str, str]

    def token_for(self, url: str) -> str | None:
        """Return the environment's token; if the environment names a platform, only for that one.

        >>> settings = read({"WARPBOARD_TOKEN": "wb_1", "WARPBOARD_URL": "https://h"})
        >>> settings.token_for("https://h"), settings.token_for("https://elsewhere")
        ('wb_1', None)
        """
        return self.token if self.url in (None, url) else None


def load() -> Settings:
    """Load the settings of this process. Raises Refused."""
    return read(os.environ)


def read(environ: Mapping[str, str]) -> Settings:
    """Read the settings from an environment. Raises Refused for an invalid URL or name."""
    url = environ.get("WARPBOARD_URL")
    name = environ.get("WARPBOARD_PARTICIPANT")
    return Settings(
        url=validate_url(url, "WARPBOARD_URL") if url else None,
        participant=checked_participant(name) if name else legal_participant(_account_name()),
        token=_token(environ, "WARPBOARD_TOKEN"),
        operator_token=_token(environ, "WARPBOARD_OPERATOR_TOKEN"),
        model_key=(environ.get("WARPBOARD_MODEL_KEY") or "").strip(),
        credentials=_base_directory(environ, "XDG_CONFIG_HOME", ".config") / CREDENTIALS,
        reports=_base_directory(environ, "XDG_CACHE_HOME", ".cache") / REPORTS,
        environ=dict(environ),
    )


def _base_directory(environ: Mapping[str, str], name: str, default: str) -> Path:
    configured = environ.get(name) or ""
    return (
        Path(configured)
        if configured.startswith("/")
        else Path(environ.get("HOME") or "/") / default
    )


def _token(environ: Mapping[str, str], name: str) -> str | None:
    token = environ.get(name) or None
    return checked_token(token, name) if token else None


def is_local_url(url: str) -> bool:
    """Return whether a URL leads to this machine.

    >>> is_local_url("http://127.0.0.1:8000"), is_local_url("https://warpboard.example")
    (True, False)
    """
    return urlsplit(url).hostname in LOOPBACK


def _account_name() -> str:
    """Return the account name of this process; it may have none, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ANYONE


def validate_url(url: str, name: str) -> str:
    """Return a URL without a trailing slash. Raises Refused and names the source of the URL."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise Refused("bad_settings", f"{name} is {url!r}: expected http://host:port", name)
    return url.rstrip("/")


def _candidate_folders(folder: Path | None, here: Path) -> list[Path]:
    return [folder] if folder else [parent / FOLDER for parent in (here, *here.parents)]


def find_folder(folder: Path | None, here: Path) -> Path:
    """Return the named data directory, else the nearest one upwards, else the default one."""
    existing = (
        candidate for candidate in _candidate_folders(folder, here) if (candidate / STATE).exists()
    )
    return folder or next(existing, here / FOLDER)


def find_token(folder: Path) -> str | None:
    """Return the operators' token of the platform in a folder; None if it cannot be read."""
    try:
        return (folder / TOKEN).read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def find_url(folder: Path | None, here: Path) -> str:
    """Return the URL of the platform in this folder, or in the nearest .warpboard upwards.

    Raises Refused for an invalid state file, and Failed if there is none.
    """
    for state in (candidate / STATE for candidate in _candidate_folders(folder, here)):
        try:
            return validate_url(str(json.loads(state.read_bytes())["url"]), str(state))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Refused("bad_settings", f"{state} is not a platform's: {error!r}") from error
    place = f"in {folder}" if folder else "here"
    raise Failed(f"no platform runs {place}: start one with warpboard up, or name one with --url")


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
            create_private_folder(self._path.parent)
            with open_private(fresh) as file:
                file.write("\n".join((HEAD, *lines)).encode())
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
