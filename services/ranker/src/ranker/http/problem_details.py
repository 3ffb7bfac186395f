"""What participants are told of a problem: its rules, its check, and the files to start from."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Response
from msgspec import convert
from pydantic import Field

from ranker.http.access import policy_text
from ranker.http.responses import ProblemVersion, QueryParams
from shared.api import problems as models
from shared.errors import Refused
from shared.problems import templates
from shared.problems.report import read_report
from shared.problems.task_yml import case_name
from shared.ranking_rules import RANKING_TEXTS

# Prefixes of files that authors keep hidden from participants.
HIDDEN_PREFIXES = ("hidden", "solution")
SEED = "seed"
TIES_TEXT = (
    "scores whose difference is within machine noise or what a cheat could hide share a rank; "
    "within a rank entries are ordered by score, a copy is placed behind its original, "
    "and a participant's runs of the same source are pooled"
)
TOLERANCES_TEXT = "as reference.py checks the output; exact where it has no tolerances"
PUBLISHED_BEFORE_CHECKS = "it was published before there were checks"
GPUS_MAX = 32
KERNEL = "kernel"

Row = dict[str, Any]


class StartQuery(QueryParams):
    """For which GPU types and version."""

    gpu: Annotated[list[str], Field(default_factory=list, max_length=GPUS_MAX)]
    version: ProblemVersion = None


def list_starts(row: Row, manifest: Row) -> list[models.Start]:
    """The languages to start in, the most likely first, each with the URL of its file."""
    base_url = f"/v1/problems/{quote(row['slug'])}/templates/"
    return [
        models.Start(
            language=start.language,
            name=f"{KERNEL}{start.suffix}",
            url=f"{base_url}{quote(start.language)}",
            is_generated=not start.file,
        )
        for start in templates.starter_templates(manifest)
    ]


def describe_form(manifest: Row) -> Row:
    """How a problem's own code is called, for those who run it elsewhere."""
    return {
        "form": _find_form(manifest),
        "main": manifest.get("main", ""),
        "is_multi_gpu": manifest.get("multi_gpu", False),
        "native": manifest.get("native", {}),
        "answers": manifest.get("answers", ""),
        "memory_mib": manifest.get("memory_mib", 0),
    }


def _find_form(manifest: Row) -> str:
    if manifest.get("lang") == "cu":
        return "native"
    if manifest.get("main"):
        return "program"
    if "calls" in manifest:
        return str(manifest.get("form") or "input_output")
    return "task"


def match_gpus(row: Row, gpus: Sequence[str]) -> list[str]:
    """GPU types as the leaderboard writes them. Raises Refused `unknown_gpu`."""
    known = {gpu.lower(): gpu for gpu in row["gpus"]}
    for gpu in gpus:
        if gpu.lower() not in known:
            reason = f"{row['slug']} has no GPU type {gpu!r}: {', '.join(row['gpus'])}"
            raise Refused("unknown_gpu", reason, "gpu")
    return [known[gpu.lower()] for gpu in gpus]


def render_start(
    row: Row,
    manifest: Row,
    start: templates.StarterTemplate,
    files: Mapping[str, bytes],
    gpus: Sequence[str],
) -> bytes:
    """Render the file to start from."""
    head = templates.TemplateHeader(
        row["slug"], row["title"], row["gpus"], row["deadline_at"], gpus
    )
    body = templates.render_template(manifest, start, files)
    return templates.add_template_header(head, start.suffix, body).encode()


def make_text_download(data: bytes, name: str, known: str) -> Response:
    """A named text file, or 304 for a reader who has the same bytes."""
    etag = f'"{hashlib.sha256(data).hexdigest()}"'
    headers = {"ETag": etag, "X-Content-Type-Options": "nosniff"}
    if etag in known:
        return Response(None, 304, headers)
    headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return Response(data, 200, headers, "text/plain; charset=utf-8")


def describe_rules(row: Row, manifest: Row) -> Row:
    """What participants must know; never a seed or a hidden file."""
    visible = visible_files(manifest)
    base_url = f"/v1/problems/{quote(row['slug'])}/files/"
    files = [{"name": name, "url": f"{base_url}{quote(name)}"} for name in visible]
    fields = {name: manifest.get(name) for name in ("authors", "difficulty", "tags", "lang")}
    fields |= describe_form(manifest)
    return fields | {
        "description": manifest["description"],
        "templates": visible_templates(manifest),
        "submission": manifest["submission"],
        "files": files,
        "starts": list_starts(row, manifest | {"templates": visible_templates(manifest)}),
        "rules": {
            "formula": f"{RANKING_TEXTS[row['ranking_by']]}, in seconds; the lowest is first",
            "cases": {key: _make_cases(manifest[key]) for key in ("tests", "benchmarks")},
            "tolerances": TOLERANCES_TEXT,
            "budgets_s": row["budgets_s"],
            "deadline_at": row["deadline_at"],
            "ties": TIES_TEXT,
            "source_policy": policy_text(row["source_visible"], row["deadline_at"]),
            "requires": manifest.get("requires", {}),
            "licence": manifest.get("licence", {}),
            "consent": manifest.get("consent", ""),
            # The formulas of the minimum work, without their values.
            "roofline": {
                key: value for key, value in manifest.get("roofline", {}).items() if key != "cases"
            },
        },
    }


def _make_cases(cases: list[Row]) -> list[Row]:
    """Cases without their seeds, which a ranked run draws again."""
    plain = [{key: value for key, value in case["args"].items() if key != SEED} for case in cases]
    return [
        {"name": case_name(args), "args": args, "is_seeded": SEED in case["args"]}
        for case, args in zip(cases, plain, strict=True)
    ]


def visible_files(manifest: Row) -> list[str]:
    """The files that participants may see."""
    return sorted(
        name for name in manifest["files"] if not name.lower().startswith(HIDDEN_PREFIXES)
    )


def visible_templates(manifest: Row) -> dict[str, str]:
    """The templates that participants may see, by language."""
    visible = visible_files(manifest)
    return {key: name for key, name in manifest["templates"].items() if name in visible}


async def describe_check(
    row: Row, text: Callable[[str], Awaitable[bytes]], *, is_known: bool = False
) -> models.Check:
    """The check of a version; `text` loads the bytes of a digest.

    The results of the author's solutions are only for the author and staff (`is_known`), because
    the names of wrong solutions reveal what is checked. Raises Failed.
    """
    if not row["report"]:
        return _unchecked(row["unchecked"] or PUBLISHED_BEFORE_CHECKS)
    try:
        report = read_report(await text(row["report"]))
    except Refused as refused:
        return _unchecked(refused.reason)
    return models.Check(
        state="clean",
        reason="",
        harness=report.harness,
        device=report.device,
        made_at=report.made_at,
        solutions=len(report.solutions),
        solutions_found=[
            convert(solution, models.SolutionFound, from_attributes=True)
            for solution in report.solutions
        ]
        if is_known
        else [],
        warnings=[f"{finding.where}: {finding.text}" for finding in report.findings],
    )


def _unchecked(reason: str) -> models.Check:
    return models.Check(
        state="unchecked",
        reason=reason,
        harness=None,
        device=None,
        made_at=None,
        solutions=0,
        solutions_found=[],
        warnings=[],
    )
