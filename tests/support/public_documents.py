"""The public documents that users of the older platform follow: commands, code and sentences.

They are not part of the repository. A sentence is named by the first digits of its SHA-256.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "WARPBOARD_PUBLIC_DOCUMENTS"
DIGITS = 10

_HEAD = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_FENCE = re.compile(r"```(?:python|py)?[^\n`]*\n(.*?)```", re.DOTALL)
_MARKUP = re.compile(r"</?[a-z]+/?>|!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SENTENCE_END = re.compile(r"(?<=[.!?:])[*\")]*\s+(?=[^a-z])")
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=[*•#-] |\s*\d+\. )")
_COMMAND = re.compile(r"/leaderboard\s+([^`<\n]*)")
_TOKEN = re.compile(r"\{[^}]*\}|\S+")
_GROUP = "submit"
# A document shows some options by their place alone, as Discord does once a command is chosen.
_PLACES = {
    "{submission.py}": "script",
    "{name}": "leaderboard_name",
    "identity_py": "leaderboard_name",
    "{language}": "language",
}


def folder() -> Path | None:
    """Return the folder of the documents; None if there is none."""
    text = os.environ.get(VARIABLE, "")
    return Path(text) if text and Path(text).is_dir() else None


def documents(path: Path) -> dict[str, str]:
    """Return the documents by name."""
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(path.glob("*.txt"))}


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences and headings of a document, without its code."""
    plain = _MARKUP.sub(" ", _FENCE.sub("\n\n", _HEAD.sub("", text)))
    for paragraph in _PARAGRAPH.split(_LINK.sub(r"\1", plain)):
        for sentence in _SENTENCE_END.split(" ".join(paragraph.split())):
            if re.search(r"[A-Za-z]{2}", sentence):
                yield sentence.strip()


def digest(sentence: str) -> str:
    """Return the name of a sentence: it does not change with case, space or markup."""
    words = re.findall(r"[a-z0-9_/]+", sentence.lower())
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:DIGITS]


def commands(text: str) -> set[tuple[str, tuple[str, ...]]]:
    """Return the commands of a document, each with the names of its options in order."""
    joined = re.sub(r"(/leaderboard)\s*\n\s*", r"\1 ", text)
    return {_read_command(match[1]) for match in _COMMAND.finditer(joined)}


def _read_command(line: str) -> tuple[str, tuple[str, ...]]:
    first, *rest = _TOKEN.findall(line)
    path = ["leaderboard", first.strip(".")]
    if first == _GROUP:
        path.append(rest.pop(0))
    options = []
    for token in rest:
        name = _PLACES.get(token.strip("."))
        if named := re.match(r"\{?(\w+):", token):
            name = named[1]
        if name is None:
            break
        options.append(name)
    return " ".join(path), tuple(options)
