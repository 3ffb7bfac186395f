"""Generates docs/shortcuts.md, the page of the families of functions in shortcut policies."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.check.families import FAMILIES, NUMPY_LIKE, SCIPY_LIKE, Family

PAGE = Path(__file__).parent / "shortcuts.md"


def pages() -> Mapping[Path, str]:
    """Return the page and its text."""
    numpy, scipy = (_list_names(modules) for modules in (NUMPY_LIKE, SCIPY_LIKE))
    head = f"""# Shortcut families

Generated from `harness/src/harness/check/families.py` by `make docs`; a test fails when this page
is stale.

`forbid` in `warpboard.yml` ([how to write it](writing-a-problem.md#shortcut-policy)) names a torch
function or a library. Forbidding a function forbids its whole family: the functions that do the
same work, in every library. A name also covers everything below it.

- Names in the row *NumPy* are below {numpy}.
- Names in the row *SciPy* are below {scipy}.
- *Operators* are methods of tensors and what torch dispatches: they are forbidden in the source,
  and doubted in the record of a call.
- *Libraries* compute it on a GPU: `forbid: [LIBRARY]` forbids the family.
- *Can also do* names families whose work this family can do in another way, such as a product by a
  convolution. If one of those is forbidden, this family is still allowed, but a ranked run that
  uses it is held for review.
"""
    return {PAGE: "\n".join([head, *map(_section, FAMILIES)])}


def _section(family: Family) -> str:
    product = ("the operator `@`",) if family.has_operator else ()
    rows = (
        ("torch", [f"`{name}`" for name in family.torch] + [*product]),
        ("Operators", [f"`{name}`" for name in family.operators]),
        ("NumPy", [f"`{name}`" for name in family.numpy]),
        ("SciPy", [f"`{name}`" for name in family.scipy]),
        ("Others", [f"`{name}`" for name in family.others]),
        ("Libraries", [f"`{name}`" for name in family.libraries]),
        ("Can also do", list(family.can_do)),
    )
    lines = [
        f"| {title} | {' '.join(cells) if title != 'Can also do' else ', '.join(cells)} |"
        for title, cells in rows
        if cells
    ]
    title = family.title[0].upper() + family.title[1:]
    return f"## {title}\n\n| | |\n|---|---|\n" + "\n".join(lines) + "\n"


def _list_names(modules: Sequence[str]) -> str:
    *first, last = [f"`{module}`" for module in modules]
    return f"{', '.join(first)} and {last}"
