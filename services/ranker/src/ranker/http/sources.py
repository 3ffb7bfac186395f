"""The source of a submission as text."""

from shared.blobs import Blobs, Missing
from shared.errors import Refused


async def source_text(blobs: Blobs, digest: str) -> str:
    """A source, whatever its bytes are. Errors: Refused if it is gone; Failed."""
    try:
        return (await blobs.get(digest)).decode("utf-8", "replace")
    except Missing as missing:
        raise Refused("not_found", f"the source is not kept any more: {missing}") from missing
