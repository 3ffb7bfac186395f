"""The page of public sets tells what was run, and goes on where it ended."""

import json
from pathlib import Path

import pytest
from docs import sets

from .sets import laid_out

pytestmark = [pytest.mark.box, pytest.mark.long]
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
SAID = "right `add.py`: as it must<br>right `ref_kernel`: as it must<br>"


def test_each_submission_gets_its_verdict_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {
        "first/add_py/reference.py": REFERENCE,
        "first/add_py/solutions/correct/a.py": RIGHT.replace("+ 1", "- 1"),
        "first/add_py/solutions/correct/add.py": RIGHT,
        "first/add_py/solutions/wrong/late.py": RIGHT.replace("+ 1", "+ (data.numel() < 99)"),
    }
    laid_out(tmp_path, {f"problems/{name}": text for name, text in changes.items()})
    monkeypatch.setenv("WARPBOARD_REFERENCE_KERNELS", str(tmp_path))
    monkeypatch.delenv("WARPBOARD_KERNELBENCH", raising=False)
    sets.main([], tmp_path)
    page, kept = tmp_path / sets.PAGE, tmp_path / sets.SEEN
    assert "| problems/first/add_py | yes | not tried |" in page.read_text()
    sets.main(["--run=add", "--seconds=60"], tmp_path)
    told = page.read_text()
    assert "1 of 1 load, 1 are run, 2 of 3 right" in told
    assert "right `a.py`: wrong_answer: check ended with wrong_answer" in told
    # The wrong one is wrong in the timed case alone.
    assert f"{SAID}wrong `late.py`: as it must<br>wrong `nothing`: as it must |" in told
    before = json.loads(kept.read_text())
    sets.main(["--run"], tmp_path)
    assert json.loads(kept.read_text()) == before
