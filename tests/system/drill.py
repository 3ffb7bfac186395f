"""The drill: destroy a platform, restore its backup on other paths, and compare.

`make drill` runs it and prints a table. The platform is real: NATS, Postgres, blobs, the seal key.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg
from psycopg import sql

from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import NO_PODIUM_JOBS, QUICK, ROOT, TIMED_AT_ONCE, Running

COMMAND_S_MAX = 120
RUN_S_MAX = 180.0
# What changes while a platform runs: columns, or whole tables.
VOLATILE = {
    "accounts.idempotency": None,
    "accounts.register": ["written_at"],
    "accounts.token": ["last_used_at"],
    "accounts.webhook_place": None,
}
PARTICIPANTS = ("ada", "grace")
SCOPES = ("submit", "submit:ranked", "read:own")


class Comparison(NamedTuple):
    """One thing that must be the same before and after, and how much of it there is."""

    name: str
    size: str
    is_equal: bool


class State(NamedTuple):
    """What a platform knows, by the name of the comparison."""

    leaderboards: list[dict[str, Any]]
    sources: dict[int, str | None]
    submissions: dict[int, dict[str, Any]]
    accounts: dict[str, list[str]]
    seals: list[dict[str, Any]]
    audit: list[dict[str, Any]]


def _run(*words: str, environ: dict[str, str] | None = None) -> str:
    command = (sys.executable, "-P", "-m", *words)
    result = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False
    )
    assert result.returncode == 0, f"{' '.join(words)}: {result.stderr or result.stdout}"
    return result.stdout


def _ranker(running: Running, role: str, *words: str) -> dict[str, Any]:
    """Run a command of ranker with the role of Postgres that a host of backups would have."""
    environ = running.environ("ranker")
    environ["WARPBOARD_RANKER_POSTGRES_DSN"] = running.postgres.dsn_of(role)
    answer: dict[str, Any] = json.loads(_run("ranker", *words, environ=environ))
    return answer


def _read_accounts(running: Running) -> dict[str, list[str]]:
    """Every row of every table that no event contains, as text."""
    tables = (
        "select table_schema || '.' || table_name from information_schema.tables"
        " where table_schema in ('accounts', 'discord_edge') and table_name <> 'migration'"
    )
    rows: dict[str, list[str]] = {}
    with psycopg.connect(running.postgres.dsn_of("backup")) as connection:
        for (table,) in connection.execute(tables.encode()).fetchall():
            volatile = VOLATILE.get(table, [])
            if volatile is None:
                continue
            query = sql.SQL("select to_jsonb(own) - {}::text[] from {} as own").format(
                sql.Literal(volatile), sql.Identifier(*table.split("."))
            )
            found = connection.execute(query).fetchall()
            rows[table] = sorted(json.dumps(row, sort_keys=True) for (row,) in found)
    return rows


def _read_state(running: Running, numbers: list[int]) -> State:
    report = running.audit("identity", "CPU")
    assert not report["findings"], report["findings"]
    assert not report["differences"], report["differences"]
    with httpx.Client(base_url=running.url, headers=running.operator, timeout=30) as http:

        def read(path: str) -> Any:
            answer = http.get(path)
            assert answer.is_success, f"{path}: {answer.text}"
            return answer.json()

        submissions = {number: read(f"/v1/submissions/{number}?source=true") for number in numbers}
        for submission in submissions.values():
            submission.pop("queue", None)
        sources = {number: submission.get("source") for number, submission in submissions.items()}
        assert set(sources.values()) == {HONEST}, sources
        return State(
            leaderboards=read("/v1/leaderboards/identity/CPU")["items"],
            sources=sources,
            submissions=submissions,
            accounts=_read_accounts(running),
            seals=read("/v1/audit/seals")["items"],
            audit=report["rows"],
        )


def _compare(before: State, after: State) -> list[Comparison]:
    comparisons = [
        Comparison(name, f"{len(getattr(before, name))}", getattr(before, name) == value)
        for name, value in after._asdict().items()
    ]
    rows = sum(map(len, before.accounts.values()))
    changed = [
        line
        for table in before.accounts.keys() | after.accounts.keys()
        for line in set(before.accounts.get(table, ())) ^ set(after.accounts.get(table, ()))
    ]
    size = f"{rows} rows" if not changed else f"{rows} rows, of which differ: {changed}"
    return [
        comparison._replace(size=size) if comparison.name == "accounts" else comparison
        for comparison in comparisons
    ]


def _submit(running: Running, token: dict[str, str], name: str, source: str) -> int:
    with Person(running.url, name, token) as person:
        number = person.submit(source, "ranked")
        ended = person.end(number, RUN_S_MAX)
    assert ended["verdict"] == "passed", ended
    return number


def run_drill(folder: Path, show: Callable[[str], None] = lambda _: None) -> list[Comparison]:
    """Run the drill in an empty folder; returns what was compared. Raises AssertionError."""
    settings = {**QUICK, **NO_PODIUM_JOBS, **TIMED_AT_ONCE}
    old = Running(folder / "old", settings).up()
    try:
        add_problem(old.url, ROOT / "problems" / "identity")
        tokens = {name: old.token(name, *SCOPES) for name in PARTICIPANTS}
        numbers = [_submit(old, tokens[name], name, HONEST) for name in PARTICIPANTS]
        key = _ranker(old, "backup", "backup-key", str(folder / "identity.txt"))
        began = time.monotonic()
        backup = _ranker(
            *(old, "backup", "backup", str(folder / "backups")),
            *("--recipient", key["recipient"], "--metrics", str(folder / "backup.prom")),
        )
        show(f"backup: {backup['bytes']:,} bytes in {time.monotonic() - began:.1f} s")
        before = _read_state(old, numbers)
        assert before.leaderboards, "the drill needs ranked entries"
    finally:
        old.end()
    shutil.rmtree(old.folder)
    show("destroyed: NATS, Postgres, blobs, keys and accounts")
    began = time.monotonic()
    new = Running(folder / "elsewhere" / "new", settings)
    words = ("server", "restore", backup["file"], "--folder", str(new.folder))
    _run("warpboard", *words, "--identity", str(folder / "identity.txt"))
    show(f"restored in {time.monotonic() - began:.1f} s")
    new.up()
    try:
        comparisons = _compare(before, _read_state(new, numbers))
        number = _submit(new, tokens["ada"], "ada", HONEST)
        goes_on = Comparison("submissions go on", f"number {number}", number > max(numbers))
        return [*comparisons, goes_on]
    finally:
        new.end()


def main() -> int:
    """Print the table; 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.drill", description=__doc__)
    parser.parse_args()

    def show(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="warpboard-drill-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o711)
        comparisons = run_drill(folder, show)
    width = max(len(comparison.name) for comparison in comparisons)
    for comparison in comparisons:
        result = "equal" if comparison.is_equal else "DIFFERENT"
        show(f"{comparison.name:<{width}}  {comparison.size:>10}  {result}")
    return 0 if all(comparison.is_equal for comparison in comparisons) else 1


if __name__ == "__main__":
    sys.exit(main())
