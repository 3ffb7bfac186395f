"""Launchers beside a running platform, each a process with an account for one agent."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from shared.bus_keys.authority import Authority
from shared.nats.account_deployment import deploy_accounts
from tests.support.platform import Running
from tests.support.waits import until

STOP_S_MAX = 60


def agent_settings(running: Running) -> dict[str, str]:
    """What the platform demands of agents on this machine."""
    environ = running.environ("scheduler")
    return {name: text for name, text in environ.items() if name.startswith("WARPBOARD_GPU_AGENT_")}


def read_launchers(running: Running) -> dict[str, dict[str, Any]]:
    """The launchers by name, as everybody sees them; empty until the platform knows any."""
    try:
        pools = httpx.get(f"{running.url}/v1/queue", timeout=5).json()["pools"]
    except (OSError, KeyError, ValueError, httpx.HTTPError):
        return {}
    return {launcher["name"]: launcher for pool in pools for launcher in pool["launchers"]}


def ensure_user(running: Running, user: str) -> str:
    """Make a user of the bus while the platform runs, and return its name."""
    authority = Authority(running.folder / "keys")
    authority.ensure_user(user)
    asyncio.run(deploy_accounts(running.bus_login("sys"), list(authority.account_jwts().values())))
    return user


@contextmanager
def launching(running: Running, name: str, agent: str, **settings: str) -> Iterator[None]:
    """A launcher at work, by default one that starts processes; it stops its agent at the end.

    Settings are its own, unless they begin with WARPBOARD, as those of its agents.
    """
    folder = running.folder / f"launcher-{name}"
    folder.mkdir()
    login = running.bus_login(ensure_user(running, f"launcher-{name}"))
    own = {
        "NATS_URL": login.url,
        "NATS_CREDENTIALS": login.credentials,
        "OPS_LISTEN": "127.0.0.1:0",
        "DATA": str(folder),
        "AGENT_CREDENTIALS": running.bus_login(f"agent-{agent}").credentials,
        "NAME": name,
        **settings,
    }
    environ = {
        key if key.startswith("WARPBOARD") else f"WARPBOARD_LAUNCHER_{key}": text
        for key, text in own.items()
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "scheduler.launcher"],
            env=os.environ | agent_settings(running) | environ,
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: process.poll() is not None or name in read_launchers(running))
        assert process.poll() is None, (folder / "log").read_text()
        yield
    finally:
        process.terminate()
        process.wait(STOP_S_MAX)


@asynccontextmanager
async def launching_beside(
    running: Running, name: str, agent: str, **settings: str
) -> AsyncIterator[None]:
    """A launcher at work, started and stopped while the event loop goes on."""
    launcher = launching(running, name, agent, **settings)
    await asyncio.to_thread(launcher.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(launcher.__exit__, None, None, None)
