"""Writes the generated pages: `python -m docs.generate`; with `--check` it only compares."""

import inspect
import sys
from datetime import datetime
from pathlib import Path
from types import GenericAlias, UnionType

import msgspec

from shared.events import (
    CATALOGUE,
    Artefact,
    Blob,
    CaseResult,
    Fact,
    Mismatch,
    Missing,
    RejudgeItem,
    Requires,
)

PAGE = Path(__file__).parent / "events.md"
HEAD = """# Events

Generated from `shared/src/shared/events/` by `make docs`; a test fails when this page is stale.

Every event is one JSON object on the subject `events.<aggregate>.<id>` of the stream `EVENTS`.
Around the fields below it has an envelope: `id` (UUID), `type`, `v` (version of the type), `at`
(RFC 3339, UTC), `agg` (the subject without `events.`), `actor`, `corr` (the submission it belongs
to), `cause` (what led to it), `data` (the fields below). Order is the sequence, never `at`.

"""
ORDER = (
    "problem",
    "submission",
    "job",
    "run",
    "agent",
    "pool",
    "account",
    "quota",
    "invite",
    "webhook",
    "moderation",
    "ranking",
    "rejudge",
    "audit",
)
WHAT = {
    "problem": "`problem.<slug>`",
    "submission": "`submission.<submission>`: exactly one terminal event",
    "job": "`job.<job>`: the work a submission gives on one GPU type",
    "run": "`run.<agent>.<run>`: one attempt; it counts only if JobLeased names it",
    "agent": "`agent.<agent>`",
    "pool": "`pool.<gpu>`: all agents of one GPU type",
    "account": "`account.<account>`",
    "quota": "`quota.<account>`: what a participant used; `quota.default` has the limits of all",
    "invite": "`invite.<invite>`: one code, for one participant, to closed leaderboards",
    "webhook": "`webhook.<webhook>`: an address that is told of events",
    "moderation": "`moderation.<submission>`: what was decided after its end",
    "ranking": "`ranking.<slug>.<gpu>`",
    "rejudge": "`rejudge.<rejudge>`",
    "audit": "`audit.platform`, `audit.seal`: the platform's own matters",
}


def _type(kind: object) -> str:
    if kind is datetime:
        return "instant"
    text = (
        str(kind) if isinstance(kind, GenericAlias | UnionType) else getattr(kind, "__name__", "")
    )
    return text.replace("shared.events.values.", "").replace("|", "or")


def _fields(kind: type[msgspec.Struct]) -> str:
    rows = []
    for field in msgspec.structs.fields(kind):
        optional = "" if field.required else ", may be absent"
        rows.append(f"`{field.encode_name}` ({_type(field.type)}{optional})")
    return "; ".join(rows)


def _row(kind: type[Fact]) -> str:
    end = " **ends it**" if kind.is_terminal else ""
    said = inspect.cleandoc(kind.__doc__ or "").partition("\n")[0]
    return f"| {kind.__name__} v{kind.version}{end} | {kind.publisher} | {said} | {_fields(kind)} |"


def page() -> str:
    """The page as it should be."""
    parts = [HEAD]
    for aggregate in ORDER:
        kinds = [kind for kind in CATALOGUE.values() if kind.aggregate == aggregate]
        parts.append(f"## {aggregate}\n\n{WHAT[aggregate]}\n\n")
        parts.append("| event | published by | says | fields |\n|---|---|---|---|\n")
        parts.append("\n".join(_row(kind) for kind in kinds) + "\n\n")
    parts.append("## values\n\n")
    for value in (Blob, CaseResult, Mismatch, Artefact, Missing, Requires, RejudgeItem):
        said = " ".join(inspect.cleandoc(value.__doc__ or "").split())
        parts.append(f"- **{value.__name__}**: {said} {_fields(value)}\n")
    return "".join(parts)


def main() -> int:
    """Write the page, or with `--check` say whether it is stale; the exit code."""
    if "--check" in sys.argv[1:]:
        is_fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
        print("fresh" if is_fresh else "docs/events.md is stale: run `make docs`")
        return 0 if is_fresh else 1
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
