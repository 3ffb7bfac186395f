"""The text to accept before submitting: a file of the version, or none."""

import json

import pytest

from shared.errors import Refused
from shared.problems.compilation import compile_problem
from tests.shared.problems.examples import FILES, compile_example

TEXT = b"What I send in may be published.\n"
ASKED = b"consent: CONSENT.md\nlicence: {problem: MIT, submissions: CC-BY-4.0}\n"


def with_consent(text: bytes = TEXT, asked: bytes = ASKED) -> dict[str, bytes]:
    return {**FILES, "warpboard.yml": asked, "CONSENT.md": text}


def test_the_text_is_a_file_of_the_version() -> None:
    version = compile_problem("double", with_consent())
    manifest = json.loads(version.manifest)
    assert version.consent == manifest["consent"] == "CONSENT.md"
    assert version.files["CONSENT.md"] == TEXT
    assert manifest["licence"] == {"problem": "MIT", "submissions": "CC-BY-4.0"}
    other = compile_problem("double", with_consent(TEXT + b"And sold.\n"))
    assert other.digest != version.digest


def test_without_it_a_version_is_what_it_was() -> None:
    bare = compile_example()
    assert bare.consent == ""
    assert not {"consent", "licence"} & set(json.loads(bare.manifest))
    assert compile_example(warpboard_yml=b"licence: {}\n").digest == bare.digest


@pytest.mark.parametrize(
    ("text", "asked", "what"),
    [
        (TEXT, b"consent: OTHER.md", "is missing: add it beside"),
        (TEXT, b"consent: ../CONSENT.md", "consent"),
        (b" \n", ASKED, "is empty"),
        (b"\xff", ASKED, "not UTF-8"),
        (b"x" * 100_001, ASKED, "at most 100,000"),
        (TEXT, b"consent: submission.py", "is missing: add it beside|another text"),
        (TEXT, b"licence: {problem: 'my own; really'}", "licence.problem"),
    ],
)
def test_what_cannot_be_accepted_is_refused(text: bytes, asked: bytes, what: str) -> None:
    with pytest.raises(Refused, match=what):
        compile_problem("double", with_consent(text, asked))
