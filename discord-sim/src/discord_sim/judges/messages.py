"""What Discord says of messages in prose alone: lengths, embeds together, mentions."""

from collections.abc import Iterator

from discord_sim.errors import Path, Problem
from discord_sim.judges.components import check_components
from discord_sim.shapes import COMPONENTS_V2, Json

# The document says 4000 for a channel's messages; bots may send half of it.
CONTENT_MAX = 2000
EMBEDS_CHARACTERS_MAX = 6000
FILES_MAX = 10
LEGACY = ("content", "embeds", "poll")


def check_message(body: Json, flags: int, files: int) -> list[Problem]:
    """What is wrong with what a message would become; `files` are new ones."""
    is_v2 = bool(flags & COMPONENTS_V2)
    embeds, components = body.get("embeds") or [], body.get("components") or []
    return [
        *_content(body, files, is_v2=is_v2),
        *(one.under("embeds") for one in _embeds(embeds)),
        *(one.under("components") for one in check_components(components, is_v2=is_v2)),
        *_mentions(body.get("allowed_mentions") or {}),
    ]


def _content(body: Json, files: int, *, is_v2: bool) -> Iterator[Problem]:
    if len(body.get("content") or "") > CONTENT_MAX:
        told = f"Must be {CONTENT_MAX} or fewer in length."
        yield Problem(("content",), told, "BASE_TYPE_MAX_LENGTH")
    if files > FILES_MAX:
        told = f"Must be {FILES_MAX} or fewer in length."
        yield Problem(("attachments",), told, "BASE_TYPE_MAX_LENGTH")
    for key in LEGACY if is_v2 else ():
        if body.get(key):
            told = f"The '{key}' field cannot be used when using MessageFlags.IS_COMPONENTS_V2"
            rule = "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2"
            yield Problem((key,), told, rule)


def _embeds(embeds: list[Json]) -> Iterator[Problem]:
    total = 0
    for n, one in enumerate(embeds):
        texts = [
            one.get("title"),
            one.get("description"),
            (one.get("footer") or {}).get("text"),
            (one.get("author") or {}).get("name"),
        ]
        fields = one.get("fields") or []
        texts += [said.get(key) for said in fields for key in ("name", "value")]
        total += sum(len((text or "").strip()) for text in texts)
        yield from _fields((n, "fields"), fields)
        if not any([*texts, one.get("image"), one.get("thumbnail"), one.get("url")]):
            yield Problem((n,), "Embed is empty", "MESSAGE_EMBED_EMPTY")
    if total > EMBEDS_CHARACTERS_MAX:
        told = f"Embed size exceeds maximum size of {EMBEDS_CHARACTERS_MAX}: {total}"
        yield Problem((), told, "MAX_EMBED_SIZE_EXCEEDED")


def _fields(path: Path, fields: list[Json]) -> Iterator[Problem]:
    for n, said in enumerate(fields):
        for key in ("name", "value"):
            if not (said.get(key) or "").strip():
                yield Problem((*path, n, key), "This field is required", "BASE_TYPE_REQUIRED")


def _mentions(allowed: Json) -> Iterator[Problem]:
    for key in ("users", "roles"):
        if allowed.get(key) and key in (allowed.get("parse") or []):
            told = f"parse:['{key}'] and {key}: [ids...] are mutually exclusive."
            rule = "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE"
            yield Problem(("allowed_mentions",), told, rule)
