"""A small problem set in the public form, to be changed one thing at a time."""

from collections.abc import Mapping
from pathlib import Path

TASK = """\
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "task.py", "source": "task.py"}
  - {"name": "utils.py", "source": "../utils.py"}
  - {"name": "reference.py", "source": "reference.py"}
  - {"name": "eval.py", "source": "../../common/eval.py"}
lang: "py"
description: "Adds one."
config:
  main: "eval.py"
templates:
  Python: "../template.py"
tests:
  - {"size": 64, "flip": False, "seed": 7}
benchmarks:
  - {"size": 1024, "flip": True, "seed": 3}
"""
REFERENCE = """\
def generate_input(size, flip, seed): ...
def ref_kernel(data): ...
def check_implementation(data, output): ...
"""
CONTEST = """\
name: First steps
# the end of all problems without one of their own
deadline: "2100-01-02"
description: ""
problems:
  - directory: first/add_py
    name: add_v2
    deadline: "2099-12-31 7:59" # somewhere
    gpus:
      - H100
      - B200_Nebius
"""
FILES: Mapping[str, str] = {
    "problems/first.yaml": CONTEST,
    "problems/first/add_py/task.yml": TASK,
    "problems/first/add_py/task.py": "input_t = output_t = object\n",
    "problems/first/add_py/reference.py": REFERENCE,
    "problems/first/add_py/solutions/correct/a.py": "",
    "problems/first/utils.py": "def set_seed(seed): ...\n",
    "problems/first/template.py": "def custom_kernel(data): ...\n",
    "problems/common/eval.py": "",
    "private.py": "SECRET = 1\n",
}


def write_set(folder: Path, changes: Mapping[str, str] = {}) -> Path:
    """Write the set with some files changed, and return the folder of its only problem."""
    for name, text in {**FILES, **changes}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "problems" / "first" / "add_py"
