"""Webhook requests go to checked addresses only, and reveal nothing unnecessary."""

import asyncio
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from ranker.settings import Settings, check_local
from ranker.webhooks.postgres import Delivery
from ranker.webhooks.sender import WebhookClient, encode_body
from shared.errors import Refused
from shared.settings import Listen
from tests.support.receiver import DRIP, HANG, Receiver

FORBIDDEN = [
    *("127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "::1", "fe80::1"),
    *("::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "fd00:ec2::254"),
]


def letter(url: str) -> Delivery:
    return Delivery(
        delivery=1,
        webhook="h1",
        account="ada",
        url=url,
        secret="s" * 16,
        event="e1",
        kind="test",
        problem="",
        data='{"a": 1}',
        at=datetime(2026, 1, 1, tzinfo=UTC),
        tries=1,
        is_off=False,
    )


class Names(ThreadPoolExecutor):
    """A resolver that answers each query with the next list."""

    def __init__(self, *answers: list[str]) -> None:
        super().__init__(1)
        self.answers = list(answers)
        self.asked: list[Any] = []

    def submit(self, _fn: Any, /, *args: Any, **_options: Any) -> Any:
        """The answer of getaddrinfo."""
        self.asked.append(args[0])
        addresses = self.answers.pop(0)
        return super().submit(
            lambda: [(socket.AF_INET, 1, 6, "", (item, args[1])) for item in addresses]
        )


@pytest.mark.parametrize("address", FORBIDDEN)
@pytest.mark.parametrize("others", [[], ["8.8.8.8"]])
async def test_a_name_for_an_inner_address_is_never_connected_to(
    address: str, others: list[str]
) -> None:
    post = WebhookClient(resolvers=Names([*others, address]))
    outcome = await post.send(letter("https://hooks.example.org/in"))
    assert outcome.status is None
    assert outcome.error is not None
    assert "not on the public internet" in outcome.error
    assert address not in outcome.error


@pytest.mark.server
async def test_a_real_name_for_loopback_is_refused(receiver: Receiver) -> None:
    url = receiver.url.replace("127.0.0.1", "localhost").replace("http:", "https:")
    assert "public internet" in str((await WebhookClient().send(letter(url))).error)
    assert not receiver.requests


@pytest.mark.parametrize("host", ["2130706433", "0177.0.0.1", "0x7f.1", "127.1", "[::ffff:7f00:1]"])
async def test_an_address_in_disguise_is_refused(host: str) -> None:
    post = WebhookClient(resolvers=Names())
    outcome = await post.send(letter(f"https://{host}/"))
    assert "a webhook cannot have this URL" in str(outcome.error)


@pytest.mark.server
async def test_a_name_is_resolved_once_and_its_address_is_used(receiver: Receiver) -> None:
    # Were the name asked for again, this name server would have nothing to say.
    names = Names(["127.0.0.1"])
    port = receiver.url.rpartition(":")[2]
    post = WebhookClient(is_local=True, resolvers=names)
    outcome = await post.send(letter(f"http://localhost:{port}/in"))
    assert (outcome.status, outcome.error) == (204, None)
    assert names.asked == ["localhost"]
    assert receiver.requests[0].headers["host"] == f"localhost:{port}"


@pytest.mark.server
async def test_another_address_is_tried_if_one_lets_nobody_in(receiver: Receiver) -> None:
    port = receiver.url.rpartition(":")[2]
    post = WebhookClient(is_local=True, resolvers=Names(["127.0.0.9", "127.0.0.1"]))
    assert (await post.send(letter(f"http://localhost:{port}/in"))).status == 204


@pytest.mark.server
async def test_no_redirect_is_followed_and_no_cookie_kept(receiver: Receiver) -> None:
    receiver.planned["/in"] = [307, 301]
    post = WebhookClient(is_local=True)
    for _ in range(2):
        outcome = await post.send(letter(f"{receiver.url}/in"))
        assert outcome.status in (301, 307)
        assert "redirects are not followed" in str(outcome.error)
    assert {item.path for item in receiver.requests} == {"/in"}
    assert not any("cookie" in item.headers for item in receiver.requests)


@pytest.mark.server
@pytest.mark.parametrize("meets", [HANG, DRIP])
async def test_a_slow_answer_ends_in_time(receiver: Receiver, meets: int) -> None:
    receiver.planned["/in"] = [meets]
    post = WebhookClient(is_local=True, within_s=0.3)
    async with asyncio.timeout(30):
        outcome = await post.send(letter(f"{receiver.url}/in"))
    assert outcome.error == "no response within 0.3 s"


async def test_nobody_there_is_told_in_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        outcome = await WebhookClient(is_local=True).send(letter(url))
    assert re.match(r"no answer: .+", str(outcome.error))


def test_a_body_is_the_same_each_time() -> None:
    body = encode_body(letter("https://x.org/"))
    assert body == encode_body(letter("https://x.org/"))
    assert body == b'{"id":"e1","type":"test","at":"2026-01-01T00:00:00Z","data":{"a": 1}}'


def test_strangers_machines_are_no_local_ones() -> None:
    own, all_ = Listen("127.0.0.1", 1), Listen("0.0.0.0", 1)
    check_local(Settings("p", own, own, "k" * 16, nats_url="n", webhooks_local=True))
    check_local(Settings("p", all_, own, "k" * 16, nats_url="n"))
    with pytest.raises(Refused, match="WARPBOARD_RANKER_WEBHOOKS_LOCAL is for"):
        check_local(Settings("p", all_, own, "k" * 16, nats_url="n", webhooks_local=True))
