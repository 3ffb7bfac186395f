"""The start of a submission to a model: its own constructor, and a forward to be written.

The constructor stays, for the parameters must be made in the same order as the model's.
"""

import ast
import re
from collections.abc import Sequence

from shared.problems.python import CODE_BYTES_MAX

MODEL, FORWARD = "Model", "forward"
UNWRITTEN = "forward is still to be written"

# The lines from one to before another, and what takes their place.
Edit = tuple[tuple[int, int], list[str]]

_ASIDE = ("get_inputs", "get_init_inputs")
_RENAMED = re.compile(r"\b(class |super\()Model\b")
_PLAIN = f"""\
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, *arguments):
        super().__init__()

    def forward(self, *inputs):
        # Gives what the forward of Model gives.
        raise NotImplementedError("{UNWRITTEN}")
"""


def parsed(data: bytes) -> ast.Module:
    """A file's syntax tree; an empty one for what cannot be read."""
    try:
        return ast.parse(data if len(data) <= CODE_BYTES_MAX else b"")
    except (MemoryError, RecursionError, SyntaxError, ValueError):
        return ast.Module([], [])


def begun(reference: bytes) -> str:
    r"""The file of a model with the class under the name it must have, and what it is to compute.

    >>> print(begun(b"class Model(nn.Module):\n    def forward(self, x):\n        return x + 1\n"))
    class ModelNew(nn.Module):
        def forward(self, x):
            # return x + 1
            raise NotImplementedError("forward is still to be written")
    <BLANKLINE>
    """
    tree = parsed(reference)
    models = [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == MODEL]
    inner = models[-1].body if models else []
    forwards = [one for one in inner if isinstance(one, ast.FunctionDef) and one.name == FORWARD]
    if not forwards:
        return _PLAIN
    lines = _lines(reference)
    replaced: list[Edit] = [(_span(one), []) for one in tree.body if _is_aside(one)]
    replaced.append(_unwritten(lines, forwards[-1]))
    for (first, last), instead in sorted(replaced, reverse=True):
        lines[first:last] = instead
    return _RENAMED.sub(
        r"\1ModelNew", re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines).rstrip() + "\n")
    )


def _lines(reference: bytes) -> list[str]:
    """As the syntax tree counts them, which takes no other character for the end of a line."""
    return re.split(r"\r\n|\r|\n", reference.decode("utf-8-sig", errors="replace"))


def _unwritten(lines: Sequence[str], forward: ast.FunctionDef) -> Edit:
    """Where the body of a forward is, and what takes its place: itself, as a comment."""
    first, last = forward.body[0].lineno - 1, forward.end_lineno or forward.lineno
    column = forward.body[0].col_offset
    if lines[first].encode()[:column].strip():
        # It begins on the line of its own head.
        first, indent = forward.lineno - 1, " " * (forward.col_offset + 4)
        head = [f"{' ' * forward.col_offset}def forward({ast.unparse(forward.args)}):"]
        body = [line for one in forward.body for line in ast.unparse(one).splitlines()]
    else:
        head, indent = [], " " * column
        body = [line.removeprefix(indent) for line in lines[first:last]]
    said = [f"{indent}# {line}".rstrip() for line in body]
    raised = f'{indent}raise NotImplementedError("{UNWRITTEN}")'
    return (first, last), [*head, *said, raised]


def _is_aside(node: ast.stmt) -> bool:
    """Whether a statement is of the problem alone, or of the file run as a program."""
    if isinstance(node, ast.If):
        return "__name__" in ast.unparse(node.test)
    return isinstance(node, ast.FunctionDef) and node.name in _ASIDE


def _span(node: ast.stmt) -> tuple[int, int]:
    decorators = [one.lineno for one in getattr(node, "decorator_list", ())]
    return min([node.lineno, *decorators]) - 1, node.end_lineno or node.lineno
