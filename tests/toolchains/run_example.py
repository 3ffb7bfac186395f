"""Run solutions of the catalogue on the processor, in a process of their own.

`python -m tests.toolchains.run_example CASES SLUG FILE …` prints what each problem's check says of
the first CASES cases, as JSON: for each solution a list, with null for a correct answer. Some
compilers read their settings only when they are imported.
"""

import json
import sys

from tests.problems.loaded_problem import opened


def run_solution(slug: str, file: str, cases_count: int) -> list[str | None]:
    """Return what the check says of each answer."""
    with opened(slug) as problem:
        kernel = problem.kernel(f"solutions/{file}")
        return [problem.complaint(kernel, case) for case in problem.cases[:cases_count]]


if __name__ == "__main__":
    count, *names = sys.argv[1:]
    pairs = zip(names[::2], names[1::2], strict=True)
    print(json.dumps([run_solution(*pair, int(count)) for pair in pairs]))  # noqa: T201
