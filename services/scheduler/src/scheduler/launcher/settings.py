"""The launcher's settings; the only reader of its environment."""

import base64
import math
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from harness.vocabulary import CPU_TYPE
from shared import subjects
from shared.bus_keys.login import BusLogin
from shared.bus_keys.permissions import AGENT_PREFIX
from shared.errors import Failed, Refused
from shared.events import LauncherRegistered
from shared.settings import BadSettings, BusSettings, Doc, OpsListen, read_settings
from shared.signing import CREDENTIAL_KEY_BYTES

PREFIX = "WARPBOARD_LAUNCHER"
LOCAL, GITHUB, MODAL = "local", "github", "modal"
# What each kind needs beside its defaults.
NEEDED = {
    LOCAL: (),
    GITHUB: ("github_repository", "github_token", "credential_key"),
    MODAL: ("modal_token_id", "modal_token_secret", "credential_key"),
}
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
# Of our own variables an agent gets only those for agents.
OURS, AGENT = "WARPBOARD_", "WARPBOARD_GPU_AGENT_"
AGENT_BUS = Doc(
    "how its agents reach the bus, if not as the launcher does",
    "agents do not come",
    "`NATS_URL` and `NATS_CA`",
)
DEVICE, GPU_INDEX = f"{AGENT}DEVICE", f"{AGENT}GPU_INDEX"
GITHUB_FAILURE = "GitHub's answer is the reason of `runner_failed`"
GITHUB_ACCESS = Doc(
    "kind `github`: `owner/name`, and a token with write access to its Actions", GITHUB_FAILURE
)
GITHUB_PLACE = Doc(
    "kind `github`: the workflow and its branch, and another GitHub than the public one",
    GITHUB_FAILURE,
)
MODAL_ACCESS = Doc("kind `modal`: the token", "no start")
MODAL_PLACE = Doc(
    "kind `modal`: the app and its environment, by default yours",
    "Modal's answer is the reason of `runner_failed`",
)


@dataclass(frozen=True)
class Settings(BusSettings):
    """Addresses, what the launcher offers, and where it starts agents."""

    ops_listen: OpsListen
    data: Annotated[Path, Doc("a folder", "no start, with the reason")]
    agent_credentials: Annotated[
        str,
        Doc(
            "the `.creds` files of its agents, separated by colons; each runs one job at a time",
            "credentials that were revoked: agents do not come, and two such attempts end a "
            "submission as `runner_failed`",
        ),
    ]
    name: Annotated[
        str,
        Doc(
            "the name that participants choose",
            "two launchers with one name answer each other's requests",
            "the kind",
        ),
    ] = ""
    kind: Annotated[
        str, Doc("where agents run: `local`, `github` or `modal`", "no start with another value")
    ] = LOCAL
    gpus: Annotated[
        str,
        Doc(
            "the GPU types that it serves, each with its cost per hour, such as `CPU:0 H100:3.95`",
            "a type that its machines do not have: agents end without a job; a wrong cost makes "
            "`DAILY_COST_MAX` wrong",
        ),
    ] = f"{CPU_TYPE}:0"
    daily_cost_max: Annotated[
        float,
        Doc(
            "once a day (UTC) has cost this much, no more agents are started on it",
            "low: jobs wait until midnight, and may end; high: the bill",
        ),
    ] = 10.0
    start_s_max: Annotated[
        float,
        Doc(
            "an agent that is not alive after this many seconds is given up",
            "low: agents are given up that would have come",
        ),
    ] = 120.0
    toolchains: Annotated[
        str,
        Doc(
            "what its agents have, such as `g++ triton`",
            "missing ones: files are refused that could run; too many: runs end with a failure of "
            "the platform",
            "unknown",
        ),
    ] = ""
    credential_key: Annotated[
        str,
        Doc(
            "32 bytes in base64 that seal the credentials; required except for `local`",
            "another key than the agents': they do not start",
            "drawn at the start",
        ),
    ] = ""
    poll_s: Annotated[
        float,
        Doc(
            "how often GitHub or Modal is asked whether an agent has ended",
            "low: GitHub refuses after 5000 requests in an hour; high: a job waits longer for the "
            "next attempt",
        ),
    ] = 5.0
    agent_nats_url: Annotated[str, AGENT_BUS] = ""
    agent_nats_ca: Annotated[str, AGENT_BUS] = ""
    github_repository: Annotated[str, GITHUB_ACCESS] = ""
    github_token: Annotated[str, GITHUB_ACCESS] = ""
    github_workflow: Annotated[str, GITHUB_PLACE] = "warpboard-agent.yml"
    github_ref: Annotated[str, GITHUB_PLACE] = "main"
    github_api_url: Annotated[str, GITHUB_PLACE] = "https://api.github.com"
    modal_token_id: Annotated[str, MODAL_ACCESS] = ""
    modal_token_secret: Annotated[str, MODAL_ACCESS] = ""
    modal_app: Annotated[str, MODAL_PLACE] = "warpboard-agent"
    modal_environment: Annotated[str, MODAL_PLACE] = ""

    @property
    def agent_environ(self) -> dict[str, str]:
        """The environment of agents on this machine; the services' passwords are not in it."""
        return {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(OURS) or name.startswith(AGENT)
        }

    @property
    def gpu_indexes(self) -> dict[str, int]:
        """The GPU of this machine that each agent times, each its own; empty for the processor."""
        if self.times_processor or GPU_INDEX in self.agent_environ:
            return {}
        return {agent: place for place, agent in enumerate(self.agent_logins)}

    @property
    def times_processor(self) -> bool:
        """Whether agents on this machine time its processor."""
        return self.agent_environ.get(DEVICE, CPU_TYPE.lower()) == CPU_TYPE.lower()

    @property
    def agent_logins(self) -> dict[str, BusLogin]:
        """How each agent logs in to the bus, by its id. Raises Refused."""
        logins = (
            BusLogin(self.agent_nats_url or self.nats_url, path, self.agent_nats_ca or self.nats_ca)
            for path in self.agent_credentials.split(":")
            if path
        )
        return {_agent_id(login): login for login in logins}

    def offer(self) -> LauncherRegistered:
        """Return what the launcher offers. Raises Refused."""
        return LauncherRegistered(
            kind=self.kind,
            prices=_parse_prices(self.gpus),
            agents=list(self.agent_logins),
            daily_cost_max=self.daily_cost_max,
            start_s_max=self.start_s_max,
            toolchains=self.toolchains.split(),
        )


