"""A webhook of a participant cannot probe the ports of the machine that the platform runs on."""

import httpx
import pytest

from tests.support.people import headers_of
from tests.support.platform import Running


def add_webhook(platform: Running, url: str) -> httpx.Response:
    webhook = {"url": url, "events": ["submission.ended"]}
    return httpx.post(f"{platform.url}/v1/webhooks", json=webhook, headers=headers_of("prober"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
def test_a_webhook_to_a_port_of_this_machine_is_refused(platform: Running, host: str) -> None:
    for scheme in ("http", "https"):
        for port in (*platform.state["ports"].values(), 22):
            answer = add_webhook(platform, f"{scheme}://{host}:{port}/metrics")
            assert answer.status_code == 422, answer.text
            assert answer.json()["code"] == "invalid_url"


def test_no_service_sends_to_loopback_without_the_flag(platform: Running) -> None:
    for service in ("ingest", "ranker"):
        assert f"WARPBOARD_{service.upper()}_WEBHOOKS_LOCAL" not in platform.environ(service)
