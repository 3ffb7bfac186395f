"""Writes what is generated: `python -m docs.generate`; with `--check` it only compares."""

import inspect
import json
import re
import sys
from datetime import datetime
from pathlib import Path
from types import GenericAlias, UnionType
from typing import Any, cast, get_type_hints

import msgspec
from bench.gpu import claims
from bench.gpu.first_hour import load_claims
from docs import (
    advisory_screen,
    bus,
    catalogue,
    endings,
    features,
    gpus,
    postgres,
    settings_tables,
    shortcuts,
)

from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.releases.tables import schema_lines
from ranker.service.progress import ProjectionProgress
from shared.api.evaluations import EvaluationResult
from shared.api.leaderboards import LeaderboardChange
from shared.api.submissions import HistoryEnd, Progress
from shared.events import (
    CATALOGUE,
    Artefact,
    Baseline,
    Blob,
    CachedVerdict,
    CaseResult,
    Chunk,
    ChunkResult,
    ChunkVerdicts,
    Composition,
    DuelResult,
    DuelSide,
    Fact,
    Milestone,
    Mismatch,
    Missing,
    RejudgeItem,
    Requires,
    Roof,
    StageResult,
)
from shared.http import build_schemas
from shared.problems.warpboard_yml import problem_schemas

PAGE = Path(__file__).parent / "events.md"
# What ingest's OpenAPI document says of the reads that it passes on, for it cannot import them.
READS = PAGE.parent.parent / "services/ingest/src/ingest/http/reads.json"
EXAMPLES: dict[str, object] = {
    "slug": "identity",
    "problem": "identity",
    "gpu": "H100",
    "language": "python",
    "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "number": 1207,
    "a": 1207,
    "b": 1215,
    "participant": "ada",
    "limit": 20,
    "wait_s": 2,
    "state": "active",
}
TEXT: dict[str, Any] = {"schema": {"type": "string"}}


def stream(**events: str) -> dict[str, Any]:
    """A stream of server-sent events, each with the schema of its data."""
    return {
        "schema": {"type": "string", "description": "Server-sent events; see docs/http.md."},
        "x-events": {
            name: {"$ref": f"#/components/schemas/{kind}"} for name, kind in events.items()
        },
    }


# The events of the log have their type's name.
HISTORY: dict[str, str] = {
    "*": "HistoryEvent",
    "queue": "Queue",
    "progress": "Progress",
    "end": "HistoryEnd",
}
VALUES = (
    *(
        Blob,
        CaseResult,
        Mismatch,
        StageResult,
        Composition,
        Artefact,
        Missing,
        Requires,
        RejudgeItem,
    ),
    *(DuelSide, DuelResult, Baseline, Milestone, Roof),
    *(Chunk, ChunkVerdicts, ChunkResult, CachedVerdict),
)
BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
# What some reads answer beside JSON.
MEDIA: dict[str, dict[str, Any]] = {
    "/v1/submissions/{number}/events": {"text/event-stream": stream(**HISTORY)},
    "/v1/leaderboards/{slug}/{gpu}/events": {
        "text/event-stream": stream(changed=LeaderboardChange.__name__)
    },
    "/v1/evaluations/{evaluation}/results": {
        "application/x-ndjson": {
            "schema": {"$ref": f"#/components/schemas/{EvaluationResult.__name__}"}
        }
    },
    "/v1/submissions/{number}/files/{name}": {"application/octet-stream": BYTES, "*/*": BYTES},
    "/v1/harnesses/{digest}": {"application/zip": BYTES},
    "/v1/archive/files/{digest}": {"application/octet-stream": BYTES},
    "/v1/problems/{slug}/files/{name}": {"text/plain": TEXT},
    "/v1/problems/{slug}/templates/{language}": {"text/plain": TEXT},
    "/v1/evaluation/{name}": {"text/plain": TEXT},
}
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
    "report",
    "agent",
    "pool",
    "launcher",
    "account",
    "quota",
    "invite",
    "contest",
    "webhook",
    "moderation",
    "ranking",
    "yardstick",
    "duel",
    "confirmation",
    "check",
    "evaluation",
    "budget",
    "stop",
    "rejudge",
    "audit",
)
WHAT = {
    "problem": "`problem.<slug>`",
    "submission": "`submission.<submission>`: exactly one terminal event",
    "job": "`job.<job>`: the work a submission gives on one GPU type",
    "run": "`run.<agent>.<run>`: one attempt; it counts only if JobLeased names it",
    "report": "`report.<agent>.<run>`: what its agent says of a run",
    "agent": "`agent.<agent>`",
    "pool": "`pool.<gpu>`: all agents of one GPU type",
    "launcher": "`launcher.<launcher>`: what starts agents on demand, each for one job",
    "account": "`account.<account>`",
    "quota": "`quota.<account>`: what a participant used; `quota.default` has the limits of all, "
    "`quota.role-<role>` those of each participant with a role, "
    "and a derived id what a contestant used in the phases of a contest",
    "invite": "`invite.<invite>`: one code, for one participant, to closed leaderboards",
    "contest": "`contest.<contest>`: its definition, contestants and results",
    "webhook": "`webhook.<webhook>`: an address that is told of events",
    "moderation": "`moderation.<submission>`: what was decided after its end",
    "ranking": "`ranking.<slug>.<gpu>`",
    "yardstick": "`yardstick.<slug>.<gpu>.<version>`: the unit of all times on one leaderboard",
    "duel": "`duel.<duel>`: two submissions of one leaderboard, timed in alternation",
    "confirmation": "`confirmation.<confirmation>`: one ranked run, repeated on another agent",
    "check": "`check.<account>`: the checks of problems that an author asked for",
    "evaluation": "`evaluation.<evaluation>`: many sources for one problem version",
    "budget": "`budget.<account>`: the device time that its evaluations used",
    "stop": "`stop.<agent>`: requests to end the run of a chunk early",
    "rejudge": "`rejudge.<rejudge>`",
    "audit": "`audit.platform`, `audit.seal`: the platform's own matters",
}


