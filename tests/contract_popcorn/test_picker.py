"""What the public client's picker is told of a problem, by its manifest."""

import json

from ingest.popcorn.public import About, Descriptions
from shared.memory import MemoryBlobs


async def test_a_picker_is_told_in_which_language_a_problem_is() -> None:
    blobs = MemoryBlobs()
    descriptions = Descriptions(blobs)
    for said, about in (
        ({"lang": "cu", "description": " Adds. "}, About("Adds.", "cu")),
        ({"lang": "py", "description": "x" * 500}, About("x" * 397 + "...", "py")),
        ([], About("", "py")),
    ):
        manifest = await blobs.put(json.dumps(said).encode())
        assert await descriptions.of(manifest.digest) == about
    assert await descriptions.of("0" * 64) == About("", "py")
