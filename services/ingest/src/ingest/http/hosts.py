"""Which names a platform on one's own machine answers to."""

from collections.abc import Collection

from starlette.datastructures import URL
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.errors import Refused
from shared.http import refusal


class OwnHosts:
    """Answers those alone who call this machine by its own names.

    Where names are believed, a page of any site could else be anybody here: a browser takes a name
    of that site that leads to this machine for the site itself, and lets it read every answer.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self.app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; Source: the ASGI specification."""
        if scope["type"] != "http" or URL(scope=scope).hostname in self._names:
            await self.app(scope, receive, send)
            return
        what = f"this platform believes names, so it is called {' or '.join(self._names)} alone"
        await refusal(Refused("invalid_request", what, "host"))(scope, receive, send)
