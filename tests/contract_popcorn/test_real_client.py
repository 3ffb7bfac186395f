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
        finished = subprocess.run(
            [BINARY, *words],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )
        return Said(finished.returncode, finished.stdout, finished.stderr)

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


def number_of(result: Said) -> str:
    match = re.search(r"Submission (\d+) accepted", result.err)
    assert match, result
    return match[1]


@pytest.mark.parametrize("mode", ["test", "benchmark", "leaderboard"])
def test_point_03_a_submission_that_succeeds_exits_0(client: Client, mode: str) -> None:
    result = client.submit("right.py", mode.title())
    assert result.code == 0, result
    number = number_of(result)
    assert f"Submission {number} status: succeeded" in result.err
    assert f'"submission_id": {number}' in result.out
    assert '"done": true' in result.out
    if mode == "leaderboard":
        assert re.search(r"Geomean score \(public\) on CPU: 0\.\d+ s", result.out)


def test_point_03_a_submission_that_fails_exits_1_and_says_why(client: Client) -> None:
    result = client.submit("wrong.py", "test")
    assert result.code == 1
    assert re.search(r"Application error: Submission \d+ failed: .*size=1 seed=4242", result.err)


def test_point_03_a_profile_prints_its_report_and_saves_a_zip(client: Client) -> None:
    result = client.submit("right.py", "profile")
    assert result.code == 0, result
    assert "=== Profiler: torch.profiler ===" in result.err
    assert "Benchmark: size=65536 seed=6252" in result.err
    saved = re.search(r"Saved profile trace to: (\S+)", result.err)
    assert saved, result
    with zipfile.ZipFile(client.home / saved[1]) as folder:
        assert folder.testzip() is None


def test_point_03_the_profiler_service_saves_its_zips(client: Client) -> None:
    result = client("submit", "right.py", "--leaderboard", "identity", "--profile-brev")
    assert result.code == 0, result
    assert re.search(r"Profile job \d+ accepted", result.err)
    assert list(client.home.glob("profile-*-0.zip"))


def test_point_03_a_refusal_exits_1_with_our_sentence(client: Client) -> None:
    result = client(
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
    assert result.code == 1
    assert "Server returned status 400 Bad Request: GPU type 'TPU' is not on" in result.err


def test_point_03_submissions_are_listed_shown_and_deleted(client: Client) -> None:
    number = number_of(client.submit("right.py", "test"))
    list_result = client("submissions", "list", "--leaderboard", "identity")
    assert list_result.code == 0, list_result
    row = next(line for line in list_result.out.splitlines() if line.startswith(number))
    assert re.fullmatch(
        rf"{number}\s+identity\s+right\.py\s+\d{{4}}-\d\d-\d\dT[\d:.]+\s+CPU\s+done\s+-",
        row.strip(),
    ), row
    show_result = client("submissions", "show", number)
    assert show_result.code == 0, show_result
    assert f"Submission #{number}" in show_result.out
    assert "  - test on CPU: passed (score: -)" in show_result.out
    assert HONEST.decode() in show_result.out
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
    create_result = client("admin", "create-leaderboard", "softmax")
    assert "Created leaderboard 'softmax-dev'" in create_result.out, create_result
    invites = client("admin", "generate-invites", "--leaderboards", "softmax-dev", "--count", "2")
    assert "Generated 2 invite code(s) for: softmax-dev" in invites.out, invites
    first, second = (line.strip() for line in invites.out.splitlines()[1:])
    assert "Joined leaderboard(s): softmax-dev" in client("join", first).out
    list_result = client("admin", "list-invites", "softmax-dev")
    assert re.search(r"\d+ total, \d+ claimed, \d+ unclaimed", list_result.out), list_result
    revoked = client("admin", "revoke-invite", second)
    assert f"Revoked invite code '{second}' (was unclaimed)" in revoked.out, revoked
    deleted = client("admin", "delete-leaderboard", "softmax-dev", "--force")
    assert "Deleted leaderboard 'softmax-dev'" in deleted.out, deleted


def test_point_03_problems_are_updated_from_a_repository(client: Client) -> None:
    result = client("admin", "update-problems", "--repository", REPOSITORY, "--problem-set", "good")
    assert result.code == 0, result
    assert "from-a-set" in result.out


@pytest.mark.parametrize("command", ["register", "reregister"])
@pytest.mark.parametrize("provider", ["discord", "github"])
def test_point_01_register_stores_an_id_that_submit_asks_to_link(
    client: Client, provider: str, command: str
) -> None:
    config = (client.home / ".popcorn.yaml").read_text()
    try:
        result = client(command, provider)
        assert result.code == 0, result
        new = (client.home / ".popcorn.yaml").read_text()
        assert new != config
        refused = client.submit("right.py", "test")
        assert (refused.code, "link" in refused.err) == (1, True), refused
    finally:
        (client.home / ".popcorn.yaml").write_text(config)
