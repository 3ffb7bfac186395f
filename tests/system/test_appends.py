"""What a submission costs the log: messages, and appends, each of which the server syncs."""

from collections.abc import Sequence
from typing import NamedTuple

import httpx
import pytest

from shared.nats.connection import connect
from shared.subjects import STREAM, last_token
from shared.wire import decode
from tests.support.people import HONEST, Person
from tests.support.platform import Running

pytestmark = pytest.mark.server

APPENDS_MAX = 6
LIFE = [
    "SubmissionsOpened",
    "SubmissionReceived",
    "JobLeased",
    "JobAssigned",
    "RunStarted",
    "RunCompleted",
    "SubmissionFinished",
]


# What follows from a submission and is about its leaderboard.
NEWS = {"RecordSet", "PodiumChanged", "MilestoneReached"}


class Message(NamedTuple):
    """A message in the stream: its event, and its atomic batch, if any."""

    type: str
    aggregate: str
    body: bytes
    batch: str


def count_appends(messages: Sequence[Message]) -> int:
    """How many appends stored these messages: a batch is one."""
    return len({message.batch or place for place, message in enumerate(messages)})


async def read_messages(running: Running, first: int) -> list[Message]:
    """The messages of the stream from a sequence on."""
    nc = await connect(running.bus_login(), "witness")
    try:
        stream = nc.jetstream()
        last = (await stream.stream_info(STREAM)).state.last_seq
        messages = []
        for seq in range(first, last + 1):
            found = await stream.get_msg(STREAM, seq)
            body = found.data or b""
            envelope = decode(body)
            batch = (found.headers or {}).get("Nats-Batch-Id", "")
            messages.append(Message(envelope.type, envelope.aggregate, body, batch))
        return messages
    finally:
        await nc.close()


def about(messages: Sequence[Message], received: Message) -> list[Message]:
    """The messages that name a submission, without the news of its leaderboard."""
    submission = last_token(received.aggregate).encode()
    return [one for one in messages if submission in one.body and one.type not in NEWS]


@pytest.mark.parametrize("mode", ["test", pytest.param("ranked", marks=pytest.mark.long)])
async def test_a_submission_costs_six_appends(platform: Running, ada: Person, mode: str) -> None:
    number = ada.submit(HONEST, mode=mode)
    ada.end(number)
    messages = await read_messages(platform, number - 1)
    own = about(messages, messages[1])
    assert [message.type for message in own] == LIFE
    assert count_appends(own) <= APPENDS_MAX


async def test_a_quota_is_taken_by_the_append_that_receives_the_submission(
    platform: Running, ada: Person
) -> None:
    with httpx.Client(base_url=platform.url, headers=platform.operator) as operator:
        set_limit(operator, 100)
        try:
            number = ada.submit(HONEST)
            ada.end(number)
            messages = await read_messages(platform, number - 2)
        finally:
            set_limit(operator, None)
    opened, taken, received, *_ = messages
    assert opened.batch == taken.batch == received.batch != ""
    own = about(messages, received)
    assert [message.type for message in own] == ["SubmissionsOpened", "QuotaTaken", *LIFE[1:]]
    assert count_appends(own) <= APPENDS_MAX


def set_limit(operator: httpx.Client, limit: int | None) -> None:
    """Limit the tests of the participant ada."""
    body = {"bucket": "identity.CPU.test", "limit": limit, "window_s": 3600, "reason": "a test"}
    answer = operator.put("/v1/admin/quota", json=body | {"participant": "ada"})
    assert answer.status_code == 200, answer.text
