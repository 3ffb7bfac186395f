"""Attachments: kept by absolute URL, readable for a day."""

from dataclasses import dataclass

from aiohttp import web

from discord_sim.clock import Clock, Ids
from discord_sim.shapes import Json

LIFE_S = 24 * 3600
SIGNATURE_LENGTH = 6


@dataclass(frozen=True)
class Blob:
    """A file on its way: its name, media type and bytes."""

    name: str
    media: str
    data: bytes


@dataclass(frozen=True)
class Stored:
    """A file that has a URL until an instant."""

    blob: Blob
    url: str
    expires_at: float


class Cdn:
    """Where attachments lie."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        """An empty store; `base` is known once the server listens."""
        self._clock, self._ids = clock, ids
        self.base = ""
        self.stored: dict[str, Stored] = {}

    def store(self, blob: Blob, channel_id: str, *, is_ephemeral: bool = False) -> Json:
        """Keep a file, and tell of it as a message does."""
        identity = self._ids.next()
        where = "ephemeral-attachments" if is_ephemeral else "attachments"
        now, signature = self._clock.now(), identity[-SIGNATURE_LENGTH:]
        expires_at = now + LIFE_S
        url = (
            f"{self.base}/{where}/{channel_id}/{identity}/{blob.name}"
            f"?ex={int(expires_at):x}&is={int(now):x}&hm={signature}"
        )
        self.stored[identity] = Stored(blob, url, expires_at)
        told: Json = {
            "id": identity,
            "filename": blob.name,
            "size": len(blob.data),
            "url": url,
            "proxy_url": url,
            "content_type": blob.media,
        }
        return told | ({"ephemeral": True} if is_ephemeral else {})

    def data(self, attachment: Json) -> bytes:
        """The bytes of an attachment that a message tells of."""
        return self.stored[attachment["id"]].blob.data

    async def serve(self, request: web.Request) -> web.Response:
        """A file, for whoever has its whole URL in time."""
        identity = request.match_info["id"]
        found = self.stored.get(identity)
        signature = request.query.get("hm")
        is_gone = found is None or self._clock.now() > found.expires_at
        if found is None or is_gone or signature != identity[-SIGNATURE_LENGTH:]:
            return web.Response(status=404, text="This content is no longer available.")
        return web.Response(body=found.blob.data, headers={"Content-Type": found.blob.media})
