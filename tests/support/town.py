"""A platform with everybody in it: each kind of caller, a leaderboard for all and a closed one."""

import asyncio
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from shared.clock import new_id, now
from shared.event_log import NewEvent
from shared.events import TokenIssued
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.wire import EventMetadata, make_envelope
from tests.support.examples import clean_report
from tests.support.people import HONEST, QUICKER, Person, add_problem, change_text
from tests.support.platform import PATIENT, ROOT, Running

# What ada alone may read of her kernels.
MARK = "# ada alone knows this line"
OPEN, CLOSED = "identity", "club"
PARTICIPANT = ("submit", "submit:ranked", "profile", "read:own", "delete:own", "join", "account")
AUTHOR = (*PARTICIPANT, "author")
SCOPES: Mapping[str, tuple[str, ...]] = {
    "ada": PARTICIPANT,
    "member": PARTICIPANT,
    "stranger": PARTICIPANT,
    "author": AUTHOR,
    "creator": AUTHOR,
    "moderator": (*AUTHOR, "admin:submissions", "admin:participants"),
    "admin": (*AUTHOR, "admin"),
    "banned": PARTICIPANT,
    "narrow": ("join",),
}
ROLES = {"author": "creator", "creator": "creator", "moderator": "moderator", "admin": "admin"}


@dataclass
class Town:
    """Where it is, how each caller shows who they are, and what they have done."""

    running: Running
    operator: Mapping[str, str]
    tokens: dict[str, Mapping[str, str]] = field(default_factory=dict)
    # By what they are: ranked and test on the open leaderboard, closed on the closed one.
    numbers: dict[str, int] = field(default_factory=dict)
    # The harness code that judged them.
    harness: str = ""
    # An evaluation that ada requested.
    evaluation: str = ""
    # The digest of a file in release 1 of the kernel archive, if the platform offers releases.
    release_file: str = ""

    @property
    def url(self) -> str:
        """The public address."""
        return self.running.url

    def admin(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        """What an operator does."""
        url = f"{self.url}/v1/admin/{path}"
        answer = httpx.request(method, url, json=body, headers=self.operator, timeout=30)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def token(self, name: str, scopes: tuple[str, ...], **more: Any) -> Mapping[str, str]:
        """The header of a fresh token of somebody."""
        body = {"participant": name, "name": "t", "scopes": scopes, "reason": "a test"} | more
        return {"Authorization": f"Bearer {self.admin('POST', 'tokens', **body)['token']}"}


def found_town(running: Running) -> Town:
    """Bring everybody to a platform that has the open leaderboard."""
    secret = running.environ("ingest")["WARPBOARD_INGEST_OPERATOR_TOKEN"]
    town = Town(running, {"Authorization": f"Bearer {secret}"})
    _settle(town)
    asyncio.run(_expire(town))
    _publish(town)
    _submit(town)
    _release(town)
    return town


@contextmanager
def founded(folder: Path) -> Iterator[Town]:
    """A platform of one's own with everybody on it, for who changes what the others rely on."""
    running = Running(folder / "home", PATIENT)
    try:
        running.up()
        add_problem(running.url, ROOT / "problems" / OPEN)
        yield found_town(running)
    finally:
        running.end()


def _settle(town: Town) -> None:
    for name, scopes in SCOPES.items():
        # Other tests of this platform may have met them already.
        body = {"name": name, "reason": "a test"}
        url = f"{town.url}/v1/admin/participants"
        answer = httpx.post(url, json=body, headers=town.operator, timeout=30)
        assert answer.status_code in (201, 409), answer.text
        if name in ROLES:
            town.admin("POST", f"participants/{name}/roles", role=ROLES[name], reason="a test")
        town.tokens[name] = town.token(name, scopes)
    town.tokens["elsewhere"] = town.token("ada", PARTICIPANT, problems=["another"])
    town.tokens["revoked"] = town.token("ada", PARTICIPANT)
    mine = httpx.get(f"{town.url}/v1/me", headers=town.tokens["revoked"], timeout=30).json()
    town.admin("DELETE", f"tokens/{mine['token']}", reason="a test")
    town.admin("POST", "participants/banned/ban", reason="a test")


async def _expire(town: Town) -> None:
    """Let ada have a token whose time is over, as if she had had it for long."""
    secret, token = "wb_" + "x" * 43, new_id()
    fact = TokenIssued(
        token=token,
        token_hash=hashlib.sha256(secret.encode()).hexdigest(),
        kind="api",
        scopes=list(PARTICIPANT),
        expires_at=now() - timedelta(days=1),
    )
    ada = town.admin("GET", "participants/ada")["participant_id"]
    nc = await connect(town.running.bus_login(), "town")
    stamp = EventMetadata(new_id(), now(), "operator:test", "test", "test")
    await NatsLog(nc).append(NewEvent(make_envelope(fact, f"account.{ada}", stamp), None))
    await nc.close()
    town.tokens["expired"] = {"Authorization": f"Bearer {secret}"}


def _publish(town: Town) -> None:
    files = [
        ("files", (path.name, change_text(path.read_bytes(), QUICKER)))
        for path in sorted((ROOT / "problems" / OPEN).iterdir())
        if path.is_file()
    ]
    report = clean_report(CLOSED, dict(one for _, one in files))
    data = {"slug": CLOSED, "visibility": "closed", "report": report}
    headers = town.tokens["author"]
    url = f"{town.url}/v1/problems"
    answer = httpx.post(url, data=data, files=files, headers=headers, timeout=30)
    assert answer.is_success, answer.text
    codes = town.admin("POST", "invites", leaderboards=[CLOSED], count=2, reason="a test")["codes"]
    for name, code in zip(("ada", "member"), codes, strict=True):
        url, headers = f"{town.url}/v1/user/join", town.tokens[name]
        assert httpx.post(url, json={"code": code}, headers=headers, timeout=30).is_success


def _release(town: Town) -> None:
    folder = town.running.environ("ranker").get("WARPBOARD_RANKER_RELEASES")
    if folder is None:
        return
    command = (sys.executable, "-m", "warpboard", "archive", "build", folder)
    subprocess.run(
        (*command, "--folder", str(town.running.folder)), check=True, timeout=120, text=True
    )
    whole = httpx.get(f"{town.url}/v1/archive/releases/1", timeout=30).json()
    town.release_file = whole["files"][0]["sha256"]


def _submit(town: Town) -> None:
    with Person(town.url, "ada") as ada:
        wanted = {"ranked": (OPEN, "ranked"), "test": (OPEN, "test"), "closed": (CLOSED, "ranked")}
        for name, (problem, mode) in wanted.items():
            source = f"{HONEST}\n{MARK} {name}\n"
            town.numbers[name] = ada.submit(source, mode, f"{name}.py", problem)
        for number in town.numbers.values():
            ended = ada.end(number)
            assert ended["verdict"] == "passed"
            town.harness = ended["environment"]["harness_code"]
    items = [{"id": "one", "source": f"{HONEST}\n{MARK} item\n"}]
    body = {"problem": OPEN, "gpu": "CPU", "items": items}
    url, headers = f"{town.url}/v1/evaluations", town.tokens["ada"]
    answer = httpx.post(url, json=body, headers=headers, timeout=30)
    assert answer.status_code == 202, answer.text
    town.evaluation = answer.json()["id"]
