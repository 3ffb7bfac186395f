"""Postgres takes no writes, ends its sessions and dies: nothing else does, and all catches up."""

import os
import shutil
import signal
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest

from tests.support.people import Person
from tests.support.platform import Running
from tests.support.waits import eventually

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server, pytest.mark.timeout(240)]

KERNEL = "def custom_kernel(data):\n    data[-1].copy_(data[0])\n    return data[-1]\n"
RUNNING = ("nats-server", "ranker", "ingest", "scheduler", "gpu-agent")


@pytest.fixture
def running(platform_to_kill: Running) -> Running:
    return platform_to_kill


def operate(running: Running, *statements: str) -> None:
    """What an operator of Postgres says, in a session that may write."""
    dsn = running.postgres.dsn
    options = "-c default_transaction_read_only=off"
    with psycopg.connect(dsn, autocommit=True, options=options) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def health(running: Running, port: str) -> tuple[int, dict[str, Any]]:
    """What a service says on its ops port."""
    answer = httpx.get(f"http://127.0.0.1:{running.state['ports'][port]}/healthz")
    return answer.status_code, answer.json()


def tells_read_only(running: Running, port: str) -> bool:
    """Whether a service's health says that its database takes no writes."""
    status, body = health(running, port)
    return status == 503 and "read-only" in body["parts"].get("database", "")


def is_replaced(running: Running, postgres: int) -> bool:
    """Whether another process of Postgres runs instead of this one."""
    return running.pid("Postgres") not in (None, postgres)


def processes(running: Running) -> dict[str, int | None]:
    return {name: running.pid(name) for name in RUNNING}


async def test_a_read_only_postgres_is_an_outage_of_reads_alone(running: Running) -> None:
    with Person(running.url, "ada") as ada:
        ada.end(ada.submit(KERNEL))
        before = processes(running)
        operate(
            running,
            "alter system set default_transaction_read_only = on",
            "select pg_reload_conf()",
        )
        # Whichever part writes first tells first.
        for port in ("ranker_ops", "ingest_ops"):
            await eventually(partial(tells_read_only, running, port), within_s=20)
        # What needs no write is answered, and the log takes submissions of who is known in.
        listed = ada.http.get("/v1/problems")
        log = running.folder / "logs" / "ranker.log"
        assert listed.status_code == 200, (listed.text, log.read_text()[-6000:])
        number = ada.submit(KERNEL)
        stranger = ada.http.post(
            "/v1/submissions",
            data={"problem": "identity", "mode": "test", "gpu": "CPU"},
            files={"file": ("kernel.py", KERNEL.encode())},
            headers={"Warpboard-Participant": "stranger"},
        )
        assert (stranger.status_code, stranger.json()["code"]) == (503, "unavailable")
        assert stranger.headers["Retry-After"]
        await eventually(lambda: "read models" in health(running, "ranker_ops")[1].get("parts", {}))
        operate(
            running,
            "alter system reset default_transaction_read_only",
            "select pg_reload_conf()",
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()",
        )
        assert ada.end(number)["outcome"] == "passed"
        await eventually(lambda: health(running, "ranker_ops")[0] == 200, within_s=30)
        await eventually(lambda: health(running, "ingest_ops")[0] == 200, within_s=30)
        assert processes(running) == before
    lines = (running.folder / "logs" / "ranker.log").read_text().splitlines()
    assert sum("read-only" in line for line in lines) < 20
    assert running.rebuild()["is_equal"]


async def test_a_postgres_that_dies_again_and_again_stops_nobody(running: Running) -> None:
    with Person(running.url, "ada") as ada:
        ada.end(ada.submit(KERNEL))
        before = processes(running)
        for _ in range(3):
            postgres = running.pid("Postgres")
            assert postgres is not None
            os.kill(postgres, signal.SIGKILL)
            await eventually(partial(is_replaced, running, postgres))
        number = ada.submit(KERNEL)
        assert ada.end(number)["outcome"] == "passed"
        assert processes(running) == before
        await eventually(lambda: health(running, "ranker_ops")[0] == 200, within_s=30)


def find_wal_writer(running: Running) -> int | None:
    """The process that writes to disk what was committed lazily; None while Postgres is away."""
    dsn = running.postgres.dsn
    try:
        with psycopg.connect(dsn) as connection:
            found = connection.execute(
                "select pid from pg_stat_activity where backend_type = 'walwriter'"
            ).fetchone()
    except psycopg.OperationalError:
        return None
    return found[0] if found else None


async def test_what_a_killed_postgres_had_not_written_is_folded_again(running: Running) -> None:
    with Person(running.url, "ada") as ada:
        ada.end(ada.submit(KERNEL))
        wal_writer = find_wal_writer(running)
        assert wal_writer is not None
        os.kill(wal_writer, signal.SIGSTOP)
        number = ada.submit(KERNEL)
        assert ada.end(number)["outcome"] == "passed"
        # Postgres ends all sessions when one of its processes is killed, and recovers.
        os.kill(wal_writer, signal.SIGKILL)
        await eventually(lambda: find_wal_writer(running) not in (None, wal_writer))

        def is_over() -> bool:
            answer = ada.http.get(f"/v1/submissions/{number}")
            return answer.status_code == 200 and answer.json()["is_over"]

        await eventually(is_over, within_s=30)


def adopt(running: Running) -> httpx.Response:
    """An operator begins anew with names."""
    url = f"{running.url}/v1/admin/accounts/adopt"
    return httpx.post(url, json={"reason": "a test"}, headers=running.operator)


async def test_names_are_nobodys_after_postgres_was_lost_until_an_operator_says_so(
    running: Running,
) -> None:
    with Person(running.url, "ada") as ada:
        ada.end(ada.submit(KERNEL))
    running.stop()
    shutil.rmtree(running.folder / "postgres")
    running.up()

    def ask() -> httpx.Response:
        return httpx.post(
            f"{running.url}/v1/submissions",
            data={"problem": "identity", "mode": "test", "gpu": "CPU"},
            files={"file": ("kernel.py", KERNEL.encode())},
            headers={"Warpboard-Participant": "ada"},
        )

    await eventually(lambda: "accounts" in health(running, "ingest_ops")[1].get("parts", {}))
    taken = ask()
    assert (taken.status_code, taken.json()["code"]) == (409, "accounts_lost"), taken.text
    adopted = adopt(running)
    assert adopted.status_code == 200, adopted.text
    assert ask().status_code == 202
    await eventually(lambda: health(running, "ingest_ops")[0] == 200, within_s=30)
