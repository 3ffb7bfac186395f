"""Any task, contest or extra file either compiles or gets one clear error message."""

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Refused
from shared.problem_folders import find_competition_problem, read_problem_files
from shared.problems.competition import read_competition
from shared.problems.compilation import compile_problem
from tests.problems import example_set
from tests.shared.problems.examples import FILES, TASK

SOUND: Any = yaml.safe_load(TASK)
CONTEST: Any = yaml.safe_load(example_set.CONTEST)
EXTRAS: Any = {
    "title": "T",
    "gpus": ["CPU"],
    "limits": {"source_bytes": 99},
    "budget_s": {"build": 5},
    "requires": {"count": 1, "toolchains": ["g++"]},
    "languages": ["python"],
    "tags": ["a"],
    "authors": ["Ada"],
    "tolerance": {"rtol": 0.1},
    "licence": {"problem": "MIT", "submissions": "CC-BY-4.0"},
    "consent": "CONSENT.md",
    "ranking_by": "geom",
    "source_visible": "always",
    "publish": "never",
    "answers": "strict",
    "forbid": ["torch.matmul", "cublas"],
    "own_kernel": "required",
    "roofline": {"bytes": "8*size", "written": "4*size", "flops": "size", "dtype": "fp32"},
    "baselines": [{"name": "eager", "file": "baselines/eager.py", "note": "as it is"}],
    "milestones": [
        {"id": "a", "title": "A", "when": {"metric": "vs_baseline.eager", "op": ">=", "value": 2}}
    ],
}
BESIDE = {
    **FILES,
    "CONSENT.md": b"I agree.\n",
    "baselines/eager.py": b"def custom_kernel(data):\n    return data\n",
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["@SUBMISSION@", "../x", "/etc/passwd", "a" * 5000, 10**400, -1, 0, 2**63]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
TEXTS = {
    "task.yml": TASK.encode(),
    "warpboard.yml": yaml.safe_dump(EXTRAS).encode(),
    "set.yaml": example_set.CONTEST.encode(),
}
MARKS = st.sampled_from(
    (
        *(
            b"\n",
            b"\t",
            b"  ",
            b": ",
            b"- ",
            b"#",
            b"'",
            b'"',
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b"|\n",
        ),
        *(b"&a ", b"*a", b"<<: ", b"!!python/object:os ", b"? ", b"---\n", b"%", b"\xff", b"\0"),
        *(b"~", b".nan", b"1e999", b"0x", b"2026-01-01", b"yes", b"\xef\xbb\xbf", b"\r"),
    )
)
PIECES = st.sampled_from(
    ["..", ".", "", "a", "task.py", "private.py", "link", "etc", "passwd", "C:", "\\", "\0", "…"]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a document, including its own."""
    inner: Any = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    return [path, *(place for key, child in inner for place in places(child, (*path, key)))]


@st.composite
def damaged(draw: st.DrawFn, sound: Any) -> bytes:
    """Return a document with one or two values replaced, removed or inserted, as YAML reads it."""
    value = copy.deepcopy(sound)
    for _ in range(draw(st.integers(1, 2))):
        *above, last = draw(st.sampled_from(places(value)[1:] or [("tests",)]))
        here = value
        for key in above:
            here = here[key]
        how = draw(st.sampled_from(["replace", "remove", "add"]))
        if how == "remove":
            del here[last]
        elif how == "add" and isinstance(here, dict):
            here[draw(st.text(max_size=6))] = draw(VALUES)
        else:
            here[last] = draw(VALUES)
    return json.dumps(value).encode()


@st.composite
def broken(draw: st.DrawFn, sound: bytes) -> bytes:
    """Return a text with a few pieces inserted, removed or replaced by others."""
    text = sound
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        piece = draw(MARKS | st.binary(max_size=4) | st.text(max_size=4).map(str.encode))
        text = text[:begin] + piece + text[begin + draw(st.integers(0, 12)) :]
    return text


def one_clear_sentence(refused: Refused, name: str) -> None:
    assert refused.code == "bad_problem"
    assert refused.reason.strip()
    assert "\n" not in refused.reason
    assert len(refused.reason) < 600
    assert name in refused.reason or "reference.py" in refused.reason


@given(damaged(SOUND))
def test_a_task_of_wrong_values_gets_one_sentence(text: bytes) -> None:
    try:
        compile_problem("doubling", {**FILES, "task.yml": text})
    except Refused as refused:
        one_clear_sentence(refused, "task.yml")


@given(damaged(EXTRAS))
def test_extras_of_wrong_values_get_one_sentence(text: bytes) -> None:
    try:
        compile_problem("doubling", {**BESIDE, "warpboard.yml": text})
    except Refused as refused:
        one_clear_sentence(refused, "warpboard.yml")


def test_what_is_damaged_here_is_whole_before() -> None:
    version = compile_problem("doubling", {**BESIDE, "warpboard.yml": json.dumps(EXTRAS).encode()})
    assert (len(version.baselines), len(version.milestones), len(version.works)) == (1, 1, 1)
    assert read_competition("set.yaml", example_set.CONTEST.encode())


@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_a_file_of_broken_yaml_gets_one_sentence(name: str, data: st.DataObject) -> None:
    text = data.draw(broken(TEXTS[name]))
    try:
        if name == "set.yaml":
            read_competition(name, text)
        else:
            compile_problem("doubling", {**BESIDE, name: text})
    except Refused as refused:
        one_clear_sentence(refused, name)


@given(damaged(CONTEST))
def test_a_contest_of_wrong_values_gets_one_sentence(text: bytes) -> None:
    try:
        read_competition("set.yaml", text)
    except Refused as refused:
        one_clear_sentence(refused, "set.yaml")


@given(st.lists(PIECES, min_size=1, max_size=9))
def test_no_source_reaches_a_file_outside_its_set(pieces: list[str]) -> None:
    source = "/".join(pieces)
    with tempfile.TemporaryDirectory() as home:
        folder = example_set.write_set(Path(home))
        task = yaml.safe_load(example_set.TASK)
        task["files"][2]["source"] = source
        (folder / "task.yml").write_text(json.dumps(task))
        (folder.parent / "link").symlink_to("/etc")
        try:
            files = read_problem_files(folder)
            assert not any(b"SECRET" in data or b"root:" in data for data in files.values())
            compile_problem("add", {**files, "warpboard.yml": b"gpus: [CPU]"})
        except Refused as refused:
            one_clear_sentence(refused, "task.yml")


@pytest.mark.parametrize("text", [b"a: &a [*a]", b"&a {b: *a}", b"problems: &p [*p]"])
def test_a_document_that_holds_itself_is_refused(text: bytes) -> None:
    for name in ("task.yml", "warpboard.yml"):
        with pytest.raises(Refused, match="anchors and aliases are not supported"):
            compile_problem("doubling", {**FILES, name: text})


def test_a_huge_set_is_refused_while_it_is_read(tmp_path: Path) -> None:
    folder = example_set.write_set(tmp_path)
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(Refused, match="over 16,777,216 bytes"):
        read_problem_files(folder)
    (folder / "weights.bin").unlink()
    with (folder.parent.parent / "first.yaml").open("a") as file:
        file.write("#" * 200_000)
    with pytest.raises(Refused, match="at most 131072"):
        find_competition_problem(folder)
