"""The taskset of kernels for verifiers, and the harness by which a model answers once."""

import functools
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import httpx
import verifiers.v1 as vf
from pydantic import Field

from harness.evaluations import known_reward
from harness.vocabulary import EVALUATION_LEVEL_MIN, PASSED
from warpboard_agents.completions import extract_source
from warpboard_agents.kernels import KernelEvaluator, Platform, open_evaluator
from warpboard_agents.settings import read_token

ANSWER_S_MAX = 900.0
# Where a trace has the evaluation.
INFO = "warpboard"
SYSTEM_PROMPT = (
    "You write fast kernels. Answer with the whole file that is asked for, in one block of code."
)


class KernelConfig(vf.TasksetConfig):
    """Which problems, and on which machines."""

    problems: list[str] = Field(default_factory=list)
    """Folders or files of problems."""
    level_min: str = EVALUATION_LEVEL_MIN
    """A machine that isolates less evaluates nothing."""
    url: str = ""
    """A platform that evaluates; its token is in WARPBOARD_TOKEN, and problems are its slugs."""
    gpu: str = ""
    """With `url`, one of the GPU types of the problems."""


class KernelData(vf.TaskData):
    """One problem."""

    problem: str
    level_min: str
    url: str
    gpu: str


class KernelTask(vf.Task[KernelData]):
    """Rewards an answer by its kernel."""

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Evaluate the kernel once; the rewards and metrics below read the result.

        Raises RuntimeError if the machine could not judge it; verifiers records that as an error.
        """
        del runtime
        evaluator = _open_problem(
            self.data.problem, self.data.level_min, self.data.url, self.data.gpu
        )
        evaluation = await evaluator.evaluate(extract_source(trace.last_reply))
        reward = known_reward(evaluation)
        trace.info[INFO] = asdict(evaluation) | {"reward": reward}
        if reward is None:
            raise RuntimeError(f"the kernel could not be judged: {evaluation.reason}")

    @vf.reward
    async def kernel(self, trace: vf.Trace) -> float:
        """The harness's own reward."""
        return float(trace.info[INFO]["reward"])

    @vf.reward(weight=0.0)
    async def passed(self, trace: vf.Trace) -> float:
        """1 if every check passed; its weight is 0 unless the configuration sets another."""
        return float(trace.info[INFO]["verdict"] == PASSED)

    @vf.metric
    async def speedup(self, trace: vf.Trace) -> float:
        """How many times as fast as the yardstick; 0 if it was not timed."""
        return float(trace.info[INFO]["speedup"] or 0.0)


@functools.cache
def _open_problem(problem: str, level_min: str, url: str, gpu: str) -> KernelEvaluator:
    platform = Platform(url, read_token(), gpu) if url else None
    return open_evaluator(problem, level_min=level_min, platform=platform)


class KernelTaskset(vf.Taskset[KernelTask, KernelConfig]):
    """One task for each problem."""

    def load(self) -> Iterator[KernelTask]:
        """Yield the tasks in the order of the problems."""
        for problem in self.config.problems:
            evaluator = _open_problem(
                problem, self.config.level_min, self.config.url, self.config.gpu
            )
            data = KernelData(
                name=evaluator.slug,
                prompt=evaluator.statement,
                system_prompt=SYSTEM_PROMPT,
                problem=problem,
                level_min=self.config.level_min,
                url=self.config.url,
                gpu=self.config.gpu,
            )
            yield KernelTask(data, self.config.task)


class ChatHarness(vf.Harness[vf.HarnessConfig]):
    """Asks the model once, in this process: nothing that it writes runs outside of a box."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(  # noqa: PLR0913, PLR0917  (as verifiers calls it)
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
        **_: Any,
    ) -> vf.ProgramResult:
        """Send the prompt; verifiers records the answer on its way."""
        del trace, runtime, mcp_urls
        system_prompt, prompt = self.resolve_text_prompt(data)
        texts = {"system": system_prompt, "user": prompt}
        messages = [{"role": role, "content": text} for role, text in texts.items() if text]
        async with httpx.AsyncClient(timeout=ANSWER_S_MAX, trust_env=False) as http:
            answer = await http.post(
                f"{endpoint}/chat/completions",
                json={"model": ctx.model, "messages": messages},
                headers={"Authorization": f"Bearer {secret}"},
            )
        answer.raise_for_status()
        return vf.ProgramResult(0, "", "")
