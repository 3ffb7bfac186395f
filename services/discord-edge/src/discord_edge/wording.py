"""Text on Discord: escaped foreign text, statements, refusals, completions, and cards."""

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest

from shared.errors import Refused
from shared.presentation.units import escape_control_characters, one_line

CONTENT_MAX = 1900
MARKDOWN = re.compile(r"([\\*_~|>#\[\]()`-])")
# A zero-width space disables a mention without changing how it looks.
NOWHERE = "\u200b"
FENCE = "```"
TABLE_ROW = re.compile(r"\s*\|")
TABLE_RULE = re.compile(r"[\s|:-]+$")
FORMULA = re.compile(r"(?<![\\$])\$(\S(?:[^$\n]*?\S)?)\$(?!\$)")
# A line that is not a continuation of the line before it.
BLOCK_START = re.compile(r"\s*(?:[-*+>]\s|#{1,6}\s|\d{1,3}[.)]\s)")
MORE = "…"
CHOICES_MAX = 25
GREEN, RED, GREY = 0x2E8B57, 0xC0392B, 0x7F8C8D
# Together below Discord's limit, however many characters the escaping adds.
CARD_MAX, HEAD_MAX, BLOCK_MAX, LINKS_MAX, FOOTER_MAX = 1800, 900, 1600, 500, 500
# A message may have ten files; one is reserved for the source.
FILES_MAX, TOGETHER_MAX = 9, 24 * 1024 * 1024


def escaped(text: str, length_max: int = 200) -> str:
    r"""Return foreign text in one line, without effective Markdown or mentions.

    >>> escaped("**bold** @everyone"), escaped("a\n`b`", 3)
    ('\\*\\*bold\\*\\* @\u200beveryone', 'a …')
    """
    inactive = MARKDOWN.sub(r"\\\1", one_line(text, length_max)).replace("<", f"<{NOWHERE}")
    return without_mentions(inactive)


def without_mentions(text: str) -> str:
    """Return text that mentions nobody but looks the same."""
    return text.replace("@", f"@{NOWHERE}")


def shorten(text: str, chars_max: int) -> str:
    """Return a text of at most so many characters; `…` marks that it is cut."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + MORE


def fenced(text: str) -> str:
    r"""Return foreign text as a code block that the text itself cannot end.

    >>> fenced("a ``` b")
    '```text\na `\u200b`\u200b` b\n```'
    """
    inner = re.sub("`(?=`)", f"`{NOWHERE}", escape_control_characters(text))
    return f"```text\n{inner}\n```"


def discord_time(at: datetime, style: str) -> str:
    """Format a time so that Discord shows it in the reader's time zone; style R is relative.

    >>> discord_time(datetime.fromisoformat("1970-01-01T00:01:40Z"), "R")
    '<t:100:R>'
    """
    return f"<t:{int(at.timestamp())}:{style}>"


def deadline_time(at: datetime) -> str:
    """Format a deadline as a date and as the time until then."""
    return f"{discord_time(at, 'F')} ({discord_time(at, 'R')})"


def message_nonce(name: str) -> str:
    """Return the nonce of the message with a name, by which Discord detects repeats."""
    return hashlib.sha256(name.encode()).hexdigest()[:24]


def refusal_text(refused: Refused, identity: str, at: float = 0.0) -> str:
    """Explain a refusal in a sentence or two, with an id for questions to operators.

    `at` is the current time in seconds since 1970.

    >>> refusal_text(Refused("user_banned", "you are banned", retry_after_s=5.0), "7", 100.0)
    'Not done: you are banned. Try again <t:105:R>. `user_banned` · `7`'
    >>> print(refusal_text(Refused("bad_problem", "no cases: add these:\\ntests: []"), "7"))
    Not done: no cases: add these:
    ```text
    tests: []
    ```
    `bad_problem` · `7`
    """
    wait_s = refused.retry_after_s
    retry = "" if wait_s is None else f" Try again <t:{math.ceil(at + wait_s)}:R>."
    code = without_mentions(refused.code)
    # Lines to write follow the sentence; a code block mentions nobody, and is to be copied.
    sentence, _, lines = refused.reason[:1400].partition("\n")
    sentence = without_mentions(escape_control_characters(sentence)).rstrip(".")
    text = (
        f"{sentence}\n{fenced(lines)}\n"
        if lines.strip()
        else f"{sentence}{'' if sentence.endswith('?') else '.'}{retry} "
    )
    return f"Not done: {text}`{code}` · `{identity}`"


def render_statement(text: str, length_max: int) -> str:
    r"""Return as many whole Markdown blocks as fit; `…` marks that some are missing.

    >>> render_statement("# Sum\n\nAdd the\nrows of $x$.\n\n$$\\sum x$$", 100)
    '# Sum\n\nAdd the rows of `x`.\n\n```\n\\sum x\n```'
    >>> render_statement("| | shape |\n|---|---|\n| `x` | `[n]` |", 100)
    '```\n   shape\nx  [n]\n```'
    >>> render_statement("one\n\ntwo", 8)
    'one\n\n…'
    """
    blocks: list[str] = []
    chars_left = length_max
    for block in _render_blocks(text.splitlines()):
        # The sign and its empty line must fit after any block but the last.
        if len(block) + 2 + len(MORE) > chars_left:
            is_cut = not blocks and FENCE not in block
            cut = block[: max(0, chars_left - len(MORE))] if is_cut else ""
            return "\n\n".join([*blocks, cut + MORE])
        blocks.append(block)
        chars_left -= len(block) + 2
    return "\n\n".join(blocks)


def _render_blocks(lines: Sequence[str]) -> Iterator[str]:
    """Split the text at empty lines, but keep each code block in one piece."""
    block: list[str] = []
    is_code = False
    for line in lines:
        is_fence = line.lstrip().startswith(FENCE)
        if is_code or line.strip():
            if is_fence and not is_code and block:
                yield _render_block(block)
                block = []
            block.append(line)
        if (is_fence and is_code) or (block and not is_code and not line.strip()):
            yield _render_block(block)
            block = []
        is_code = is_code != is_fence
    if block:
        yield _render_block([*block, FENCE] if is_code else block)


def _render_block(lines: list[str]) -> str:
    if lines[0].lstrip().startswith(FENCE):
        return "\n".join(lines)
    text = " ".join(line.strip() for line in lines)
    if len(text) > 4 and text.startswith("$$") and text.endswith("$$"):
        return _code_block(text[2:-2].strip())
    if all(TABLE_ROW.match(line) for line in lines):
        return _render_table(lines)
    joined: list[str] = []
    for line in lines:
        if joined and not BLOCK_START.match(line) and not TABLE_ROW.match(line):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line.rstrip())
    return FORMULA.sub(r"`\1`", "\n".join(joined))


def _render_table(lines: Sequence[str]) -> str:
    rows = [
        [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
        for line in lines
        if not TABLE_RULE.match(line)
    ]
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        for row in rows
    )
    return _code_block("\n".join(row.rstrip() for row in padded))


def _code_block(text: str) -> str:
    inner = text.replace("`", "'")
    return f"{FENCE}\n{inner}\n{FENCE}"


def match_names(typed: str, names: Sequence[str]) -> list[str]:
    """Return the completions for typed text; names that begin with it come first.

    >>> match_names("so", ["absolve", "sort", "merge"])
    ['sort', 'absolve']
    """
    prefix = typed.strip().lower()
    matches = [name for name in names if prefix in name.lower() and len(name) <= 100]
    matches.sort(key=lambda name: (not name.lower().startswith(prefix), name))
    return matches[:CHOICES_MAX]


def match_gpu_list(typed: str, names: Sequence[str]) -> list[str]:
    """Complete the last entry of a comma-separated list of GPU types; earlier entries stay.

    >>> match_gpu_list("CPU, h", ["CPU", "H100"])
    ['CPU, H100']
    """
    before, _, last = typed.rpartition(",")
    entries = [entry.strip() for entry in before.split(",") if entry.strip()]
    used = {entry.lower() for entry in entries}
    unused = [name for name in names if name.lower() not in used]
    return [", ".join([*entries, match]) for match in match_names(last, unused)]


def split_gpus(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the GPU types of a list, each once; known `names` are spelled as they are there.

    >>> split_gpus("cpu, H100 cpu T5", ["CPU", "H100"])
    ('CPU', 'H100', 'T5')
    """
    spelled = {name.lower(): name for name in names}
    entries = text.replace(",", " ").split()
    return tuple(dict.fromkeys(spelled.get(entry.lower(), entry) for entry in entries))


