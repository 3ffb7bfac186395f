"""Attachments, readable under their URLs for a day."""

from dataclasses import dataclass

from aiohttp import web

from discord_sim.clock import Clock, Ids
from discord_sim.shapes import Json

LIFE_S = 24 * 3600
SIGNATURE_LENGTH = 6


@dataclass(frozen=True)
class FileUpload:
    """A file to upload: name, media type and bytes."""

    name: str
    media: str
    data: bytes


@dataclass(frozen=True)
class StoredFile:
    """A file with its URL and the time when that expires."""

    blob: FileUpload
    url: str
    expires_at: float


class Cdn:
    """The store of attachments."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock, self._ids = clock, ids
        self.base = ""
        self.stored: dict[str, StoredFile] = {}

    def store(self, blob: FileUpload, channel_id: str, *, is_ephemeral: bool = False) -> Json:
        """Store a file, and return its attachment object."""
        identity = self._ids.next()
        folder = "ephemeral-attachments" if is_ephemeral else "attachments"
        now, signature = self._clock.now(), identity[-SIGNATURE_LENGTH:]
        expires_at = now + LIFE_S
        url = (
            f"{self.base}/{folder}/{channel_id}/{identity}/{blob.name}"
            f"?ex={int(expires_at):x}&is={int(now):x}&hm={signature}"
        )
        self.stored[identity] = StoredFile(blob, url, expires_at)
        attachment: Json = {
            "id": identity,
            "filename": blob.name,
            "size": len(blob.data),
            "url": url,
            "proxy_url": url,
            "content_type": blob.media,
        }
        return attachment | ({"ephemeral": True} if is_ephemeral else {})

    def data(self, attachment: Json) -> bytes:
        """Return the bytes of a message's attachment."""
        return self.stored[attachment["id"]].blob.data

    async def serve(self, request: web.Request) -> web.Response:
        """Serve a file if the URL is complete and has not expired."""
        identity = request.match_info["id"]
        stored = self.stored.get(identity)
        signature = request.query.get("hm")
        is_gone = stored is None or self._clock.now() > stored.expires_at
        if stored is None or is_gone or signature != identity[-SIGNATURE_LENGTH:]:
            return web.Response(status=404, text="This content is no longer available.")
        return web.Response(body=stored.blob.data, headers={"Content-Type": stored.blob.media})
