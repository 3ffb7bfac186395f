"""Find the kernel in what a model wrote."""

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

# A text, or the messages of a conversation.
Completion: TypeAlias = str | Sequence[Mapping[str, str]]
_BLOCK = re.compile(r"^```[^\n`]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def extract_source(completion: Completion) -> str:
    r"""Return the last fenced block of code; without one, the whole text.

    >>> extract_source("First:\n```python\nx = 1\n```\nBetter:\n```python\nx = 2\n```\n")
    'x = 2\n'
    >>> extract_source([{"role": "assistant", "content": "x = 3"}])
    'x = 3'
    """
    text = completion if isinstance(completion, str) else completion[-1]["content"] or ""
    blocks = _BLOCK.findall(text)
    return blocks[-1] if blocks else text
