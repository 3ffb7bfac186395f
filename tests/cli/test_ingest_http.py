"""What is said to the platform, and what its answers mean."""

from typing import Any

import pytest
from msgspec import structs

from shared.api.leaderboards import Leaderboard
from shared.api.problems import Problems
from shared.api.submissions import SubmissionRequest
from shared.api_client import Unavailable
from shared.errors import Failed, Refused
from tests.cli.stand_in import Respond, StandIn, respond_in_turn, run_stand_in
from tests.support.api_examples import make_example
from warpboard.api import Caller, open_api

NOTHING_THERE = "http://127.0.0.1:9"  # The port of discard, which nobody serves.
WISH = SubmissionRequest("kernel.py", b"x = 1\n", "matmul", "test", ("CPU", "H100"))
FILES = {"task.yml": b"lang: py", "sub/a.py": b""}
REFUSAL = {
    "detail": "GPU type 'X' is not on this leaderboard: CPU",
    "code": "unknown_gpu",
    "request_id": "r1",
    "errors": [{"field": "gpu", "message": "GPU type 'X' is not on this leaderboard: CPU"}],
}


async def asked(say: Respond) -> tuple[Any, StandIn]:
    with run_stand_in(say) as standin:
        async with open_api(standin.url, Caller("ada")) as api:
            return await api.get(Leaderboard, "leaderboards", "a/b?c", "CPU", limit=2), standin


async def test_a_path_is_quoted_and_the_participant_named() -> None:
    answer, standin = await asked(respond_in_turn((200, {"gpu": "CPU", "new_field": 1})))
    assert answer.value == make_example(Leaderboard, gpu="CPU")
    assert answer.document["new_field"] == 1
    (heard,) = standin.heard
    assert heard.path == "/v1/leaderboards/a%2Fb%3Fc/CPU?limit=2"
    assert heard.headers["warpboard-participant"] == "ada"


async def test_a_submission_carries_its_key_and_every_gpu_type() -> None:
    with run_stand_in(respond_in_turn((202, {"submissions": []}))) as standin:
        async with open_api(standin.url, Caller("ada")) as api:
            await api.submit(WISH, "key-1")
    (heard,) = standin.heard
    assert heard.headers["idempotency-key"] == "key-1"
    assert heard.body.count(b'name="gpu"') == 2
    assert b'filename="kernel.py"' in heard.body
    assert b"x = 1\n" in heard.body
    assert b'name="case"' not in heard.body


async def test_a_submission_names_the_only_case_to_profile() -> None:
    with run_stand_in(respond_in_turn((202, {"submissions": []}))) as standin:
        async with open_api(standin.url, Caller("ada")) as api:
            await api.submit(structs.replace(WISH, case=3), "key-1")
    assert b'name="case"\r\n\r\n3\r\n' in standin.heard[0].body


async def test_a_problem_is_sent_with_the_paths_of_its_files_and_its_report() -> None:
    with run_stand_in(respond_in_turn((201, {"slug": "p"}))) as standin:
        async with open_api(standin.url, Caller("ada")) as api:
            await api.publish("p", FILES, {"report": "{}"})
    body = standin.heard[0].body
    assert b'filename="task.yml"' in body
    assert b'filename="sub/a.py"' in body
    assert b'name="report"\r\n\r\n{}' in body
    assert b"unchecked" not in body


async def test_a_refusal_keeps_its_code_reason_and_field() -> None:
    with pytest.raises(Refused) as refused:
        await asked(respond_in_turn((400, REFUSAL)))
    assert (refused.value.code, refused.value.field) == ("unknown_gpu", "gpu")
    assert refused.value.reason == REFUSAL["detail"]


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_platform_that_is_not_ready_may_be_asked_again(status: int) -> None:
    with pytest.raises(Unavailable, match="starting"):
        await asked(respond_in_turn((status, {"detail": "starting", "code": "unavailable"})))


async def test_a_platform_that_is_not_there_may_be_asked_again() -> None:
    async with open_api(NOTHING_THERE, Caller("ada")) as api:
        with pytest.raises(Unavailable, match=NOTHING_THERE):
            await api.get(Problems, "problems")


@pytest.mark.parametrize(
    "say", [(500, {"detail": "broke"}), (200, b"<html>"), (200, [1]), (302, {}), (200, b"\xff")]
)
async def test_an_answer_that_is_none_is_a_failure(say: tuple[int, Any]) -> None:
    with pytest.raises(Failed) as failed:
        await asked(respond_in_turn(say))
    assert not isinstance(failed.value, Unavailable)


async def test_a_refusal_in_another_shape_still_has_a_reason() -> None:
    with pytest.raises(Refused, match="HTTP status 404"):
        await asked(respond_in_turn((404, b"not here")))
