"""Cards: embeds as plain data, with the files that fit on Discord."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from discord_edge.wording import escaped

GREEN, RED, GREY = 0x2E8B57, 0xC0392B, 0x7F8C8D
# Together below Discord's limit, however many characters the escaping adds.
CARD_MAX, HEAD_MAX, BLOCK_MAX, LINKS_MAX, FOOTER_MAX = 1800, 900, 1600, 500, 500
# A message may have ten files; one is reserved for the source.
FILES_MAX, TOGETHER_MAX = 9, 24 * 1024 * 1024


@dataclass(frozen=True)
class Attachment:
    """A file of a card; without `data` the card only shows its size and its link.

    `bytes` is the size of a file without data, 0 if unknown.
    """

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
    files: tuple[Attachment, ...] = field(default=())
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
        fits = (
            file.data is not None
            and size <= min(bytes_left, bytes_max)
            and len(fitting) < FILES_MAX
        )
        bytes_left -= size if fits else 0
        (fitting if fits else omitted).append(file)
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
