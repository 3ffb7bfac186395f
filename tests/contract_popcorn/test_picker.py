"""What the public client's picker is told of a problem, by its manifest."""

import json

from ingest.popcorn.participant import About, Descriptions
from tests.support.memory import MemoryBlobStore


async def test_a_picker_is_told_in_which_language_a_problem_is() -> None:
    blobs = MemoryBlobStore()
    descriptions = Descriptions(blobs)
    for manifest_text, about in (
        ({"lang": "cu", "description": " Adds. "}, About("Adds.", "cu")),
        ({"lang": "py", "description": "x" * 500}, About("x" * 397 + "...", "py")),
        ([], About("", "py")),
    ):
        manifest = await blobs.put(json.dumps(manifest_text).encode())
        assert await descriptions.get(manifest.digest) == about
    assert await descriptions.get("0" * 64) == About("", "py")
