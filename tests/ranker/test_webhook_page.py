"""The page about webhooks: its Python checks what is really sent, and refuses what is not."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ranker.hooks.metrics import OUTCOMES
from ranker.hooks.posting import Post, signature
from shared.events import WEBHOOK_KINDS
from tests.ranker.receiver import Got, Receiver
from tests.ranker.test_hook_posting import letter

PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()
SECRET = "s" * 16
Verified = Callable[[str, Mapping[str, str], bytes], dict[str, Any]]


@pytest.fixture
def verified() -> Verified:
    """The function that the page gives its readers."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(program, "docs/webhooks.md", "exec"), names)  # noqa: S102  (our own page)
    found: Verified = names["verified"]
    return found


def headers(got: Got) -> dict[str, str]:
    return {name.title(): value for name, value in got.headers.items()}


@pytest.mark.server
async def test_the_pages_example_believes_what_was_sent(
    receiver: Receiver, verified: Verified
) -> None:
    assert (await Post(is_local=True).send(letter(f"{receiver.url}/in"))).error is None
    (got,) = receiver.got
    assert verified(SECRET, headers(got), got.body) == got.said
    with pytest.raises(ValueError, match="not ours"):
        verified("another", headers(got), got.body)
    with pytest.raises(ValueError, match="not ours"):
        verified(SECRET, headers(got), got.body + b" ")
    with pytest.raises(ValueError, match="not ours"):
        verified(SECRET, headers(got) | {"Warpboard-Timestamp": "1767225600"}, got.body)


async def test_the_pages_example_refuses_what_is_old(verified: Verified) -> None:
    old = "1767225600"
    signed = signature(SECRET, old, b"{}")
    said = {"Warpboard-Timestamp": old, "Warpboard-Signature": signed}
    with pytest.raises(ValueError, match="too old"):
        verified(SECRET, said, b"{}")


@pytest.mark.parametrize("word", [*WEBHOOK_KINDS, *OUTCOMES])
def test_every_kind_and_outcome_is_on_the_page(word: str) -> None:
    assert f"`{word}`" in PAGE
