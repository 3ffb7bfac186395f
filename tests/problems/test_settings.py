"""What is said beside a problem's files becomes part of its version, and its release policy."""

import json

import pytest

from shared.errors import Refused
from shared.problems import compile_problem
from shared.problems.settings import Settings, with_settings
from tests.support.door import FILES

OWN = {**FILES, "warpboard.yml": b"licence: {problem: MIT}\ntags: [a]\n"}


def test_what_is_said_beside_the_files_is_another_version() -> None:
    said = Settings(
        title="Copy it",
        ranking_by="geom",
        source_visible="always",
        licence={"submissions": "Apache-2.0"},
        consent=b"I agree.\n",
    )
    plain, made = (compile_problem("copy", one) for one in (OWN, with_settings(OWN, said)))
    assert (made.title, made.ranking_by, made.source_visible) == ("Copy it", "geom", "always")
    assert made.files[made.consent] == b"I agree.\n"
    manifest = json.loads(made.manifest)
    assert manifest["licence"] == {"problem": "MIT", "submissions": "Apache-2.0"}
    assert manifest["tags"] == ["a"]
    assert plain.digest != made.digest


def test_nothing_said_leaves_the_digest() -> None:
    plain = compile_problem("copy", FILES)
    assert compile_problem("copy", with_settings(FILES, Settings())).digest == plain.digest
    assert {"source_visible", "publish"}.isdisjoint(json.loads(plain.manifest))
    assert (plain.source_visible, plain.publish) == ("after_close", "after_close")


def test_what_is_wrong_in_the_file_is_said_by_its_own_line() -> None:
    files = {**FILES, "warpboard.yml": b"tags: [a]\nflavour: sweet\n"}
    with pytest.raises(Refused, match="line 2"):
        with_settings(files, Settings(title="Copy"))


@pytest.mark.parametrize(
    ("visible", "publish", "expected"),
    [
        ("owner", None, ("owner", "never")),
        ("always", None, ("always", "after_close")),
        ("always", "always", ("always", "always")),
        (None, "never", ("after_close", "never")),
        ("owner", "after_close", None),
        (None, "always", None),
    ],
)
def test_nothing_is_published_that_is_not_seen(
    visible: str | None, publish: str | None, expected: tuple[str, str] | None
) -> None:
    files = with_settings(FILES, Settings(source_visible=visible, publish=publish))
    if expected is None:
        with pytest.raises(Refused, match="what is published is seen by everybody"):
            compile_problem("copy", files)
        return
    made = compile_problem("copy", files)
    assert (made.source_visible, made.publish) == expected
