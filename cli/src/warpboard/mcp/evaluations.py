"""The tool that evaluates many kernels at once."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import msgspec
from pydantic import BaseModel, Field

from harness.evaluator import EvaluationMode
from shared.api.evaluations import EvaluationItem, EvaluationRequest, EvaluationResult
from shared.problems.submission_file import SUFFIXES
from warpboard.mcp.context import Gpu, Language, Slug, ToolContext, ToolResult
from warpboard.service import evaluations

# A result has up to a kilobyte.
KERNELS_MAX = 64
WAIT_S_MAX = 50


class KernelInput(BaseModel):
    """One kernel of a batch."""

    id: Annotated[str, Field(min_length=1, max_length=200, description="Your name of it.")]
    source: Annotated[str, Field(min_length=1, description="The whole text of the file.")]
    language: Language = "python"
    files: Annotated[
        dict[str, str],
        Field(default_factory=dict, description="The texts of files beside it, by name."),
    ]


class EvaluatedKernel(msgspec.Struct, frozen=True, kw_only=True):
    """How a kernel ended; `kernel` is the client's own name of it.

    It `is_cached` if an equal one was checked before.
    """

    kernel: str
    verdict: str | None
    reason: str
    speedup: float | None
    interval: tuple[float, float] | None
    doubts: list[str]
    is_cached: bool


class EvaluatedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels that ended; `missing` are the ids of those that did not yet."""

    evaluated: list[EvaluatedKernel]
    missing: list[str]


async def evaluate_batch(
    context: ToolContext,
    *,
    problem: Slug,
    kernels: Annotated[
        Sequence[KernelInput],
        Field(min_length=1, max_length=KERNELS_MAX, description="The kernels, each with an id."),
    ],
    mode: Annotated[
        EvaluationMode, Field(description="test: is it right; benchmark: how fast.")
    ] = "test",
    gpu: Annotated[Gpu | None, Field(description="With a problem that has several.")] = None,
    use_cache: Annotated[
        bool, Field(description="false: also check kernels whose verdict in mode test is known.")
    ] = True,
    wait_s: Annotated[
        float, Field(ge=1, le=WAIT_S_MAX, description="How long to wait for the results.")
    ] = WAIT_S_MAX,
) -> ToolResult:
    """Evaluate many kernels at once, to choose the one to submit. They are no submissions and have
    no rank. If results are missing, call it again with the same arguments.
    """
    items = [
        EvaluationItem(
            id=kernel.id,
            source=kernel.source,
            name=f"kernel{SUFFIXES[kernel.language]}",
            others=kernel.files,
        )
        for kernel in kernels
    ]
    request = EvaluationRequest(
        problem=problem, gpu=gpu, mode=mode, use_cache=use_cache, items=items
    )
    results: list[EvaluationResult] = []
    began = time.monotonic()
    key = evaluations.batch_key(request)
    answers = evaluations.evaluate_batch(context.api, request, key)
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            async for result in answers:
                results.append(result)
                sentence = f"{len(results)} of {len(items)} kernels evaluated"
                await context.report_progress(time.monotonic() - began, wait_s, sentence)
    ended = {result.id for result in results}
    evaluated = [
        EvaluatedKernel(
            kernel=result.id,
            verdict=result.verdict,
            reason=result.reason,
            speedup=result.speedup,
            interval=result.interval,
            doubts=result.doubts,
            is_cached=result.is_cached,
        )
        for result in results
    ]
    missing = [item.id for item in items if item.id not in ended]
    next_step = (
        "call evaluate_batch again with the same arguments"
        if missing
        else "submit the best kernel: call submit with mode ranked"
    )
    return ToolResult(EvaluatedBatch(evaluated=evaluated, missing=missing), next_step)
