"""One platform for the whole suite: real servers, every service, an agent without a GPU."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from shared.errors import Failed
from shared.servers import nats, postgresql
from tests.contract_popcorn.polling import HONEST, TOLD, followed
from tests.contract_popcorn.wire import SEEN, Wire, bearer, cli_id
from tests.documents import Document
from tests.system.people import LARGE, SMALL, add_problem
from tests.system.running import PATIENT, ROOT, Running

REPOSITORY = "ada/kernels"
# A line of ada's ranked source, which nobody else may read.
MARK = b"\n# ada alone knows this line\n"
SCOPES = ["submit", "submit:ranked", "profile", "read:own", "delete:own", "join"]


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A platform with the problem identity."""
    try:
        nats.binary()
        postgresql.binaries()
    except Failed as failed:
        pytest.skip(str(failed))
    home = tmp_path_factory.mktemp("popcorn")
    running = Running(home / "home", PATIENT | _settings(home))
    try:
        running.up()
        add_problem(running.url, ROOT / "problems" / "identity")
        yield running
        _compare(Document(httpx.get(f"{running.url}/v1/openapi.json", timeout=30).json()))
    finally:
        if running.process is not None and running.process.poll() is None:
            running.stop()


def _compare(document: Document) -> None:
    """All that was answered here, with what the document says of it."""
    for method, target, answer in SEEN:
        media = answer.headers.get("content-type", "")
        document.check((method, target), answer.status, media, answer.body)
    streamed = document.said["paths"]["/{leaderboard}/{gpu}/{mode}"]["post"]["responses"]["200"]
    schema = document.validator(streamed["content"]["text/event-stream"]["x-events"])
    for data in TOLD:
        schema.validate(data)


def _settings(home: Path) -> dict[str, str]:
    """Folders and a repository that problems may come from."""
    roots = home / "roots"
    shutil.copytree(ROOT / "problems", roots)
    # As identity is elsewhere in these tests: quick to time.
    shutil.copytree(roots / "identity", roots / "late")
    task = roots / "late" / "task.yml"
    task.write_bytes(task.read_bytes().replace(LARGE, SMALL))
    (roots / "broken").mkdir()
    (roots / "broken" / "task.yml").write_text("files: []\n")
    address = f"file://{made_repository(home / 'repository')}"
    return {
        "WARPBOARD_INGEST_PROBLEM_ROOTS": str(roots),
        "WARPBOARD_INGEST_REPOSITORIES": f"{REPOSITORY}={address}",
    }


@pytest.fixture(scope="session")
def admin(platform: Running) -> Wire:
    """Who has the admin token."""
    token = platform.environ("ingest")["WARPBOARD_INGEST_OPERATOR_TOKEN"]
    return Wire(platform.url, bearer(token))


def token_of(platform: Running, name: str) -> str:
    """A token of a participant, as the client may have it in its file."""
    answer = httpx.post(
        f"{platform.url}/v1/tokens",
        json={"name": "popcorn-cli", "scopes": SCOPES, "expires_in_days": 1},
        headers={"Warpboard-Participant": name},
        timeout=30,
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


@pytest.fixture(scope="session")
def ada_token(platform: Running) -> str:
    """The secret of a participant."""
    return token_of(platform, "ada")


@pytest.fixture(scope="session")
def ada(platform: Running, ada_token: str) -> Wire:
    """A participant, by the client's own header."""
    return Wire(platform.url, cli_id(ada_token))


@pytest.fixture(scope="session")
def grace(platform: Running) -> Wire:
    """Another participant."""
    return Wire(platform.url, cli_id(token_of(platform, "grace")))


class Ranked(NamedTuple):
    """A ranked submission of ada's that stands: its id, and the stream that it was sent by."""

    number: int
    told: list[tuple[str, Any]]


@pytest.fixture(scope="session")
def ranked(ada: Wire) -> Ranked:
    """One for all tests that only look at it, for each takes long."""
    told = followed(ada, "/Identity/CPU/LEADERBOARD", HONEST + MARK, size=1021)
    assert told[-1][0] == "result", told[-1]
    return Ranked(told[-1][1]["submission_id"], told)


@pytest.fixture(scope="session")
def nobody(platform: Running) -> Wire:
    """Who sends no credential."""
    return Wire(platform.url)


def made_repository(folder: Path) -> str:
    """A repository with three contests: one is whole, one lacks a problem, one is long over."""
    problem = folder / "problems" / "good" / "copy"
    problem.mkdir(parents=True)
    for path in (ROOT / "problems" / "identity").iterdir():
        if path.is_file():
            (problem / path.name).write_bytes(path.read_bytes())
    entry = (
        "problems:\n  - {{directory: good/{0}, name: {1}, deadline: '2099-01-01', gpus: [CPU]}}\n"
    )
    head = "name: Set\ndescription: a set\n"
    (folder / "problems" / "good.yaml").write_text(head + entry.format("copy", "from-a-set"))
    two = entry.format("copy", "held-back") + entry.format("nope", "not-there").partition("\n")[2]
    (folder / "problems" / "bad.yaml").write_text(head + two)
    over = entry.format("copy", "long-over").replace("2099", "2020")
    (folder / "problems" / "over.yaml").write_text(head + over)
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "a set"]):
        subprocess.run([*git, *command], check=True, timeout=30, capture_output=True)
    return str(folder)