def _agent_id(login: BusLogin) -> str:
    """Return the id of the agent that credentials belong to. Raises Refused."""
    try:
        credentials = login.read_credentials()
    except Failed as failed:
        raise _refusal("AGENT_CREDENTIALS", f"names {login.source}: {failed}") from failed
    user = credentials.user if credentials else ""
    if not user.startswith(AGENT_PREFIX):
        expected = "expected the .creds files of agents, separated by colons"
        raise _refusal("AGENT_CREDENTIALS", f"has the credentials of {user}: {expected}")
    return user.removeprefix(AGENT_PREFIX)


def _parse_prices(gpus: str) -> dict[str, float]:
    prices: dict[str, float] = {}
    for item in gpus.split():
        gpu, _, text = item.rpartition(":")
        try:
            subjects.pool(gpu)
            prices[gpu] = float(text)
        except ValueError:
            prices[gpu] = math.nan
        if not 0 <= prices[gpu] < math.inf:
            raise _refusal("GPUS", f"has {item!r}: expected a type and its cost, such as H100:3.95")
    if not prices:
        raise _refusal("GPUS", "is empty: expected GPU types with their cost, such as CPU:0")
    return prices


def _refusal(field: str, problem: str) -> Refused:
    return Refused("bad_settings", f"{PREFIX}_{field} {problem}")


def load() -> Settings:
    """Load the settings. Raises `BadSettings` with everything that is wrong with them.

    Only then the name and the agents' credentials are looked at. Raises Refused.
    """
    settings = read_settings(Settings, PREFIX, os.environ, (_check,))
    settings = replace(
        settings,
        name=settings.name or settings.kind,
        credential_key=settings.credential_key
        or base64.b64encode(secrets.token_bytes(CREDENTIAL_KEY_BYTES)).decode(),
    )
    try:
        subjects.launcher(settings.name)
    except ValueError as error:
        raise _refusal("NAME", str(error)) from error
    if not settings.offer().agents:
        raise _refusal("AGENT_CREDENTIALS", "is empty: expected the .creds file of an agent")
    return settings


def _check(settings: Settings) -> None:
    problems = [f"{PREFIX}_{name} {problem}" for name, problem in _find_problems(settings)]
    for check in (partial(_check_key, settings.credential_key), partial(_check_device, settings)):
        try:
            check()
        except Refused as refused:
            problems.append(refused.reason)
    if problems:
        raise BadSettings(problems)


def _find_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.kind not in NEEDED:
        yield "KIND", f"is {settings.kind!r}: expected {', '.join(NEEDED)}"
    for field in ("daily_cost_max", "start_s_max", "poll_s"):
        if not 0 < getattr(settings, field) < math.inf:
            yield field.upper(), "must be a positive number"
    if settings.kind == MODAL and find_spec("modal") is None:
        yield "KIND", "is modal: install its client, warpboard-scheduler[modal]"
    for field in NEEDED.get(settings.kind, ()):
        if not getattr(settings, field):
            yield field.upper(), f"is missing, which kind {settings.kind} needs"
    repository = settings.github_repository
    if settings.kind == GITHUB and repository and not REPOSITORY.fullmatch(repository):
        yield "GITHUB_REPOSITORY", f"is {repository!r}: expected owner/name"


def _check_key(text: str) -> None:
    """Check a credential key unless it is to be drawn; no message shows it."""
    try:
        length = len(base64.b64decode(text, validate=True))
    except ValueError:
        length = 0
    if text and length != CREDENTIAL_KEY_BYTES:
        raise _refusal("CREDENTIAL_KEY", f"is not base64 of {CREDENTIAL_KEY_BYTES} bytes")


def _check_device(settings: Settings) -> None:
    """Check that agents of this machine time what they are offered for."""
    for gpu in _parse_prices(settings.gpus) if settings.kind == LOCAL else ():
        if settings.times_processor != (gpu == CPU_TYPE):
            device = "the processor" if settings.times_processor else "a GPU"
            raise _refusal("GPUS", f"has {gpu}, but agents here time {device}: set {DEVICE}, too")
