"""What a submission prints, kept within limits, and the frames that a fault handler prints in it.

The fault handler of Python names files by their folders on this machine, which tell nothing.
"""

import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

KEPT_BYTES = 32 * 1024
REPORTED_BYTES = 8 * 1024
OUTPUT_BYTES_MAX = 1024 * 1024
FRAMES_MAX = 8
# A frame of a traceback; a fault handler writes no comma.
_FRAME = re.compile(
    r'^[ ]*File "(?P<file>/[^"\n]+)"(?P<line>, line \d+)(?P<comma>,?)(?: in .*)?$\n?',
    re.MULTILINE,
)
# One that the limit of the output cut.
_CUT_FRAME = re.compile(r'^[ ]*File "/[^"\n]*\Z', re.MULTILINE)
_FAULT_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.*)')
_FAULT = "Fatal Python error: "
_FAULT_THREAD = "most recent call first"
_SUBMISSION = "/submission/"
_SLASHES_MIN = 2


class OutputLog:
    """A bounded record of an unbounded stream."""

    def __init__(self) -> None:
        self.bytes = 0
        self._head = b""
        self._tail = b""

    @property
    def is_over(self) -> bool:
        """Whether a run printed more than it may."""
        return self.bytes > OUTPUT_BYTES_MAX

    def add(self, chunk: bytes) -> None:
        """Append the next bytes of the stream."""
        self.bytes += len(chunk)
        room = KEPT_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail = (self._tail + chunk[room:])[-KEPT_BYTES:]

    def whole(self) -> str:
        """Return everything kept, with a line where something is left out."""
        left_out = self.bytes - len(self._head) - len(self._tail)
        gap = f"\n[{left_out} bytes are left out here]\n" if left_out else ""
        head, tail = (data.decode(errors="replace") for data in (self._head, self._tail))
        return hide_folders(head) + gap + hide_folders(tail) if gap else hide_folders(head + tail)

    def ends(self) -> tuple[str, str]:
        """Return the first and last 8 KiB; the second is empty if the first holds everything."""
        if self.bytes <= REPORTED_BYTES:
            return hide_folders(self._head.decode(errors="replace")), ""
        kept_bytes = self._head + self._tail
        start = max(REPORTED_BYTES, len(kept_bytes) - REPORTED_BYTES)
        head, tail = kept_bytes[:REPORTED_BYTES], kept_bytes[start:]
        texts = (data.decode(errors="replace") for data in (head, tail))
        return hide_folders(next(texts)), hide_folders(next(texts))


def hide_folders(text: str) -> str:
    r"""Remove the folders of this machine, and the harness's own frames, from printed frames.

    >>> hide_folders('  File "/submission/submission.py", line 5 in read\n')
    '  File "submission.py", line 5 in read\n'
    """
    if 'File "/' not in text:
        return text
    package = __file__.removesuffix("output.py")
    known = sorted((path for path in set(sys.path) if path.count("/") >= _SLASHES_MIN), key=len)

    def shorten(match: re.Match[str]) -> str:
        file = match["file"]
        if file.startswith(package) and not match["comma"]:
            return ""
        if _SUBMISSION in file:
            file = file.rpartition(_SUBMISSION)[2]
        folder = next((path for path in reversed(known) if file.startswith(f"{path}/")), "")
        file = file.removeprefix(f"{folder}/")
        file = file.rpartition("/")[2] if file.startswith("/") else file
        return match[0].replace(match["file"], file, 1)

    return _FRAME.sub(shorten, _CUT_FRAME.sub("", text))


class FaultFrame(NamedTuple):
    """A frame of the process that a signal ended."""

    file: str
    line: int
    function: str


def read_fault(text: str, main: str) -> list[FaultFrame]:
    r"""Return the frames of the last fault in an output, the innermost last.

    There are none if none is in the submitted file `main`. Whoever prints the same text only
    misleads themselves.

    >>> output = 'Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n'
    >>> output += '  File "ctypes.py", line 9 in at\n  File "k.py", line 5 in read\n'
    >>> [frame.line for frame in read_fault(output, "k.py")], read_fault(output, "other.py")
    ([5, 9], [])
    """
    fault = text.rpartition(_FAULT)[2] if _FAULT in text else ""
    frames = list(_fault_frames(fault))
    own = [index for index, frame in enumerate(frames) if frame.file == main]
    if not own:
        return []
    # With the one that the submission called.
    return frames[max(0, own[0] - 1) : own[-1] + 1][:FRAMES_MAX][::-1]


def _fault_frames(fault: str) -> Iterator[FaultFrame]:
    """Yield the frames of the thread that failed."""
    for line in fault.partition(_FAULT_THREAD)[2].splitlines()[1:]:
        match = _FAULT_FRAME.match(line)
        if match is None:
            return
        yield FaultFrame(match["file"], int(match["line"]), match["function"])


def describe_fault(frames: list[FaultFrame], main: str, source: str) -> str:
    r"""Return frames as a traceback has them, with the lines of the submitted file.

    >>> print(describe_fault([FaultFrame("k.py", 1, "read")], "k.py", "at(0)\n"))
      File "k.py", line 1, in read
        at(0)
    """
    lines = source.splitlines()
    texts = []
    for frame in frames:
        texts.append(f'  File "{frame.file}", line {frame.line}, in {frame.function}')
        if frame.file == main and frame.line <= len(lines):
            texts.append(f"    {lines[frame.line - 1].strip()}")
    return "\n".join(texts)
