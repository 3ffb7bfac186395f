"""What became of a submission, whole: a short card, and all of it as files."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from discord_edge.domain.kernels import kernel_lines
from discord_edge.domain.wording import CONTENT_MAX, escaped, fenced
from shared.telling.answers import Submission
from shared.telling.outcome import RANKED, printed, reason_lines, standing
from shared.telling.parts import (
    PASSED,
    case_lines,
    failing_lines,
    stage_lines,
    system_lines,
    time_lines,
    verdict_text,
    whole_log,
)
from shared.telling.units import harmless, one_line, seconds_text, time_text

GREEN, RED, GREY = 0x2E8B57, 0xC0392B, 0x7F8C8D
# Together under what Discord takes, however many characters the escaping adds.
CARD_MAX, HEAD_MAX, BLOCK_MAX, LINKS_MAX, FOOTER_MAX = 1800, 900, 1600, 500, 500
LINE_MAX = 300
LOG_LINES_MAX = 8
TABLE = "-table.txt"
# One of the ten that a message may have is for the source.
FILES_MAX, TOGETHER_MAX = 9, 24 * 1024 * 1024


@dataclass(frozen=True)
class Attached:
    """A file beside a card; without `data` it is only told of, with its size and its address.

    Units: `bytes` is 0 where nobody knows.
    """

    name: str
    data: bytes | None = None
    bytes: int = 0
    link: str = ""


@dataclass(frozen=True)
class Card:
    """An embed as plain data, the files beside it, and how to come by those that do not fit.

    Units: `at` is as of when it is, in seconds since 1970, shown on the clock of who reads.
    """

    title: str
    body: str
    colour: int = GREY
    footer: str = ""
    files: tuple[Attached, ...] = field(default=())
    hint: str = ""
    at: float | None = None


def fitted(card: Card, bytes_max: int) -> Card:
    """The card with the files that Discord takes here; the others are told of in its body.

    >>> fitted(Card("t", "b", files=(Attached("a", b"12"), Attached("b", b"1"))), 1).body
    'b\\nNot here: a 2 B'
    """
    room, sent, left = TOGETHER_MAX, list[Attached](), list[Attached]()
    for one in card.files:
        size = len(one.data or b"")
        is_sent = one.data is not None and size <= min(room, bytes_max) and len(sent) < FILES_MAX
        room -= size if is_sent else 0
        (sent if is_sent else left).append(one)
    if not left:
        return card
    said = "\n".join([card.body, *_links(left, card.hint)])
    return replace(card, body=said, files=tuple(sent))


def _links(left: Sequence[Attached], hint: str) -> Iterator[str]:
    said = ""
    for place, one in enumerate(left):
        size = len(one.data) if one.data is not None else one.bytes
        name = escaped(one.name, 60)
        named = f"[{name}]({one.link})" if one.link else name
        shown = f"{named} {size_text(size)}" if size else named
        longer = f"{said} · {shown}" if said else shown
        if len(longer) > LINKS_MAX:
            said += f" · {len(left) - place} more"
            break
        said = longer
    has_hint = hint and not all(one.link for one in left)
    yield f"{'More' if all(one.link for one in left) else 'Not here'}: {said}" + (
        f"; {hint}" if has_hint else ""
    )


def size_text(count: int) -> str:
    """A number of bytes as people read it.

    >>> size_text(700), size_text(2_000_000)
    ('700 B', '1.9 MiB')
    """
    if count < 1024:
        return f"{count} B"
    kib = count / 1024
    return f"{kib:.1f} KiB" if kib < 1024 else f"{kib / 1024:.1f} MiB"


def is_good(found: Submission) -> bool:
    """Whether its owner may be glad: it passed, and in mode ranked it counts."""
    return found.outcome == PASSED and (found.mode != RANKED or found.is_eligible)


def headline(found: Submission) -> str:
    """How it ended, in a line."""
    ranking = found.ranking
    score = f", score {time_text(ranking.score_us)}" if ranking and ranking.score_us else ""
    rank = f", rank {ranking.rank}" if ranking and ranking.rank else ""
    return f"{escaped(_verdict(found), 60)}{score}{rank}"


def _verdict(found: Submission) -> str:
    return verdict_text(found.verdict or found.outcome or found.state)


def report(found: Submission, files: Iterable[Attached] = ()) -> Card:
    """The report on one GPU type, with the files that there are of its run."""
    given = list(files)
    block, dropped = _kept(_block(found, given))
    log = whole_log(found)
    # Files come as they are; what is told in short is whole in ours.
    own = Attached(f"report-{found.number}.txt", "\n".join(_whole(found, log)).encode())
    has_more = dropped or bool(log)
    more = [f"… {dropped} more lines are in the file"] if dropped else []
    body = "\n".join([*_head(found), fenced("\n".join([*block, *more])) if block else ""])
    return Card(
        title=f"#{found.number} {escaped(found.problem, 100)} on {escaped(found.gpu, 40)}",
        body=body.rstrip("\n"),
        colour=GREEN if is_good(found) else RED,
        footer=one_line(" · ".join(system_lines(found)), FOOTER_MAX),
        files=(own, *given) if has_more else tuple(given),
        hint=f"`warpboard show {found.number} --save DIRECTORY` fetches all files",
    )


def _head(found: Submission) -> list[str]:
    """Verdict, score, rank or why not ranked, and how far it is from others."""
    mark = "✅" if is_good(found) else "❌"
    took = f" in {seconds_text(found.took_s)}" if found.took_s is not None else ""
    first = f"{mark} **{escaped(_verdict(found), 80)}** · {escaped(found.mode, 20)}{took}"
    said, room = [first], HEAD_MAX - len(first)
    for line in standing(found):
        shown = escaped(line, LINE_MAX)
        room -= len(shown) + 1
        if room > 0:
            said.append(shown)
    return said


def _block(found: Submission, given: Sequence[Attached]) -> list[str]:
    """What stands in the card beneath the head: parts apart by empty lines."""
    is_bad = found.outcome != PASSED
    parts = [
        stage_lines(found),
        _reason(found),
        list(case_lines(found.cases)),
        time_lines(found.cases),
        [line for one in given for line in kernel_lines(one.data or b"") if _is_table(one)],
        printed(found, LOG_LINES_MAX) if is_bad else [],
    ]
    lines = [line for part in parts if part for line in ("", *part)]
    return lines[1:]


def _reason(found: Submission) -> list[str]:
    """Why it ended so, unless that is what a case says."""
    if found.outcome == PASSED or list(failing_lines(found.cases)):
        return []
    return reason_lines(found)


def _is_table(one: Attached) -> bool:
    return one.name.endswith(TABLE)


def _whole(found: Submission, log: Sequence[str]) -> Iterator[str]:
    """The same without limits, as a text file."""
    yield f"submission {found.number}: {_verdict(found)} ({found.mode} on {found.gpu})"
    yield from standing(found)
    for part in (
        stage_lines(found),
        _reason(found),
        list(case_lines(found.cases)),
        time_lines(found.cases),
        system_lines(found),
        log,
    ):
        if part:
            yield from ("", *part)


def _kept(lines: Sequence[str], chars_max: int = BLOCK_MAX) -> tuple[list[str], int]:
    """As many of the first lines as there is room for, and how many are left out."""
    kept: list[str] = []
    room = chars_max
    for line in lines:
        shown = harmless(line)
        shown = shown if len(shown) <= LINE_MAX else shown[: LINE_MAX - 1] + "…"
        room -= len(shown) + 1
        if room < 0:
            break
        kept.append(shown)
    return kept, len(lines) - len(kept)


def public_times(found: Submission, chars_max: int = CONTENT_MAX) -> str:
    """The timed cases of a ranked result, for everybody; empty if nothing is told of them."""
    # A block may grow by half where it is all backticks.
    lines, dropped = _kept(time_lines(found.cases), chars_max // 2)
    if not lines:
        return ""
    return fenced("\n".join([*lines, f"… {dropped} more lines"] if dropped else lines))
