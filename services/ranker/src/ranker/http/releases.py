"""Releases of the kernel archive: their list, and their files by digest."""

import asyncio
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse

from ranker.http.access import ReadSources
from ranker.releases.files import read_releases
from shared.api.releases import Release, ReleaseFile, ReleaseList, ReleaseSummary
from shared.errors import Refused
from shared.http import DocumentedRoute

BYTES = "application/octet-stream"
Digest = Annotated[str, PathParameter(pattern="^[0-9a-f]{64}$")]


def releases_router(sources: ReadSources) -> APIRouter:
    """The routes, for everybody: a release contains only what everybody may read."""
    router = APIRouter(prefix="/v1/archive", route_class=DocumentedRoute)

    async def releases() -> list[Release]:
        folder = sources.releases
        return [] if folder is None else await asyncio.to_thread(read_releases, folder)

    @router.get("/releases")
    async def list_releases() -> ReleaseList:
        """The releases of the kernel archive, the newest first."""
        return ReleaseList(items=[_summary(release) for release in reversed(await releases())])

    @router.get("/releases/{number}")
    async def release(number: int) -> Release:
        """A release with its files; /v1/archive/files/{digest} has each."""
        for known in await releases():
            if known.number == number:
                return known
        raise Refused("not_found", f"there is no release {number}", "number")

    @router.get("/files/{digest}")
    async def file(digest: Digest) -> Response:
        """A file of a release by its SHA-256; 404 once rows in it were withdrawn."""
        entries = [file for release in await releases() for file in release.files]
        entry = next((file for file in reversed(entries) if file.sha256 == digest), None)
        path = None if entry is None else await asyncio.to_thread(_find, sources.releases, entry)
        if path is None:
            raise Refused("not_found", f"no release has the file {digest}", "digest")
        headers = {"X-Content-Type-Options": "nosniff", "ETag": f'"{digest}"'}
        return FileResponse(path, headers=headers, media_type=BYTES, filename=path.name)

    return router


def _summary(release: Release) -> ReleaseSummary:
    return ReleaseSummary(
        number=release.number,
        seq=release.seq,
        at=release.at,
        licence=release.licence,
        bytes=sum(file.bytes for file in release.files),
        files=len(release.files),
        tables=release.tables,
    )


def _find(folder: Path | None, file: ReleaseFile) -> Path | None:
    """The path of a file, None if it is gone or a later release replaced it by another."""
    path = folder / file.path if folder else None
    is_there = path is not None and path.is_file() and path.stat().st_size == file.bytes
    return path if is_there else None
