"""What a participant reads about an exception or a compiler's output: their own lines first.

Neither our frames, nor command lines, nor the agent's folders are of use to them.
"""

import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.worker import protocol, settings
from harness.worker.protocol import SubmissionFailure

# An error of a compiler (g++, clang, nvcc, ptxas, NVRTC) or of a linker.
_ERROR_LINE = re.compile(
    r"\berror\s*:|\bfatal\s*:|undefined reference to|cannot find -l|out of memory allocating"
)
# One that names a line of a source, as no message of an exception does by chance.
_LOCATED_ERROR = re.compile(r":\d+: (?:fatal )?error:|\(\d+\): (?:catastrophic )?error\s*:")
_SNIPPET = re.compile(r"\s*\d* \| ")
# The command lines that torch and ninja repeat before an error.
_COMMAND = re.compile(r"\s(?:-isystem|-o) \S|^\s*FAILED: ")
_BUILDING = re.compile(r"(Error building extension '[^'\n]*').*")
# What compilers report when memory runs out and no control group ends the whole box at once.
_NO_MEMORY = (
    "annot allocate memory",
    "virtual memory exhausted",
    "std::bad_alloc",
    "Killed signal terminated program",
    "out of memory allocating",
)
_CAUSES_MAX = 16
_SLASHES_MIN = 2


def shorten_text(text: bytes, bytes_max: int) -> bytes:
    r"""Return the head and the tail of a text, with a line where something is left out.

    >>> shorten_text(b"first line\nsecond line\nthird line\nlast line\n", 20)
    b'first line\n[24 bytes are left out here]\nlast line\n'
    """
    if len(text) <= bytes_max:
        return text
    head, tail = text[: bytes_max // 2], text[-(bytes_max // 2) :]
    # Whole lines, unless one line is longer than the limit.
    head = head[: head.rfind(b"\n") + 1] or head
    tail = tail[tail.find(b"\n") + 1 :] or tail
    left_out = len(text) - len(head) - len(tail)
    return head.rstrip(b"\n") + b"\n[%d bytes are left out here]\n" % left_out + tail


def message_text(text: bytes) -> str:
    """Shorten text to fit a message: the first errors help most, the last line counts them."""
    return shorten_text(text, protocol.TEXT_CHARS_MAX - 100).decode(errors="replace").strip()


def lead_with_error(output: str) -> str:
    r"""Move the first error of a compiler's output to its top, without the folders of its file.

    >>> lead_with_error("k.cpp: In function f:\n/tmp/a/k.cpp:3:5: error: oops\n").splitlines()
    ['k.cpp:3:5: error: oops', 'k.cpp: In function f:']
    >>> print(lead_with_error("k.cpp: In f:\nk.cpp:3:5: error: oops\n    3 |   x\n      |   ^\n"))
    k.cpp:3:5: error: oops
        3 |   x
          |   ^
    k.cpp: In f:
    >>> lead_with_error("nothing is wrong")
    'nothing is wrong'
    """
    lines = output.splitlines()
    index = next((index for index, line in enumerate(lines) if _ERROR_LINE.search(line)), None)
    if index is None:
        return output
    end = index + 1
    # The line of the source and the mark below it.
    while end < len(lines) and _SNIPPET.match(lines[end]):
        end += 1
    error = re.sub(r"^\S*/(?=[^/\s]+[:(]\d)", "", lines[index].strip())
    return "\n".join([error, *lines[index + 1 : end], *lines[:index], *lines[end:]]).strip()


def explain_compiler(output: str) -> SubmissionFailure:
    """Return the failure for the output of a compiler that failed."""
    text = message_text(lead_with_error(output.strip()).encode())
    text = text or "the compiler failed without a message"
    if any(words in output for words in _NO_MEMORY):
        return SubmissionFailure("memory", f"the compiler reached the memory limit: {text}")
    return SubmissionFailure("compile_error", text)


def explain_exception(error: BaseException, path: Path, kind: str) -> SubmissionFailure:
    """Return the failure for an exception; the traceback begins in the submission's file."""
    if isinstance(error, SystemExit):
        return SubmissionFailure(
            kind, f"the submission called exit({_safe_text(repr, error.code)})"
        )
    message = _safe_text(str, error)
    if message.startswith("Error building extension"):
        return explain_compiler(_strip_commands(describe_exception(error, path)))
    if isinstance(error, MemoryError) or "can't allocate memory" in message:
        return SubmissionFailure("memory", _format_traceback(error, path))
    text = _format_traceback(error, path)
    if _LOCATED_ERROR.search(message):
        # Such as torch.compile's, whose message has the compiler's output.
        text = lead_with_error(_strip_commands(text))
    return SubmissionFailure(kind, text)


def _safe_text(convert: Callable[[object], str], value: object) -> str:
    """Return the text of a participant's object, whose own method may fail; "" if it does."""
    try:
        return convert(value)
    except BaseException:  # noqa: BLE001  (a method of the submission may raise anything)
        return ""


def describe_exception(error: BaseException, path: Path) -> str:
    """Return the type and the message of an exception, without a traceback."""
    return _strip_folders("".join(traceback.format_exception_only(error)), path)


def _format_traceback(error: BaseException, path: Path) -> str:
    report = traceback.TracebackException.from_exception(error)
    for part in _causes(report):
        own = [frame.filename.startswith(f"{path.parent}/") for frame in part.stack]
        begins = own.index(True) if True in own else len(own)
        frames = [frame for frame in part.stack[begins:] if not _is_internal(frame.filename)]
        part.stack = traceback.StackSummary.from_list(frames)
        if not frames:
            part.stack = None  # type: ignore[assignment]  # then no heading is printed
    return _strip_folders("".join(report.format()), path)


def _causes(report: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """Yield an exception and those that it followed from."""
    parts = [report]
    for part in parts:
        yield part
        causes = (part.__cause__, part.__context__, *(part.exceptions or ()))
        parts += [cause for cause in causes if cause is not None and len(parts) < _CAUSES_MAX]


def _is_internal(filename: str) -> bool:
    package = Path(__file__).parents[1]
    return filename.startswith((f"{package}/", "<frozen "))


def _strip_commands(text: str) -> str:
    lines = _BUILDING.sub(r"\1", text).splitlines()
    return "\n".join(line for line in lines if not _COMMAND.search(line))


def _strip_folders(text: str, path: Path) -> str:
    """Remove the folders of the submission, of the box and of packages, which tell nothing."""
    packages = {folder for folder in map(str, sys.path) if folder.count("/") >= _SLASHES_MIN}
    own = {str(path.parent), settings.home()} - {"", "/"}
    # The longest first: packages lie in folders of the standard library.
    for folder in sorted(packages | own, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
    return text.strip()
