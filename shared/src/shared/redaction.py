"""Replaces personal data in texts that people wrote: names, ids, addresses, paths and secrets.

Only comments, strings and includes can have any of it: elsewhere a name is an identifier, and
`a@b.T` is a product. What cannot be read as its language is treated as a comment, all of it.
"""

import io
import re
import tokenize
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

NAME, ID, ADDRESS, MENTION, PATH, SECRET = (
    *("[name]", "[id]", "[address]"),
    *("[mention]", "[path]", "[secret]"),
)
_HOME = "home|Users|root|tmp|var|mnt|opt|etc|srv|data|work|workspace|usr|media|scratch|private|run"
# In this order: a later one sees what an earlier one left.
_PATTERNS = (
    (re.compile(r"(?i)\b(?:https?|ftp|ssh|git|s3|file)://[^\s\"'<>)\]]+"), ADDRESS),
    (re.compile(r"<(?:@[!&]?|#)[0-9]{5,}>"), MENTION),
    (re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"), ADDRESS),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+"), SECRET),
    (
        re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-|AKIA|wb_)[\w-]{12,}"),
        SECRET,
    ),
    (re.compile(r"(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), ID),
    (re.compile(rf"(?<![\w)\]./])/(?:{_HOME})/[^\s\"'<>:;,()\[\]]*"), PATH),
    (re.compile(r"(?<![\w/])~[\w-]*/[^\s\"'<>:;,()\[\]]*"), PATH),
    (re.compile(r"(?i)\b[a-z]:\\{1,2}(?:Users|Documents|Windows|Program)[^\"'<>|:*?\n]*"), PATH),
    (re.compile(r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?!\w|\.[0-9])"), ADDRESS),
    (re.compile(r"(?i)(?<![\w:])(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}(?![\w:])"), ADDRESS),
    (re.compile(r"(?<![\w.])@[A-Za-z][\w.-]{1,63}"), MENTION),
    (re.compile(r"\b[0-9a-fA-F]{32,}\b"), SECRET),
    (re.compile(r"(?<![\w+/=-])(?=[\w+/=-]*[0-9])(?=[\w+/=-]*[A-Za-z])[\w+/=-]{40,}"), SECRET),
    (re.compile(r"\b[0-9]{17,20}\b"), ID),
)
LINES_MAX = 10_000
_WORD = re.compile(r"[^\W_](?:[\w.-]*\w)?")
_PARTS = re.compile(r"[._-]")
# Comments, strings and includes of C++.
_C_PROSE = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|^[ \t]*#[ \t]*(?:include|line|pragma|error)[^\n]*"
    r"|R\"(\w*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
    re.DOTALL | re.MULTILINE,
)
# Python 3.12 and later has the texts of an f-string as tokens of their own.
_PROSE_TOKENS = ("COMMENT", "STRING", "FSTRING_MIDDLE")


class Redacted(NamedTuple):
    """A text without personal data, and how many pieces were replaced."""

    text: str
    replaced: int


class Redactor:
    """Replaces what people may have written of themselves; `names` are those of the platform."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = {name.lower() for name in names if len(name) > 1}
        self._lines: dict[str, str] = {}
        phrases = sorted((name for name in self._names if not _WORD.fullmatch(name)), key=len)
        # Names that are no single word, the longest first.
        self._phrases = [re.compile(re.escape(name), re.IGNORECASE) for name in reversed(phrases)]

    def line(self, text: str) -> str:
        """Return a text of prose, such as a title; the same ones come again and again."""
        line = self._lines.get(text)
        if line is None:
            if len(self._lines) == LINES_MAX:
                self._lines.clear()
            line = self._lines[text] = self._prose(text).text
        return line

    def source(self, code: str, language: str) -> Redacted:
        """Return a source of this language."""
        pieces, count, end = [], 0, 0
        for first, last in _prose_spans(code, language):
            prose = self._prose(code[first:last])
            pieces += [code[end:first], prose.text]
            count, end = count + prose.replaced, last
        return Redacted("".join([*pieces, code[end:]]), count)

    def _prose(self, text: str) -> Redacted:
        text, count = _replace_patterns(text)
        for phrase in self._phrases:
            text, more = phrase.subn(NAME, text)
            count += more
        if not self._names:
            return Redacted(text, count)
        replaced = 0

        def replace_word(match: re.Match[str]) -> str:
            nonlocal replaced
            word = match[0]
            if word.lower() in self._names:
                replaced += 1
                return NAME
            if not _PARTS.search(word):
                return word
            parts = re.split(r"([._-])", word)
            known = [part.lower() in self._names for part in parts]
            replaced += sum(known)
            return "".join(NAME if is_name else part for part, is_name in zip(parts, known))  # noqa: B905

        text = _WORD.sub(replace_word, text)
        return Redacted(text, count + replaced)


def _replace_patterns(text: str) -> tuple[str, int]:
    count = 0
    for pattern, replacement in _PATTERNS:
        text, more = pattern.subn(replacement, text)
        count += more
    return text, count


def _prose_spans(code: str, language: str) -> Iterator[tuple[int, int]]:
    """Yield where comments and strings are; the whole text if it is not Python that can be read.

    Of the language `text` everything is prose.
    """
    if language == "text":
        yield 0, len(code)
        return
    if language != "python":
        yield from (match.span() for match in _C_PROSE.finditer(code))
        return
    starts = _line_starts(code)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError):
        yield 0, len(code)
        return
    offset: Callable[[tuple[int, int]], int] = lambda place: starts[place[0] - 1] + place[1]  # noqa: E731
    for token in tokens:
        if tokenize.tok_name[token.type] in _PROSE_TOKENS:
            yield offset(token.start), offset(token.end)


def _line_starts(code: str) -> list[int]:
    starts = [0]
    for line in io.StringIO(code):
        starts.append(starts[-1] + len(line))
    return starts
