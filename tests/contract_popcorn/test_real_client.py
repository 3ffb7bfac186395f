"""The unmodified public client against a platform, where WARPBOARD_POPCORN_CLI names its binary."""

import os
import re
import subprocess
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.contract_popcorn.conftest import token_of
from tests.contract_popcorn.polling import HONEST
from tests.contract_popcorn.wire import Wire
from tests.support.platform import Running
from tests.support.repository import REPOSITORY

pytestmark = [pytest.mark.server, pytest.mark.long]

BINARY = os.environ.get("WARPBOARD_POPCORN_CLI", "")
WRONG = b"def custom_kernel(data):\n    return data[-1]\n"
COMMAND_S_MAX = 120


class Said(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


class Client:
    """The client with a home of its own."""

    def __init__(self, home: Path, url: str, admin_token: str, cli_id: str) -> None:
        self.home = home
        self.environment = {
            "HOME": str(home),
            "PATH": os.defpath,
            "POPCORN_API_URL": url,
            "POPCORN_ADMIN_TOKEN": admin_token,
            "POPCORN_BREV_PROFILER_URL": url,
        }
        (home / ".popcorn.yaml").write_text(f"---\ncli_id: {cli_id}\n")
        (home / "right.py").write_bytes(HONEST)
        (home / "wrong.py").write_bytes(WRONG)

    def __call__(self, *words: str) -> Said:
        """Run a command to its end."""
        done = subprocess.run(
            [BINARY, *words],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def submit(self, file: str, mode: str, *more: str) -> Said:
        """Submit without a picture."""
        where = ("--leaderboard", "Identity", "--gpu", "CPU", "--mode", mode)
        return self("submit", file, *where, "--no-tui", *more)


@pytest.fixture(scope="module", params=["", "/"])
def client(
    request: pytest.FixtureRequest,
    platform: Running,
    admin: Wire,
    tmp_path_factory: pytest.TempPathFactory,
) -> Client:
    """The client of a participant, its base address with and without a slash at the end."""
    if not BINARY:
        pytest.skip("WARPBOARD_POPCORN_CLI names no binary of the public client")
    name = "cli-slash" if request.param else "cli-plain"
    token = admin.credential.rpartition(" ")[2]
    url = f"{platform.url}{request.param}"
    return Client(tmp_path_factory.mktemp(name), url, token, token_of(platform, name))


def number_of(said: Said) -> str:
    match = re.search(r"Submission (\d+) accepted", said.err)
    assert match, said
    return match[1]


@pytest.mark.parametrize("mode", ["test", "benchmark", "leaderboard"])
def test_point_03_a_submission_that_succeeds_exits_0(client: Client, mode: str) -> None:
    said = client.submit("right.py", mode.title())
    assert said.code == 0, said
    number = number_of(said)
    assert f"Submission {number} status: succeeded" in said.err
    assert f'"submission_id": {number}' in said.out
    assert '"done": true' in said.out
    if mode == "leaderboard":
        assert re.search(r"Geomean score \(public\) on CPU: 0\.\d+ s", said.out)


def test_point_03_a_submission_that_fails_exits_1_and_says_why(client: Client) -> None:
    said = client.submit("wrong.py", "test")
    assert said.code == 1
    assert re.search(r"Application error: Submission \d+ failed: .*size=1 seed=4242", said.err)


def test_point_03_a_profile_prints_its_report_and_saves_a_zip(client: Client) -> None:
    said = client.submit("right.py", "profile")
    assert said.code == 0, said
    assert "=== Profiler: torch.profiler ===" in said.err
    assert "Benchmark: size=65536 seed=6252" in said.err
    saved = re.search(r"Saved profile trace to: (\S+)", said.err)
    assert saved, said
    with zipfile.ZipFile(client.home / saved[1]) as folder:
        assert folder.testzip() is None


def test_point_03_the_profiler_service_saves_its_zips(client: Client) -> None:
    said = client("submit", "right.py", "--leaderboard", "identity", "--profile-brev")
    assert said.code == 0, said
    assert re.search(r"Profile job \d+ accepted", said.err)
    assert list(client.home.glob("profile-*-0.zip"))


def test_point_03_a_refusal_exits_1_with_our_sentence(client: Client) -> None:
    said = client(
        "submit",
        "right.py",
        "--leaderboard",
        "identity",
        "--gpu",
        "TPU",
        "--mode",
        "test",
        "--no-tui",
    )
    assert said.code == 1
    assert "Server returned status 400 Bad Request: GPU type 'TPU' is not on" in said.err


def test_point_03_submissions_are_listed_shown_and_deleted(client: Client) -> None:
    number = number_of(client.submit("right.py", "test"))
    listed = client("submissions", "list", "--leaderboard", "identity")
    assert listed.code == 0, listed
    row = next(line for line in listed.out.splitlines() if line.startswith(number))
    assert re.fullmatch(
        rf"{number}\s+identity\s+right\.py\s+\d{{4}}-\d\d-\d\dT[\d:.]+\s+CPU\s+done\s+-",
        row.strip(),
    ), row
    shown = client("submissions", "show", number)
    assert shown.code == 0, shown
    assert f"Submission #{number}" in shown.out
    assert "  - test on CPU: passed (score: -)" in shown.out
    assert HONEST.decode() in shown.out
    deleted = client("submissions", "delete", number, "--force")
    assert (deleted.code, "deleted successfully" in deleted.out) == (0, True), deleted
    gone = client("submissions", "show", number)
    assert gone.code == 1
    assert f"there is no submission {number}" in gone.err


def test_point_03_admin_commands_print_what_they_did(client: Client) -> None:
    assert "Server stopped accepting jobs" in client("admin", "stop").out
    refused = client.submit("right.py", "test")
    assert (refused.code, "503" in refused.err) == (1, True), refused
    assert "Server started accepting jobs" in client("admin", "start").out
    stats = client("admin", "stats", "--last-day")
    assert (stats.code, '"num_submissions"' in stats.out) == (0, True), stats
    number = number_of(client.submit("right.py", "test"))
    assert client("admin", "get-submission", number).code == 0
    assert f"Deleted submission {number}" in client("admin", "delete-submission", number).out


def test_point_03_leaderboards_and_invites_by_admin_commands(client: Client) -> None:
    made = client("admin", "create-leaderboard", "softmax")
    assert "Created leaderboard 'softmax-dev'" in made.out, made
    invites = client("admin", "generate-invites", "--leaderboards", "softmax-dev", "--count", "2")
    assert "Generated 2 invite code(s) for: softmax-dev" in invites.out, invites
    first, second = (line.strip() for line in invites.out.splitlines()[1:])
    assert "Joined leaderboard(s): softmax-dev" in client("join", first).out
    listed = client("admin", "list-invites", "softmax-dev")
    assert re.search(r"\d+ total, \d+ claimed, \d+ unclaimed", listed.out), listed
    revoked = client("admin", "revoke-invite", second)
    assert f"Revoked invite code '{second}' (was unclaimed)" in revoked.out, revoked
    deleted = client("admin", "delete-leaderboard", "softmax-dev", "--force")
    assert "Deleted leaderboard 'softmax-dev'" in deleted.out, deleted


def test_point_03_problems_are_updated_from_a_repository(client: Client) -> None:
    said = client("admin", "update-problems", "--repository", REPOSITORY, "--problem-set", "good")
    assert said.code == 0, said
    assert "from-a-set" in said.out


@pytest.mark.parametrize("command", ["register", "reregister"])
@pytest.mark.parametrize("provider", ["discord", "github"])
def test_point_01_register_stores_an_id_that_submit_asks_to_link(
    client: Client, provider: str, command: str
) -> None:
    kept = (client.home / ".popcorn.yaml").read_text()
    try:
        said = client(command, provider)
        assert said.code == 0, said
        new = (client.home / ".popcorn.yaml").read_text()
        assert new != kept
        refused = client.submit("right.py", "test")
        assert (refused.code, "link" in refused.err) == (1, True), refused
    finally:
        (client.home / ".popcorn.yaml").write_text(kept)
