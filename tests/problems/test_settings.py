"""Settings given beside a problem's files become part of its version, with its release policy."""

import json

import pytest

from shared.errors import Refused
from shared.problems.compilation import compile_problem
from shared.problems.warpboard_yml import PublishSettings, apply_settings
from tests.support.door import FILES

OWN = {**FILES, "warpboard.yml": b"licence: {problem: MIT}\ntags: [a]\n"}


def test_what_is_said_beside_the_files_is_another_version() -> None:
    settings = PublishSettings(
        title="Copy it",
        ranking_by="geom",
        source_visible="always",
        licence={"submissions": "Apache-2.0"},
        consent=b"I agree.\n",
    )
    plain, changed = (
        compile_problem("copy", files) for files in (OWN, apply_settings(OWN, settings))
    )
    assert (changed.title, changed.ranking_by, changed.source_visible) == (
        "Copy it",
        "geom",
        "always",
    )
    assert changed.files[changed.consent] == b"I agree.\n"
    manifest = json.loads(changed.manifest)
    assert manifest["licence"] == {"problem": "MIT", "submissions": "Apache-2.0"}
    assert manifest["tags"] == ["a"]
    assert plain.digest != changed.digest


def test_nothing_said_leaves_the_digest() -> None:
    plain = compile_problem("copy", FILES)
    assert compile_problem("copy", apply_settings(FILES, PublishSettings())).digest == plain.digest
    assert {"source_visible", "publish"}.isdisjoint(json.loads(plain.manifest))
    assert (plain.source_visible, plain.publish) == ("after_close", "after_close")


def test_what_is_wrong_in_the_file_is_said_by_its_own_line() -> None:
    files = {**FILES, "warpboard.yml": b"tags: [a]\nflavour: sweet\n"}
    with pytest.raises(Refused, match="line 2"):
        apply_settings(files, PublishSettings(title="Copy"))


def test_a_shortcut_policy_is_part_of_the_version() -> None:
    policy = b"forbid: [torch.matmul, cublas, cublas]\nown_kernel: required\n"
    plain, bound = (
        json.loads(compile_problem("copy", files).manifest)
        for files in (FILES, {**FILES, "warpboard.yml": policy})
    )
    assert "shortcuts" not in plain
    assert bound["shortcuts"] == {"forbid": ["torch.matmul", "cublas"], "own_kernel": "required"}


@pytest.mark.parametrize("name", ["matmul", "cuBLAS", "torch", "torch.", "torch.matmul()", "''"])
def test_an_unknown_name_in_a_policy_is_refused_with_the_fix(name: str) -> None:
    files = {**FILES, "warpboard.yml": f"tags: [a]\nforbid: [torch.mm, {name}]\n".encode()}
    with pytest.raises(Refused) as refused:
        compile_problem("copy", files)
    assert refused.value.field == "forbid.1"
    assert refused.value.reason.startswith("warpboard.yml, line 2: forbid ")
    assert "torch.matmul, or one of cublas, cudnn" in refused.value.reason


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
    files = apply_settings(FILES, PublishSettings(source_visible=visible, publish=publish))
    if expected is None:
        with pytest.raises(Refused, match="everybody sees published sources"):
            compile_problem("copy", files)
        return
    version = compile_problem("copy", files)
    assert (version.source_visible, version.publish) == expected
