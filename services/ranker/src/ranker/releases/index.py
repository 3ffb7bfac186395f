"""What later events need to know of earlier ones, on disk: memory does not grow with the log."""

import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

CACHED_MAX = 20_000
BATCH_MAX = 5_000
PAGES_KIB = 16 * 1024


class KnownSubmission(NamedTuple):
    """A submission that is or was in the data set, or a baseline.

    `is_shown` and `was_shown` say whether it is in this release and was in the previous one.
    """

    number: int
    problem: str
    version: int
    gpu: str
    account: str
    baseline: str
    is_shown: bool
    was_shown: bool


class KnownSource(NamedTuple):
    """A source that this release has; `is_kept` says whether the one before had it, too."""

    account: str
    is_kept: bool


class Index:
    """Submissions by id, the sequences of runs' orders by run id, and sources by number."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        for statement in (
            "pragma journal_mode = off",
            "pragma synchronous = off",
            f"pragma cache_size = -{PAGES_KIB}",
            "create table known (id text primary key, value) without rowid",
            "begin",
        ):
            self._db.execute(statement)
        self._recent: OrderedDict[str, object] = OrderedDict()
        self._pending: dict[str, object] = {}

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add_submission(self, id_: str, known: KnownSubmission) -> None:
        """Remember a submission."""
        self._add(f"s{id_}", "\t".join(map(str, _flags(known))))

    def submission(self, id_: str) -> KnownSubmission | None:
        """Return a submission, None if it is none of these."""
        text = self._find(f"s{id_}")
        if not isinstance(text, str):
            return None
        number, problem, version, gpu, account, baseline, is_shown, was_shown = text.split("\t")
        return KnownSubmission(
            int(number),
            problem,
            int(version),
            gpu,
            account,
            baseline,
            is_shown == "1",
            was_shown == "1",
        )

    def add_source(self, number: int, known: KnownSource) -> None:
        """Remember the source of a submission."""
        self._add(f"n{number}", f"{known.account}\t{int(known.is_kept)}")

    def source(self, number: int) -> KnownSource | None:
        """Return the source of a submission, None if this release does not have it."""
        text = self._find(f"n{number}")
        if not isinstance(text, str):
            return None
        account, is_kept = text.split("\t")
        return KnownSource(account, is_kept == "1")

    def add_run(self, id_: str, number: int) -> None:
        """Remember the sequence of a run's order."""
        self._add(f"r{id_}", number)

    def run(self, id_: str | None) -> int | None:
        """Return the sequence of a run's order, None if there is none."""
        number = self._find(f"r{id_}") if id_ else None
        return number if isinstance(number, int) else None

    def _add(self, key: str, value: object) -> None:
        self._pending[key] = value
        if len(self._pending) >= BATCH_MAX:
            self._db.executemany(
                "insert or replace into known values (?, ?)", self._pending.items()
            )
            for old in self._pending:
                self._remember(old, self._pending[old])
            self._pending = {}

    def _find(self, key: str) -> object:
        if key in self._pending:
            return self._pending[key]
        if key in self._recent:
            return self._recent[key]
        row = self._db.execute("select value from known where id = ?", (key,)).fetchone()
        value = row[0] if row else None
        if row:
            self._remember(key, value)
        return value

    def _remember(self, key: str, value: object) -> None:
        self._recent[key] = value
        if len(self._recent) > CACHED_MAX:
            self._recent.popitem(last=False)


def _flags(known: KnownSubmission) -> Sequence[object]:
    return [int(value) if isinstance(value, bool) else value for value in known]
