"""Credentials that contradict each other are refused, wherever they stand."""

import pytest

from tests.support.door import Door
from tests.support.holders import bearer, code, made

pytestmark = pytest.mark.server


async def test_a_repeated_credential_header_is_refused(strict: Door) -> None:
    ada, bob = [(await made(strict, name))["token"] for name in ("ada", "bob")]
    authorization = [("Authorization", bearer(secret)["Authorization"]) for secret in (ada, bob)]
    cli_ids = [("X-Popcorn-Cli-Id", secret) for secret in (ada, bob)]
    for headers in (authorization, cli_ids):
        answer = await strict.http.get("/v1/me", headers=headers)
        assert code(answer) == (400, "conflicting_credentials")


async def test_the_same_credential_twice_is_accepted(strict: Door) -> None:
    ada = bearer((await made(strict, "ada"))["token"])["Authorization"]
    answer = await strict.http.get("/v1/me", headers=[("Authorization", ada)] * 2)
    assert answer.json()["name"] == "ada"


async def test_a_token_without_the_scope_reads_as_the_public(strict: Door) -> None:
    narrow = bearer((await made(strict, "ada", "join"))["token"])
    answer = await strict.http.get("/v1/me/submissions", headers=narrow)
    assert code(answer) == (403, "scope_missing")
