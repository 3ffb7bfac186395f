"""Quotas at the door: taken with the submission, never twice, never more than there is."""

import asyncio
from collections import Counter

import httpx
import pytest

from shared import subjects
from shared.events import QuotaReturned, QuotaTaken, SubmissionReceived, SubmissionsOpened
from shared.nats.event_log import NatsLog
from tests.ingest.conftest import shares_a_door
from tests.ingest.taking_in import CountingByAggregate
from tests.support.door import (
    ADA,
    OPERATOR,
    Door,
    Stores,
    opened,
    postgres_stores,
    taken_in,
)
from tests.support.memory import MemoryLog

pytestmark = pytest.mark.server

DAY_S = 86400
RIVALS = 12


async def limit(door: Door, most: int | None, bucket: str = "copy.*.test", **headers: str) -> None:
    body = {"bucket": bucket, "limit": most, "window_s": DAY_S, "reason": "tests", **headers}
    answer = await door.http.put("/v1/admin/quota", json=body, headers=OPERATOR)
    assert answer.status_code == 200, answer.text


async def left(door: Door, query: str = "") -> dict[str, tuple[int, int]]:
    answer = await door.http.get(f"/v1/quota{query}", headers=ADA)
    assert answer.status_code == 200
    return {item["bucket"]: (item["used"], item["remaining"]) for item in answer.json()["items"]}


async def test_a_submission_uses_its_quota_in_one_batch(door: Door) -> None:
    await limit(door, 2)
    (receipt,) = (await door.submit()).json()["submissions"]
    opened_, taken, received = (event.fact for event in door.log.since(2))
    assert opened_ == SubmissionsOpened(submissions=[receipt["id"]])
    assert isinstance(taken, QuotaTaken)
    assert isinstance(received, SubmissionReceived)
    assert (taken.submission, taken.bucket) == (receipt["id"], "copy.CPU.test")
    assert (received.bucket, received.cost) == ("copy.CPU.test", 1)
    assert receipt["number"] == 5
    assert (receipt["quota"]["used"], receipt["quota"]["remaining"]) == (1, 1)


async def test_no_quota_is_used_without_a_limit(door: Door) -> None:
    (receipt,) = (await door.submit()).json()["submissions"]
    assert receipt["quota"] is None
    assert (await left(door)) == {}
    opened_, received = (event.fact for event in door.log.since(1))
    assert opened_ == SubmissionsOpened(submissions=[receipt["id"]])
    assert isinstance(received, SubmissionReceived)
    assert received.bucket == ""


@pytest.mark.feature("N26")
async def test_a_used_up_quota_says_when_to_retry(door: Door) -> None:
    await limit(door, 1)
    first = await door.submit()
    assert (first.status_code, first.headers["ratelimit-remaining"]) == (202, "0")
    answer = await door.submit()
    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
    assert answer.headers["ratelimit-limit"] == "1"
    assert answer.headers["ratelimit-remaining"] == "0"
    assert 0 < int(answer.headers["ratelimit-reset"]) <= DAY_S
    assert 0 < int(answer.headers["retry-after"]) <= DAY_S
    assert "1 of 1 of copy.CPU.test are used" in answer.json()["detail"]
    assert len(taken_in(door.log)) == 1


async def test_several_gpu_types_are_all_accepted_or_none(door: Door) -> None:
    await limit(door, 5)
    await limit(door, 0, "copy.H100.test")
    answer = await door.submit(gpu=["CPU", "H100"])
    assert (answer.status_code, len(door.log.since(3))) == (429, 0)
    await limit(door, 1, "copy.H100.test")
    numbers = [
        submission["number"]
        for submission in (await door.submit(gpu=["CPU", "H100"])).json()["submissions"]
    ]
    for number, gpu in zip(numbers, ("CPU", "H100"), strict=True):
        fact = door.log.since(number - 1)[0].fact
        assert isinstance(fact, SubmissionReceived)
        assert (fact.gpu, fact.bucket) == (gpu, f"copy.{gpu}.test")


