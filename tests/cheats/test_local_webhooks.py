"""Webhooks to one's own machine, which developers allow by a flag."""

from urllib.parse import urlsplit

import httpx
import pytest

from tests.cheats.test_webhooks_to_loopback import add_webhook
from tests.support.people import headers_of
from tests.support.platform import Running
from tests.support.receiver import Receiver, run_receiver
from tests.support.waits import until

pytestmark = pytest.mark.long


def test_developers_can_let_webhooks_lead_to_their_machine(simulated_platform: Running) -> None:
    with run_receiver() as receiver:
        created = add_webhook(simulated_platform, f"{receiver.url}/in").json()
        path = f"{simulated_platform.url}/v1/webhooks/{created['id']}"
        httpx.post(f"{path}/test", headers=headers_of("prober")).raise_for_status()
        until(lambda: received_test(receiver))
        (request,) = receiver.requests
        assert request.is_signed(created["secret"])
        assert urlsplit(receiver.url).hostname == "127.0.0.1"
        httpx.delete(path, headers=headers_of("prober")).raise_for_status()


def received_test(receiver: Receiver) -> bool:
    return receiver.kinds("/in") == ["test"]
