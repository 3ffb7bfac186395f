"""The API of the public client popcorn-cli: its words in, ours out, and back."""

from fastapi import FastAPI

from ingest.popcorn.admin import admin
from ingest.popcorn.admin_boards import admin_boards
from ingest.popcorn.exporting import exporting
from ingest.popcorn.own import own
from ingest.popcorn.parts import Parts
from ingest.popcorn.paths import PlainPaths
from ingest.popcorn.profiler import profiler
from ingest.popcorn.public import public
from ingest.popcorn.publishing import Sources
from ingest.popcorn.submitting import streaming, submitting


def popcorn(app: FastAPI, parts: Parts, sources: Sources) -> None:
    """Answer the client on an application; after all its other routes, for the last one is wide."""
    app.add_middleware(PlainPaths)
    app.router.redirect_slashes = False
    for theme in (public, submitting, own, profiler, admin, exporting):
        app.include_router(theme(parts))
    app.include_router(admin_boards(parts, sources))
    app.router.routes.append(streaming(parts))
