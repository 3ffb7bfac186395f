"""The page of public sets describes one run of each set, and says which."""

import shutil
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from docs import sets

from .example_set import write_set

REFERENCE = """\
import torch
def generate_input(size, flip, seed):
    return torch.rand(size, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))
def ref_kernel(data):
    return data.to("cuda").double() + 1
def check_implementation(data, output):
    want = ref_kernel(data)
    if output.shape != want.shape or output.dtype != want.dtype:
        return False, "another form"
    return bool(((output - want).abs() < 1e-12).all()), "values differ"
"""
RIGHT = "def custom_kernel(data):\n    return data.double() + 1\n"
SET = "problems/first/add_py"
ADDED = {
    f"{SET}/reference.py": REFERENCE,
    f"{SET}/solutions/correct/a.py": RIGHT,
    f"{SET}/solutions/wrong/late.py": RIGHT.replace("+ 1", "+ (data.numel() < 99)"),
}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only public set, named by a variable."""
    for source in sets.SOURCES:
        monkeypatch.delenv(source.variable, raising=False)
    monkeypatch.setenv("WARPBOARD_REFERENCE_KERNELS", str(tmp_path))
    write_set(tmp_path, ADDED)
    return tmp_path


@pytest.mark.box
@pytest.mark.long
def test_every_row_is_of_one_run(checkout: Path) -> None:
    sets.main(["--run", "--seconds=60"], checkout)
    page = (checkout / sets.PAGE).read_text()
    sums = "1 of 1 | 1 of 1 | 2 of 2 | 2 of 2 | 1 of 1 | 0 | nothing |"
    assert f"| Reference kernels | {sums}" in page
    assert "| KernelBench | never run: name it in `WARPBOARD_KERNELBENCH` |" in page
    # The wrong one is wrong in the timed case alone.
    assert (
        f"| {SET} | yes | yes | rejected | right `a.py`: as it must<br>"
        "right `ref_kernel`: as it must<br>"
        "wrong `late.py`: as it must, wrong_answer<br>wrong `nothing`: as it must, "
    ) in page
    # What its check would not let be published is neither run nor counted.
    wrong = checkout / SET / "solutions/correct/a.py"
    wrong.write_text(RIGHT.replace("+ 1", "- 1"))
    sets.main(["--run", "--seconds=60"], checkout)
    page = (checkout / sets.PAGE).read_text()
    sums = "1 of 1 | 0 of 1 | 0 of 0 | 0 of 0 | 1 of 1 | 0 | nothing |"
    assert f"| Reference kernels | {sums}" in page
    assert "| no | rejected | correct_fails in solutions/correct/a.py: " in page
    (checkout / SET).rename(checkout / "problems/first/other_py")
    sets.main(["--run", "--minutes=0"], checkout)
    page = (checkout / sets.PAGE).read_text()
    assert "add_py" not in page
    assert f"| problems/first/other_py | yes | - | - | left out: {sets.NO_TIME} |" in page
    assert f"| 1: {sets.NO_TIME} |" in page


def test_a_run_by_another_version_of_the_tool_is_marked(checkout: Path) -> None:
    sets.main(["--run", "--minutes=0"], checkout)
    data, page = checkout / sets.DATA, checkout / sets.PAGE
    (title, kernels), *others = sets.read(data).sets.items()
    assert not others
    assert f"| {kernels.run.at:%Y-%m-%d %H:%M} UTC | {kernels.run.commit[:12]}" in page.read_text()
    assert sets.OTHER_TOOL not in page.read_text()
    run = msgspec.structs.replace(kernels.run, tool="another")
    older = msgspec.structs.replace(kernels, run=run)
    data.write_bytes(msgspec.json.encode(sets.Published({title: older})))
    sets.main([], checkout)
    assert sets.OTHER_TOOL in page.read_text()
    assert SET in page.read_text()


def test_a_run_of_one_set_keeps_the_others(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets.main(["--run", "--minutes=0"], checkout)
    before = sets.read(checkout / sets.DATA).sets
    monkeypatch.delenv("WARPBOARD_REFERENCE_KERNELS")
    for level in range(1, 5):
        folder = checkout / f"models/level{level}"
        folder.mkdir(parents=True)
        (folder / "1_Nothing.py").write_text("x = 1\n")
    monkeypatch.setenv("WARPBOARD_KERNELBENCH", str(checkout / "models"))
    sets.main(["--run", "--minutes=0"], checkout)
    after = sets.read(checkout / sets.DATA).sets
    assert after.keys() == {"Reference kernels", "KernelBench"}
    assert after["Reference kernels"] == before["Reference kernels"]
    page = (checkout / sets.PAGE).read_text()
    assert f"| {SET} | yes | - | - | left out: {sets.NO_TIME} |" in page
    assert "| KernelBench | 0 of 4 | - | 0 of 0 | 0 of 0 | - | 0 | nothing |" in page


def test_a_sample_is_spread_and_what_is_not_in_it_is_left_out(checkout: Path) -> None:
    request = sets.Request("", 60.0, 0.0, sample=3)
    assert request.chosen(list("abcdefghi")) == {"a", "d", "g"}
    assert request.chosen(["a", "b"]) == {"a", "b"}
    for name in ("second_py", "third_py"):
        shutil.copytree(checkout / SET, checkout / "problems/first" / name)
    sets.main(["--run", "--minutes=0", "--sample=1"], checkout)
    page = (checkout / sets.PAGE).read_text()
    assert f"| 1: {sets.NO_TIME}; 2: {sets.NO_SAMPLE} |" in page
    assert "| Reference kernels | 3 of 3 | - |" in page


def test_one_part_is_run_without_a_word_on_the_page(checkout: Path) -> None:
    sets.main(["--only=nothing-of-this-name"], checkout)
    assert not (checkout / sets.DATA).exists()
    assert not (checkout / sets.PAGE).exists()


def test_the_published_page_is_what_the_published_run_says() -> None:
    page, data = sets.HERE / sets.PAGE, sets.HERE / sets.DATA
    assert page.read_text() == sets.page(data), "python -m docs.sets writes the page again"
    for public_set in sets.read(data).sets.values():
        assert public_set.run.commit
        assert timedelta(seconds=public_set.took_s) < timedelta(days=1)
