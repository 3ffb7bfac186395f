"""How submissions end for the client: each failure with a reason, and never half done."""

import time
from pathlib import Path

import pytest

from tests.contract_popcorn.polling import (
    HONEST,
    NOBODYS,
    poll_until_done,
    refusal,
    submit,
    wait_until_done,
)
from tests.contract_popcorn.wire import Wire
from tests.support.people import add_problem
from tests.support.platform import ROOT, Running

pytestmark = [pytest.mark.server, pytest.mark.long]

WRONG = b"def custom_kernel(data):\n    return data[-1]\n"
# Right as often as the public checks ask, and in the warm-up of each of five sizes; wrong when the
# hidden checks ask.
WRONG_LATER = b"""
calls = []

def custom_kernel(data):
    source, output = data[0], data[-1]
    calls.append(1)
    output.copy_(source if len(calls) <= 15 else source + 1)
    return output
"""
# Quick in the first call, which warms up and may take longer than the budget.
SLOW = b"""
import time
calls = []

def custom_kernel(data):
    source, output = data[0], data[-1]
    calls.append(1)
    time.sleep(30 if len(calls) > 1 else 0)
    output.copy_(source)
    return output
"""


@pytest.fixture(scope="session")
def impatient(platform: Running, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A problem whose tests may take two seconds, all of them together."""
    return _changed(
        platform, tmp_path_factory, "impatient", ("test_timeout: 60", "test_timeout: 2")
    )


@pytest.fixture(scope="session")
def broken(platform: Running, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A problem whose author's check raises."""
    old = "def check_implementation("
    new = "def check_implementation(data, output):\n    raise OSError\n\n\ndef old_check("
    return _changed(platform, tmp_path_factory, "broken", (old, new))


def _changed(
    platform: Running, tmp: pytest.TempPathFactory, slug: str, change: tuple[str, str]
) -> str:
    source, folder = ROOT / "problems" / "identity", tmp.mktemp("problems") / slug
    folder.mkdir()
    was_changed = False
    for path in source.iterdir():
        if path.is_file():
            text = path.read_text()
            was_changed = was_changed or change[0] in text
            Path(folder, path.name).write_text(text.replace(*change))
    assert was_changed, f"{change[0]!r} is nowhere"
    add_problem(platform.url, folder)
    return slug


def failed(wire: Wire, number: int, status: str = "failed") -> str:
    """Why a submission failed, as the client prints it."""
    submission = wait_until_done(wire, number)
    assert submission["job"]["status"] == status, submission["job"]
    return str(submission["job"]["error"])


@pytest.mark.feature("N3")
def test_point_04_a_failing_test_says_its_case(ada: Wire) -> None:
    error = failed(ada, submit(ada, "test", WRONG))
    assert "size=1 seed=4242" in error
    assert "check" in error or "test" in error


def test_point_04_a_failing_hidden_run_says_its_class_alone(ada: Wire) -> None:
    number = submit(ada, "leaderboard", WRONG_LATER)
    error = failed(ada, number)
    assert "hidden" in error
    assert "size=" not in error
    submission = ada.get(f"/user/submissions/{number}").json()
    (secret,) = [run for run in submission["runs"] if run["secret"]]
    assert secret["passed"] is False
    assert "result" not in secret


def test_point_04_a_used_up_budget_is_timed_out(ada: Wire, impatient: str) -> None:
    error = failed(ada, submit(ada, "test", SLOW, impatient), "timed_out")
    assert "budget" in error


def test_point_04_a_cancel_says_who_did_it(ada: Wire) -> None:
    accepted = ada.post_file(f"/submission/identity/{NOBODYS}/test", HONEST)
    number = accepted.json()["details"]["id"]
    secret = ada.credential.partition(": ")[2]
    lines = [f"authorization: Bearer {secret}", f"host: {ada.host}", "content-length: 0"]
    answer = ada.exchange("POST", f"/v1/submissions/{number}/cancel", lines)
    assert answer.status == 202, answer.body
    assert "cancelled by you" in failed(ada, number)


def test_point_04_a_platform_fault_gives_the_quota_back(ada: Wire, broken: str) -> None:
    error = failed(ada, submit(ada, "test", HONEST, broken))
    assert "not your code" in error
    assert "submit again" in error


def test_point_04_a_build_that_fails_says_its_line(ada: Wire) -> None:
    error = failed(ada, submit(ada, "test", b"def custom_kernel(data:\n"))
    assert "SyntaxError" in error


def test_point_05_done_and_the_last_status_come_in_one(ada: Wire, admin: Wire) -> None:
    looks, numbers = 0, []
    for mode in ("test", "leaderboard"):
        numbers.append(submit(ada, mode, HONEST + b"# looked at\n"))
        looks += len(poll_until_done(ada, numbers[-1], look_s=0.001))
    assert looks > 40, "too few looks to have seen a gap"
    _check_decisions(ada, admin, numbers[-1])


def _check_decisions(ada: Wire, admin: Wire, number: int) -> None:
    """What people decide of a ranked submission: held, let go, disqualified, deleted."""
    path, body = f"/v1/admin/submissions/{number}", {"reason": "copied", "rule": "own work"}
    assert admin.post_json(f"{path}/hold", body).status == 200
    refusal(ada.delete(f"/user/submissions/{number}"), 409, "under_review")
    assert admin.post_json(f"{path}/release", {"reason": "it is not"}).status == 200
    assert admin.post_json(f"{path}/disqualify", body).status == 200
    until = time.monotonic() + 30
    while (submission := wait_until_done(ada, number))["job"]["status"] != "hacked":
        assert time.monotonic() < until, submission["job"]
        time.sleep(0.05)
    assert "own work" in submission["job"]["error"]
    assert "appeal" in submission["job"]["error"]
    admin_view = admin.get(f"/admin/submissions/{number}").json()["submission"]
    assert (admin_view["id"], admin_view["code"]) == (number, submission["code"])
    assert any(run["secret"] for run in admin_view["runs"])
    gone = admin.delete(f"/admin/submissions/{number}").json()
    assert gone == {"status": "ok", "submission_id": number}
    refusal(ada.get(f"/user/submissions/{number}"), 404, "unknown_submission")


def test_point_12_a_retried_post_is_one_submission(ada: Wire) -> None:
    path, key = f"/submission/identity/{NOBODYS}/test", {"idempotency_key": "again-1"}
    first = ada.post_file(path, HONEST, **key)
    second = ada.post_file(path, HONEST, **key)
    assert second.json()["details"] == first.json()["details"]
    assert second.headers["idempotent-replayed"] == "true"
    refusal(ada.post_file(path, WRONG, **key), 422, "idempotency_key_reused")
    # Cut off before it is answered, and asked once more.
    with ada.opened_file(path, HONEST, "cut.py", idempotency_key="again-2"):
        pass
    third = ada.post_file(path, HONEST, "cut.py", idempotency_key="again-2")
    own_list = ada.get("/user/submissions?limit=20").json()
    names = [item["id"] for item in own_list if item["file_name"] == "cut.py"]
    assert names == [third.json()["details"]["id"]]
