"""Credentials that contradict each other are refused, wherever they stand."""

from datetime import datetime

import pytest

from ingest.identity.access.fold import Access, Token
from ingest.identity.caller import Caller
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


async def test_an_upload_looks_its_caller_up_once(
    strict: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, bob = [bearer((await made(strict, name))["token"]) for name in ("ada", "bob")]
    looked_up, find_caller = [], Access.caller

    def counted(access: Access, token: Token, at: datetime) -> Caller:
        looked_up.append(token.account)
        return find_caller(access, token, at)

    monkeypatch.setattr(Access, "caller", counted)
    # Middleware checks the credential before the body, and the route takes the caller.
    answers = [await strict.submit(headers=headers) for headers in (ada, bob)]
    assert len(set(looked_up)) == len(looked_up) == len(answers)
    assert {answer.status_code for answer in answers} == {202}
