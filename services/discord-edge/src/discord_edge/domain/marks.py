"""The application's own emojis in the place of common marks, beside the same words."""

import re
from collections.abc import Mapping

from shared.gpus import gpu as known_gpu

# What an operator calls an emoji of the application, and what stands there without it.
STATES = {"✅": "wb_passed", "❌": "wb_failed", "⏳": "wb_running"}
CPU, AMD, NVIDIA = "wb_cpu", "wb_amd", "wb_nvidia"
NAMES = frozenset((*STATES.values(), CPU, AMD, NVIDIA))
# Within these Discord shows what is written, so an emoji would be its id.
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


def drawn(text: str, own: Mapping[str, str], length_max: int) -> str:
    """A text with the emojis that there are, by their names; as it was where it grew too long.

    >>> drawn("✅ passed `✅`", {"wb_passed": "<:wb_passed:7>"}, 100)
    '<:wb_passed:7> passed `✅`'
    >>> drawn("✅ passed", {"wb_passed": "<:wb_passed:7>"}, 20)
    '✅ passed'
    """
    parts = _CODE.split(text)
    for mark, name in STATES.items():
        if name in own:
            # Every other part is code.
            parts[::2] = [one.replace(mark, own[name]) for one in parts[::2]]
    found = "".join(parts)
    return found if len(found) <= length_max else text


def vendor(gpu: str) -> str | None:
    """The emoji beside a GPU type, None for one that nobody knows.

    >>> vendor("CPU"), vendor("MI300X"), vendor("H100"), vendor("mixed")
    ('wb_cpu', 'wb_amd', 'wb_nvidia', None)
    """
    if gpu == "CPU":
        return CPU
    if re.match("MI[0-9]", gpu):
        return AMD
    return NVIDIA if known_gpu(gpu) is not None else None
