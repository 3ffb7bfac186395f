"""The Python example of the webhook docs accepts real requests and refuses forged ones."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ranker.metrics import TRY_OUTCOMES
from ranker.webhooks.sender import WebhookClient, sign_body
from shared.events import WEBHOOK_KINDS
from tests.ranker.test_webhook_client import letter
from tests.support.receiver import ReceivedRequest, Receiver

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "webhooks.md").read_text()
METRICS = (DOCS / "operating/metrics.md").read_text()
SECRET = "s" * 16
Verified = Callable[[str, Mapping[str, str], bytes], dict[str, Any]]


@pytest.fixture
def verified() -> Verified:
    """The function from the docs page."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(program, "docs/webhooks.md", "exec"), names)  # noqa: S102  (our own page)
    verified_: Verified = names["verified"]
    return verified_


def headers(got: ReceivedRequest) -> dict[str, str]:
    return {name.title(): value for name, value in got.headers.items()}


@pytest.mark.server
async def test_the_pages_example_believes_what_was_sent(
    receiver: Receiver, verified: Verified
) -> None:
    assert (await WebhookClient(is_local=True).send(letter(f"{receiver.url}/in"))).error is None
    (got,) = receiver.requests
    assert verified(SECRET, headers(got), got.body) == got.json
    with pytest.raises(ValueError, match="not ours"):
        verified("another", headers(got), got.body)
    with pytest.raises(ValueError, match="not ours"):
        verified(SECRET, headers(got), got.body + b" ")
    with pytest.raises(ValueError, match="not ours"):
        verified(SECRET, headers(got) | {"Warpboard-Timestamp": "1767225600"}, got.body)


async def test_the_pages_example_refuses_what_is_old(verified: Verified) -> None:
    old = "1767225600"
    signed = sign_body(SECRET, old, b"{}")
    headers = {"Warpboard-Timestamp": old, "Warpboard-Signature": signed}
    with pytest.raises(ValueError, match="too old"):
        verified(SECRET, headers, b"{}")


@pytest.mark.parametrize("kind", WEBHOOK_KINDS)
def test_every_kind_is_on_the_page(kind: str) -> None:
    assert f"`{kind}`" in PAGE


@pytest.mark.parametrize("outcome", TRY_OUTCOMES)
def test_every_outcome_of_a_try_is_on_the_page_of_metrics(outcome: str) -> None:
    assert f"`{outcome}`" in METRICS
