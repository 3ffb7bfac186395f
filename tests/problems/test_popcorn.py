"""A problem may bring its own program, which then runs it, in the lower tier."""

import json

import pytest

from shared.errors import Refused
from shared.problems.compilation import ProblemVersion
from tests.shared.problems.examples import TASK, compile_example

OWN = TASK.replace(
    "  - {name: task.py, source: task.py}\n", "  - {name: eval.py, source: eval.py}\n"
)
MAIN = b"import os\nos.environ['POPCORN_FD']\n"
ASKED = b"harness: popcorn\n"


def own(task: str = OWN, extras: bytes = ASKED, **others: bytes) -> ProblemVersion:
    return compile_example(task, **({"eval_py": MAIN} | others), warpboard_yml=extras)


def test_a_program_of_its_own_runs_where_that_is_asked_for() -> None:
    version = own()
    assert json.loads(version.manifest)["main"] == "eval.py"
    assert version.languages == ("python",)
    (warning,) = version.warnings
    assert "its own eval.py" in warning
    assert "G0" in warning


def test_it_runs_by_itself_where_our_harness_has_nothing_to_call() -> None:
    odd = b"def reference_forward(x): ...\n"
    assert json.loads(own(extras=b"", reference_py=odd).manifest)["main"] == "eval.py"
    with pytest.raises(Refused, match="does not define generate_input"):
        own(extras=b"harness: warpboard\n", reference_py=odd)
    with pytest.raises(Refused, match="does not define generate_input"):
        own(extras=b"", reference_py=odd, eval_py=b"")
    assert "main" not in json.loads(own(extras=b"").manifest)


@pytest.mark.parametrize("value", ["0.5", "a_b", "[1, 2]", "null", "'2 3'"])
def test_a_value_that_public_readers_misread_is_refused(value: str) -> None:
    task = OWN.replace("size: 64", f"size: {value}")
    with pytest.raises(Refused, match=r"task\.yml, line 10: the program's reader does not read"):
        own(task)
    assert own(task, extras=b"").warnings == ()


def test_a_truth_is_a_number_there_where_its_author_says_so() -> None:
    task = OWN.replace("size: 64", "size: False")
    with pytest.raises(Refused, match="bool_as: int"):
        own(task)
    manifest = json.loads(own(task, ASKED + b"bool_as: int\n").manifest)
    assert manifest["tests"][0]["args"]["size"] == 0
    assert manifest["tests"][0]["args"]["size"] is not False


def test_a_program_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match=r"line 6: 'eval\.py' must run the problem"):
        compile_example(TASK, warpboard_yml=ASKED)
