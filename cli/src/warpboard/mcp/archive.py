"""The tool that searches the archive for kernels to learn from."""

from typing import Annotated

from pydantic import Field

from shared.api.archive import ArchiveSearch
from warpboard.mcp.context import Name, Number, Slug, ToolContext, ToolResult

LIMIT_MAX = 20
Filter = Annotated[Name | None, Field(description="None means all.")]


async def search_archive(
    context: ToolContext,
    *,
    words: Annotated[
        str | None, Field(max_length=500, description="Words, such as fused softmax.")
    ] = None,
    source: Annotated[
        str | None,
        Field(max_length=64 * 1024, description="A kernel or PyTorch module to resemble."),
    ] = None,
    like: Annotated[
        Number | None, Field(description="The submission whose source they resemble.")
    ] = None,
    problem: Annotated[Slug | None, Field(description="None means all.")] = None,
    operation: Filter = None,
    gpu: Filter = None,
    language: Filter = None,
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX, description="How many kernels.")] = 10,
) -> ToolResult:
    """Search correct kernels whose sources you may read, by words or by similarity to a source or
    to a submission, with their speed-ups and why they match.
    """
    query = {"q": words, "source": source, "like": like, "problem": problem, "limit": limit}
    query |= {"operation": operation, "gpu": gpu, "language": language}
    body = {name: value for name, value in query.items() if value not in (None, "")}
    answer = await context.api.act(ArchiveSearch, "POST", "archive", "search", body=body)
    step = "compare shows the source of one beside yours: a is your submission, b its number"
    return ToolResult(answer.value, next_step=step if answer.value.items else "")
