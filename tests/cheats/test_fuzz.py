"""Whatever comes out of a worker's socket or mouth ends in a verdict, and in one of the closed set.

Each submission here is made from a template, with another thing to say.
"""

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.entry import VERDICTS
from tests.support.harness import Warm

from .corpus import SUBMISSIONS, cheat
from .trials import Trials

pytestmark = [pytest.mark.box, pytest.mark.long]

SEED = 20261121
RANDOM = random.Random(SEED)
TEMPLATE = """
import os
import socket

{finder}
MESSAGES = {messages!r}
ours = control()
if {early}:
    for message in MESSAGES:
        ours.send(message)


def custom_kernel(data):
    for message in MESSAGES:
        ours.send(message)
    if {ends}:
        ours.close()
        os._exit(0)
    return data[2].zero_()
"""


def failure(**words: object) -> bytes:
    """A word of the worker on its own failure."""
    return b"F" + json.dumps(words).encode()


MESSAGES = {
    "random": [RANDOM.randbytes(RANDOM.choice((1, 2, 16, 17, 18, 100, 65_000))) for _ in range(8)],
    "every first byte": [bytes([first]) + bytes(16) for first in range(256)],
    "an orphaned surrogate": [failure(kind="exception", text="\ud800 \x1b[2J \x00")],
    "a bidirectional override": [failure(kind="import_error", text="\u202egnp.exe \u2028")],
    "a huge number": [b'F{"kind": "exception", "text": ' + b"9" * 6000 + b"}"],
    "not a number": [b'F{"kind": "exception", "text": NaN}', b'F{"kind": NaN, "text": ""}'],
    "a deep nest": [b"F" + b"[" * 15_000 + b"]" * 15_000],
    "a kind of its own": [failure(kind="passed", text="")],
    "a kind that is a list": [failure(kind=["exception"], text={"a": []})],
    "two kinds": [b'F{"kind": "memory", "kind": "exception", "text": "x", "text": "y"}'],
    "a long text": [failure(kind="exception", text="x" * 30_000)],
    "too long a text": [failure(kind="exception", text="x" * 60_000)],
    "no text": [b"F", b"F{}", b"Fnull", b"F\xff\xfe"],
    "a pickle": [b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04exit\x85R."],
    "other people's words": [b"R", b"G" + bytes(16), b"C{}", b"S{}", b"A" + bytes(16)],
}


@pytest.fixture(scope="module")
def place(warm: Warm) -> Iterator[tuple[Trials, Path]]:
    """A warm harness, and where to write submissions."""
    with tempfile.TemporaryDirectory() as folder, Trials(Path(folder), warm) as trials:
        yield trials, Path(folder)


@pytest.mark.parametrize("when", ["early", "in a call", "last"])
@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_that_nobody_asked_for_ends_in_a_verdict(
    name: str, when: str, place: tuple[Trials, Path]
) -> None:
    trials, folder = place
    text = (SUBMISSIONS / "done_early.py").read_text()
    finder = text[text.index("def control") : text.index("def nonce")]
    words = {"messages": MESSAGES[name], "early": when == "early", "ends": when == "last"}
    source = folder / f"{name} {when}.py"
    source.write_text("# id: S21\n# expect: " + " ".join(VERDICTS) + "\n")
    with source.open("a") as file:
        file.write(TEMPLATE.format(finder=finder, **words))
    (ended,) = trials.run(cheat(source))
    report = ended.report
    assert report.failure_code == "", report.reason
    assert report.verdict in VERDICTS
    assert report.verdict != "passed"
    assert report.reason.replace("\n", "").isprintable()
    assert len(report.reason) < 3000
    assert not ended.left


@pytest.mark.parametrize("data", [b"\xff\xfe\x00\x1b]0;x\x07", b"\xed\xa0\x80", b"\r" * 5000])
def test_bytes_that_are_no_text_are_kept_as_output(data: bytes, place: tuple[Trials, Path]) -> None:
    trials, folder = place
    source = folder / "mouth.py"
    source.write_text(
        f"# id: S13\n# expect: passed\nimport os\nos.write(1, {data!r} * 50)\n"
        "def custom_kernel(data):\n    return data[0] @ data[1]\n"
    )
    (ended,) = trials.run(cheat(source))
    assert ended.report.verdict == "passed", ended.report
    assert ended.report.log_bytes == 50 * len(data)