async def test_a_repeat_uses_no_quota_twice(door: Door) -> None:
    await limit(door, 1)
    headers = ADA | {"Idempotency-Key": "k1"}
    answers = [await door.submit(headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [202] * 3
    assert len({answer.json()["submissions"][0]["number"] for answer in answers}) == 1
    assert await left(door) == {"copy.*.test": (0, 1), "copy.CPU.test": (1, 0)}


async def test_concurrent_repeats_are_one_submission(door: Door) -> None:
    await limit(door, 5)
    headers = ADA | {"Idempotency-Key": "k1"}
    answers = await asyncio.gather(*(door.submit(headers=headers) for _ in range(RIVALS)))
    assert {answer.status_code for answer in answers} == {202}
    assert (await left(door))["copy.CPU.test"] == (1, 4)


async def test_returned_quota_can_be_used_again(door: Door) -> None:
    await limit(door, 1)
    (receipt,) = (await door.submit()).json()["submissions"]
    account = door.log.since(3)[0].envelope.actor.removeprefix("account:")
    fact = QuotaReturned(
        submission=receipt["id"], bucket="copy.CPU.test", cost=1, reason="infra_failed"
    )
    await door.say(subjects.quota(account), fact)
    assert (await door.submit()).status_code == 202


@pytest.mark.feature("C12")
async def test_a_quota_belongs_to_its_participant(door: Door) -> None:
    await limit(door, 1)
    await door.submit()
    grace = {"Warpboard-Participant": "grace"}
    assert (await door.submit(headers=grace)).status_code == 202
    await limit(door, 9, participant="ada")
    assert (await door.submit()).json()["submissions"][0]["quota"]["remaining"] == 7


@pytest.mark.feature("C12")
async def test_a_limit_of_a_role_counts_for_its_holders_alone(door: Door) -> None:
    await limit(door, 0)
    await limit(door, 2, role="creator")
    assert (await door.submit()).status_code == 429
    reason = {"reason": "she writes problems"}
    ada = {"name": "ada", **reason}
    await door.http.post("/v1/admin/participants", json=ada, headers=OPERATOR)
    path = "/v1/admin/participants/ada/roles"
    granted = await door.http.post(path, json={"role": "creator", **reason}, headers=OPERATOR)
    assert granted.status_code == 200, granted.text
    assert (await door.submit()).json()["submissions"][0]["quota"]["remaining"] == 1
    assert await left(door) == {"copy.*.test": (0, 2), "copy.CPU.test": (1, 1)}
    grace = {"Warpboard-Participant": "grace"}
    assert (await door.submit(headers=grace)).status_code == 429
    await door.http.request("DELETE", f"{path}/creator", json=reason, headers=OPERATOR)
    assert (await door.submit()).status_code == 429


async def test_a_limit_is_for_a_participant_or_for_a_role(door: Door) -> None:
    body = {"bucket": "*.*.*", "limit": 1, "window_s": DAY_S, "reason": "r"}
    for_both = body | {"participant": "ada", "role": "creator"}
    answer = await door.http.put("/v1/admin/quota", json=for_both, headers=OPERATOR)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert "send one of them" in answer.json()["detail"]


async def test_a_limit_may_be_set_before_its_participant_exists(door: Door) -> None:
    await limit(door, 0, participant="grace")
    grace = {"Warpboard-Participant": "grace"}
    assert (await door.submit(headers=grace)).status_code == 429
    assert (await door.submit()).status_code == 202


async def test_an_own_limit_can_lift_the_general_limit(door: Door) -> None:
    await limit(door, 0)
    assert (await door.submit()).status_code == 429
    await limit(door, None, participant="ada")
    assert (await door.submit()).status_code == 202


async def test_the_quota_of_one_leaderboard_can_be_read(door: Door) -> None:
    await limit(door, 3)
    await limit(door, 1, "*.*.ranked")
    assert await left(door, "?problem=Copy&gpu=cpu") == {
        "copy.CPU.test": (0, 3),
        "copy.CPU.ranked": (0, 1),
    }


@shares_a_door
@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("problem=nope&gpu=CPU", 404, "unknown_leaderboard"),
        ("problem=../x&gpu=CPU", 404, "unknown_leaderboard"),
        ("problem=copy&gpu=TPU", 400, "unknown_gpu"),
        ("problem=copy", 400, "unknown_gpu"),
    ],
)
async def test_the_quota_of_an_unknown_leaderboard_is_refused(
    shared_door: Door, query: str, status: int, code: str
) -> None:
    answer = await shared_door.http.get(f"/v1/quota?{query}", headers=ADA)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.feature("P7")
async def test_tests_and_ranked_runs_are_counted_separately(door: Door) -> None:
    await limit(door, 1)
    await limit(door, 1, "copy.*.ranked")
    answers = [await door.submit(mode=mode) for mode in ("test", "ranked", "benchmark", "profile")]
    assert [answer.status_code for answer in answers] == [202, 202, 429, 429]


async def race(doors: list[Door]) -> Counter[int]:
    """How many submissions at once, through all doors, got which answer."""
    await limit(doors[0], 2)
    requests = [doors[index % len(doors)].submit() for index in range(RIVALS)]
    answers: list[httpx.Response] = await asyncio.gather(*requests)
    return Counter(answer.status_code for answer in answers)


async def test_concurrent_requests_cannot_both_use_the_last_unit(door: Door) -> None:
    assert await race([door]) == {202: 2, 429: RIVALS - 2}


async def test_nor_can_requests_to_two_processes() -> None:
    log, stores = MemoryLog(), Stores()
    async with (
        opened(log, stores=stores) as first,
        opened(log, stores=stores, first=False) as two,
    ):
        assert await race([first, two]) == {202: 2, 429: RIVALS - 2}


async def test_nor_can_they_on_a_real_log(postgres_dsn: str, nats_log: NatsLog) -> None:
    async with (
        postgres_stores(postgres_dsn) as stores,
        opened(nats_log, stores=stores) as first,
        opened(nats_log, stores=stores, first=False) as two,
    ):
        assert await race([first, two]) == {202: 2, 429: RIVALS - 2}
        answer = await first.http.get("/v1/quota?problem=copy&gpu=CPU", headers=ADA)
        assert answer.json()["items"][0]["used"] == 2


async def test_quotas_are_read_again_only_if_somebody_else_wrote_to_them() -> None:
    log, stores = CountingByAggregate(), Stores()
    async with (
        opened(log, stores=stores) as door,
        opened(log, stores=stores, first=False) as other,
    ):
        await limit(door, 3)
        assert (await door.submit()).status_code == 202
        account = log.since(0)[-1].envelope.actor.removeprefix("account:")
        quota = subjects.quota(account)
        log.readings.clear()
        assert (await door.submit()).status_code == 202
        assert log.readings[quota] == 0
        assert (await other.submit()).status_code == 202
        # The log refuses what was decided without the submission to the other process.
        answer = await door.submit()
        assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
        assert log.readings[quota] > 0
