"""The page of public sets describes exactly one run of the tool, and nothing older."""

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
    return bool((output - ref_kernel(data)).abs().max() < 1e-3)
"""
RIGHT = "def custom_kernel(data):\n    return data + 1\n"
SET = "problems/first/add_py"
ADDED = {
    f"{SET}/reference.py": REFERENCE,
    f"{SET}/solutions/correct/a.py": RIGHT.replace("+ 1", "- 1"),
    f"{SET}/solutions/correct/add.py": RIGHT,
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
    row = "| Reference kernels | - | 1 of 1 | 2 of 3 | 2 of 2 | 0 | nothing |"
    assert row in page
    assert (
        "| KernelBench | - | - | - | - | - | all: WARPBOARD_KERNELBENCH names nothing here |"
        in page
    )
    assert "right `a.py`: wrong_answer: check ended with wrong_answer" in page
    # The wrong one is wrong in the timed case alone.
    assert (
        "right `add.py`: as it must<br>right `ref_kernel`: as it must<br>"
        "wrong `late.py`: as it must, wrong_answer<br>wrong `nothing`: as it must, "
    ) in page
    (checkout / SET).rename(checkout / "problems/first/other_py")
    sets.main(["--run", "--minutes=0"], checkout)
    page = (checkout / sets.PAGE).read_text()
    assert "add_py" not in page
    assert f"| problems/first/other_py | yes | left out: {sets.NO_TIME} |" in page
    assert f"| 1: {sets.NO_TIME} |" in page


def test_what_another_tool_has_written_is_not_published(checkout: Path) -> None:
    sets.main(["--run", "--minutes=0"], checkout)
    data, page = checkout / sets.DATA, checkout / sets.PAGE
    run = sets.read(data)
    assert run is not None
    assert f"All figures are of one run: {run.at:%Y-%m-%d %H:%M} UTC" in page.read_text()
    data.write_bytes(msgspec.json.encode(msgspec.structs.replace(run, tool="another")))
    sets.main([], checkout)
    assert sets.NOTHING in page.read_text()
    assert SET not in page.read_text()


def test_one_part_is_run_without_a_word_on_the_page(checkout: Path) -> None:
    sets.main(["--only=nothing-of-this-name"], checkout)
    assert not (checkout / sets.DATA).exists()
    assert not (checkout / sets.PAGE).exists()


def test_the_published_page_is_what_the_published_run_says() -> None:
    page, data = sets.HERE / sets.PAGE, sets.HERE / sets.DATA
    assert page.read_text() == sets.page(data), "python -m docs.sets writes the page again"
    run = sets.read(data)
    if run is not None:
        assert run.commit
        assert timedelta(seconds=run.took_s) < timedelta(days=1)
