"""What no answer holds but to an admin: seeds, hidden cases, others' sources, stack traces."""

import re
from collections.abc import Iterator

import pytest

from tests.contract_popcorn.conftest import MARK, Ranked
from tests.contract_popcorn.polling import HONEST
from tests.contract_popcorn.wire import Wire
from tests.support.platform import Running

pytestmark = [pytest.mark.server, pytest.mark.long]

FORBIDDEN = (
    re.compile(rb"Traceback \(most recent call last\)"),
    re.compile(rb'"(key|key_commit|seed|sig|secret_seed)"'),
    re.compile(rb"File \"/[a-z].*\", line"),
)


def bodies(wire: Wire, number: int) -> Iterator[tuple[str, bytes]]:
    """Everything that a participant may ask about."""
    paths = (
        "/leaderboards",
        "/leaderboards?state=all",
        "/gpus/identity",
        "/runner_queue/CPU",
        "/submissions/identity/CPU",
        "/submission_count/identity/CPU",
        "/user/submissions",
        f"/user/submissions/{number}",
        f"/jobs/{number}",
        f"/admin/submissions/{number}",
        "/user/submissions/0",
        "/gpus/%00",
        "/no/such/path",
    )
    for path in paths:
        yield path, wire.get(path).body
    path = "/identity/CPU/test"
    with wire.opened_file(path, HONEST, "x.py") as stream:
        yield path, b"".join(stream.chunks(4096))


def test_point_09_nothing_secret_is_in_any_body(
    platform: Running, ada: Wire, grace: Wire, nobody: Wire, ranked: Ranked
) -> None:
    assert platform.url
    for wire in (ada, grace, nobody):
        for path, body in bodies(wire, ranked.number):
            for pattern in FORBIDDEN:
                assert not pattern.search(body), (path, pattern.pattern)
            is_own = wire is ada and path.startswith("/user/submissions/")
            assert is_own or MARK.strip() not in body, path


def test_point_09_hidden_cases_have_neither_name_nor_spec(ada: Wire, ranked: Ranked) -> None:
    submission = ada.get(f"/user/submissions/{ranked.number}").json()
    secret = [run for run in submission["runs"] if run["secret"]]
    assert secret
    for run in secret:
        assert set(run) == {
            "mode",
            "secret",
            "runner",
            "score",
            "passed",
            "start_time",
            "end_time",
        }
    _, result = ranked.told[-1]
    assert set(result["results"][0]["runs"]) == {"test", "leaderboard"}
