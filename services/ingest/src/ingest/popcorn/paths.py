"""Paths as the client sends them, made ours before they are routed: no run of `/`, none at the end.

The client joins its base address and a path without looking, and never follows a redirect well: a
POST would come back as a GET.
"""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

_SLASHES = re.compile(r"/{2,}")


def routed(path: str) -> str:
    """A path as it is routed.

    >>> routed("//user//submissions/"), routed("//"), routed("/a")
    ('/user/submissions', '/', '/a')
    """
    single = _SLASHES.sub("/", path)
    return single.rstrip("/") or "/"


class PlainPaths:
    """Routes every request by its plain path."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. Source: the ASGI specification."""
        if scope["type"] == "http":
            scope = {**scope, "path": routed(scope["path"])}
        await self.app(scope, receive, send)
