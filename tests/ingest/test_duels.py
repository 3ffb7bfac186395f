"""An operator asks for a duel of two submissions."""

from typing import Any

import pytest

from shared.events import DuelRequested, QuotaTaken
from tests.support.door import ADA, KERNEL, OPERATOR, Door
from tests.support.holders import code

pytestmark = pytest.mark.server

OTHER = KERNEL + b"# another\n"


async def passed(door: Door, source: bytes = KERNEL, **fields: Any) -> int:
    """The number of a submission that passed."""
    answer = await door.submit(source, **fields)
    number = int(answer.json()["submissions"][0]["number"])
    await door.finish(number)
    return number


async def test_a_duel_names_both_sources_and_uses_no_quota(door: Door) -> None:
    first, second = await passed(door), await passed(door, OTHER)
    taken = [event for event in door.log.since(0) if isinstance(event.fact, QuotaTaken)]
    answer = await door.admin("POST", "duels", first=first, second=second, reason="alike")
    assert answer.status_code == 201
    fact = await door.said(answer)
    assert isinstance(fact, DuelRequested)
    assert (fact.first.number, fact.second.number) == (first, second)
    assert fact.first.source.digest != fact.second.source.digest
    assert (fact.problem, fact.problem_number, fact.gpu) == ("copy", 1, "CPU")
    after = [event for event in door.log.since(0) if isinstance(event.fact, QuotaTaken)]
    assert len(after) == len(taken)


async def test_a_duel_of_incomparable_submissions_is_refused(door: Door) -> None:
    first, second = await passed(door), await passed(door, OTHER)
    same = await passed(door)
    elsewhere = await passed(door, OTHER, gpu="H100")
    is_open = await door.number()

    async def refused(first: int, second: int, **more: str) -> tuple[int, str]:
        body = {"first": first, "second": second, "reason": "r"} | more
        return code(await door.admin("POST", "duels", **body))

    assert await refused(first, same) == (400, "bad_duel")
    assert await refused(first, elsewhere) == (400, "bad_duel")
    assert await refused(first, is_open) == (400, "bad_duel")
    assert await refused(first, second, gpu="H100") == (400, "bad_duel")
    assert await refused(first, 999_999) == (404, "unknown_submission")
    assert await refused(0, second) == (422, "invalid_request")
    answer = await door.admin("POST", "duels", first=first, second=second, gpu="cpu", reason="r")
    assert answer.status_code == 201


async def test_only_operators_request_duels(door: Door) -> None:
    first, second = await passed(door), await passed(door, OTHER)
    body = {"first": first, "second": second, "reason": "r"}
    for headers, status in ((ADA, 401), (OPERATOR, 201)):
        answer = await door.http.post("/v1/admin/duels", json=body, headers=headers)
        assert answer.status_code == status, answer.text
