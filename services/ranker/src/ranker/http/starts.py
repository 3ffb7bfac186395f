"""What a submission begins as, and how a problem is run, by what its manifest says."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Response
from pydantic import Field

from ranker.http.answers import Asking, ProblemVersion
from ranker.http.shapes import problems as shapes
from shared.errors import Refused
from shared.problems import templates

GPUS_MAX = 32
KERNEL = "kernel"

Row = dict[str, Any]


class Begun(Asking):
    """For which GPU types, of which version."""

    gpu: Annotated[list[str], Field(default_factory=list, max_length=GPUS_MAX)]
    version: ProblemVersion = None


def starts(row: Row, manifest: Row) -> list[shapes.Start]:
    """The languages to begin in, the likeliest first, each with the address of its text."""
    where = f"/v1/problems/{quote(row['slug'])}/templates/"
    return [
        {
            "language": one.language,
            "name": f"{KERNEL}{one.suffix}",
            "url": f"{where}{quote(one.language)}",
            "is_generated": not one.file,
        }
        for one in templates.starts(manifest)
    ]


def form(manifest: Row) -> Row:
    """How a problem's own code is called, for who runs it elsewhere."""
    return {
        "form": _form(manifest),
        "main": manifest.get("main", ""),
        "is_multi_gpu": manifest.get("multi_gpu", False),
        "native": manifest.get("native", {}),
        "answers": manifest.get("answers", ""),
        "memory_mib": manifest.get("memory_mib", 0),
    }


def _form(manifest: Row) -> str:
    if manifest.get("lang") == "cu":
        return "native"
    if manifest.get("main"):
        return "program"
    if "calls" in manifest:
        return str(manifest.get("form") or "input_output")
    return "task"


def wanted(row: Row, asked: Sequence[str]) -> list[str]:
    """GPU types as the leaderboard writes them. Errors: Refused `unknown_gpu`."""
    known = {one.lower(): one for one in row["gpus"]}
    for one in asked:
        if one.lower() not in known:
            what = f"{row['slug']} has no GPU type {one!r}: {', '.join(row['gpus'])}"
            raise Refused("unknown_gpu", what, "gpu")
    return [known[one.lower()] for one in asked]


def text(
    row: Row, manifest: Row, one: templates.Start, files: Mapping[str, bytes], gpus: Sequence[str]
) -> bytes:
    """A start as a participant is given it."""
    head = templates.Head(row["slug"], row["title"], row["gpus"], row["deadline_at"], gpus)
    body = templates.text(manifest, one, files)
    return templates.served(head, one.suffix, body).encode()


def download(data: bytes, name: str, known: str) -> Response:
    """A text under a name of its own, or 304 for who has just these bytes."""
    etag = f'"{hashlib.sha256(data).hexdigest()}"'
    headers = {"ETag": etag, "X-Content-Type-Options": "nosniff"}
    if etag in known:
        return Response(None, 304, headers)
    headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return Response(data, 200, headers, "text/plain; charset=utf-8")
