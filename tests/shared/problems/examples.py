"""A small problem that compiles, to be changed one thing at a time."""

from collections.abc import Mapping

from shared.problems.compilation import ProblemVersion, compile_problem

TASK = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: task.py, source: task.py}
  - {name: reference.py, source: reference.py}
lang: py
config: {main: eval.py}
description: |
  Doubles a vector.
tests:
  - {size: 64, seed: 7}
benchmarks:
  - {size: 1024, seed: 3}
gpus: [CPU, H100]
"""

REFERENCE = b"""\
def generate_input(**case): ...
def ref_kernel(data): ...
def check_implementation(data, output): ...
"""

FILES = {
    "task.yml": TASK.encode(),
    "task.py": b"input_t = output_t = object\n",
    "reference.py": REFERENCE,
    "template.py": b"def custom_kernel(data): ...\n",
    "statement.md": "# Doubling, π and ²\n".encode(),
}


def compile_example(task: str = TASK, **others: bytes) -> ProblemVersion:
    """Compile the example with this task.yml; the keyword `warpboard_yml` is a file."""
    return compile_problem("doubling", files_with_task(task, **others))


def files_with_task(task: str, **others: bytes) -> Mapping[str, bytes]:
    """Return the example's files with this task.yml and these other files."""
    extra_files = {_file_name(key): data for key, data in others.items()}
    return FILES | {"task.yml": task.encode()} | extra_files


def replace_in_task(old: str, new: str) -> str:
    """Return the example's task.yml with one text replaced."""
    assert TASK.count(old) == 1, f"{old!r} must be there once"
    return TASK.replace(old, new)


def _file_name(key: str) -> str:
    stem, _, suffix = key.rpartition("_")
    return f"{stem}.{suffix}"
