"""What stands beside a task.yml, and what it changes."""

import json

import pytest

from shared.errors import Refused
from tests.shared.problems.examples import compiled

WHOLE = b"""\
title: Doubling
gpus: [CPU]
limits: {source_bytes: 2000}
budget_s: {build: 120}
authors: [Ada]
tags: [warm-up]
difficulty: easy
"""


def test_every_key_reaches_the_version() -> None:
    version = compiled(warpboard_yml=WHOLE)
    manifest = json.loads(version.manifest)
    assert (version.title, version.gpus) == ("Doubling", ("CPU",))
    assert version.source_bytes_max == manifest["source_bytes_max"] == 2000
    assert version.budgets_s["build"] == manifest["budgets_s"]["build"] == 120
    assert (manifest["authors"], manifest["tags"]) == (["Ada"], ["warm-up"])
    assert manifest["difficulty"] == "easy"


def test_an_empty_file_adds_nothing() -> None:
    assert compiled(warpboard_yml=b"# later\n").digest == compiled().digest


def test_a_tolerance_is_read_and_said_to_wait() -> None:
    (warning,) = compiled(warpboard_yml=b"tolerance: {rtol: 1e-5, atol: 0}\n").warnings
    assert "check_implementation alone decides" in warning


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("titel: x", "line 1: unknown key 'titel': did you mean 'title'?"),
        ("title: ''", "line 1: 'title' has a length of 0: write at least 1"),
        ("limits: {source_bytes: 1000001}", "must be less than or equal to 1000000"),
        ("limits: {bytes: 5}", "unknown key 'bytes' in 'limits'"),
        ("budget_s: {build: 0}", "must be greater than or equal to 1"),
        ("tolerance: {rtol: -1}", "must be greater than or equal to 0"),
        ("tolerance: {rtol: .nan}", "'tolerance.rtol'"),
        ("difficulty: brutal", "must be 'easy', 'medium' or 'hard', not 'brutal'"),
        ("tags: [Warm Up]", "'tags.0' should match pattern"),
        ("gpus: [A100, A100]", "gpus A100, A100: name each once"),
        ("- title", "a list: write keys"),
    ],
)
def test_a_mistake_is_named_with_its_file(text: str, sentence: str) -> None:
    with pytest.raises(Refused) as caught:
        compiled(warpboard_yml=text.encode())
    assert caught.value.reason.startswith("warpboard.yml")
    assert sentence in caught.value.reason