@dataclass(frozen=True)
class Attachment:
    """A file of a card; without `data` only its size (0 if unknown) and link are shown."""

    name: str
    data: bytes | None = None
    bytes: int = 0
    link: str = ""


@dataclass(frozen=True)
class Card:
    """An embed as plain data, its files, and a hint for those that do not fit.

    `at` is the time of the data in seconds since 1970, shown in the reader's time zone.
    """

    title: str
    body: str
    colour: int = GREY
    footer: str = ""
    files: tuple[Attachment, ...] = ()
    hint: str = ""
    at: float | None = None


def fit_attachments(card: Card, bytes_max: int) -> Card:
    """Return the card with the files that Discord accepts; its body lists the others.

    >>> fit_attachments(Card("t", "b", files=(Attachment("a", b"12"), Attachment("b", b"1"))),
    ...     1).body
    'b\\nNot here: a 2 B'
    """
    bytes_left, fitting, omitted = TOGETHER_MAX, list[Attachment](), list[Attachment]()
    for file in card.files:
        size = len(file.data or b"")
        limit = min(bytes_left, bytes_max)
        if file.data is not None and size <= limit and len(fitting) < FILES_MAX:
            bytes_left -= size
            fitting.append(file)
        else:
            omitted.append(file)
    if not omitted:
        return card
    body = f"{card.body}\n{_omitted_line(omitted, card.hint)}"
    return replace(card, body=body, files=tuple(fitting))


def _omitted_line(files: Sequence[Attachment], hint: str) -> str:
    listing = ""
    for place, file in enumerate(files):
        size = len(file.data) if file.data is not None else file.bytes
        name = escaped(file.name, 60)
        label = f"[{name}]({file.link})" if file.link else name
        item = f"{label} {size_text(size)}" if size else label
        longer = f"{listing} · {item}" if listing else item
        if len(longer) > LINKS_MAX:
            listing += f" · {len(files) - place} more"
            break
        listing = longer
    are_linked = all(file.link for file in files)
    suffix = f"; {hint}" if hint and not are_linked else ""
    return f"{'More' if are_linked else 'Not here'}: {listing}{suffix}"


def size_text(bytes_count: int) -> str:
    """Format a number of bytes for people.

    >>> size_text(700), size_text(2_000_000)
    ('700 B', '1.9 MiB')
    """
    if bytes_count < 1024:
        return f"{bytes_count} B"
    kib = bytes_count / 1024
    return f"{kib:.1f} KiB" if kib < 1024 else f"{kib / 1024:.1f} MiB"