def _type(kind: object) -> str:
    if kind is datetime:
        return "instant"
    text = (
        str(kind) if isinstance(kind, GenericAlias | UnionType) else getattr(kind, "__name__", "")
    )
    return re.sub(r"shared\.((events|problems)\.values|run_values)\.", "", text).replace("|", "or")


def _fields(kind: type) -> str:
    rows, types = [], get_type_hints(kind)
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType | msgspec.inspect.DataclassType), kind
    for field in info.fields:
        optional = "" if field.required else ", may be absent"
        rows.append(f"`{field.encode_name}` ({_type(types[field.name])}{optional})")
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
    for value in VALUES:
        said = " ".join(inspect.cleandoc(value.__doc__ or "").split())
        parts.append(f"- **{value.__name__}**: {said} {_fields(value)}\n")
    return "".join(parts)


def reads() -> str:
    """The OpenAPI of the read side's public routes as it should be."""
    nothing = cast("Any", None)
    app = create_app(ReadSources(nothing, ProjectionProgress(), nothing, nothing, nothing))
    told = build_schemas(app.routes, (Progress, HistoryEnd, EvaluationResult))
    paths = {path: said for path, said in app.openapi()["paths"].items() if path.startswith("/v1/")}
    for path, said in paths.items():
        operation = said["get"]
        operation["operationId"] = f"read_{operation['operationId']}"
        # Every refusal has one shape, which ingest's document tells for all routes.
        operation["responses"].pop("422", None)
        content = operation["responses"]["200"]["content"]
        if ("GET", path) in told.bodies:
            content["application/json"] = {"schema": told.bodies["GET", path]}
        else:
            del content["application/json"]
        content |= MEDIA.get(path, {})
        for parameter in operation.get("parameters", ()):
            _parameter(parameter)
    whole = {"paths": paths, "components": {"schemas": told.shared}}
    return json.dumps(whole, indent=1, sort_keys=True) + "\n"


def schema_pages() -> dict[Path, str]:
    """The JSON Schemas of the files of a problem as they should be."""
    return {
        PAGE.parent / "schemas" / name: json.dumps(schema, indent=1) + "\n"
        for name, schema in problem_schemas().items()
    }


def _parameter(parameter: dict[str, Any]) -> None:
    """Give a parameter its example, and let what may be left out be no null."""
    if parameter["name"] in EXAMPLES:
        example = EXAMPLES[parameter["name"]]
        is_list = parameter["schema"].get("type") == "array"
        parameter["example"] = [example] if is_list else example
    kinds = parameter["schema"].pop("anyOf", [])
    for kind in kinds:
        if kind["type"] != "null":
            parameter["schema"] |= kind


def main() -> int:
    """Write what is stale, or with `--check` say what is; the exit code."""
    # Its libraries are needed for the dashboards alone, and tests import this module for others.
    from docs import dashboards

    tables = settings_tables.pages()
    pages = {
        PAGE: page(),
        READS: reads(),
        **catalogue.pages(),
        **gpus.pages(),
        **endings.pages(),
        **features.pages(),
        **tables,
        **shortcuts.pages(),
        **advisory_screen.pages(),
        **bus.pages(),
        **postgres.pages(tables),
        **dashboards.pages(),
        **schema_pages(),
        PAGE.with_name("kernel-archive-tables.md"): "".join(f"{line}\n" for line in schema_lines()),
    }
    # These are parts of pages that may have other generated parts.
    pages |= claims.pages(load_claims(), pages)
    stale = [
        (path, text)
        for path, text in pages.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if "--check" in sys.argv[1:]:
            print(f"{path.name} is stale: run `make docs`")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.name}")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
