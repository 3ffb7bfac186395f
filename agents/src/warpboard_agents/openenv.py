"""An OpenEnv environment of one problem, its server and its client.

`python -m warpboard_agents.openenv problems/vectoradd` serves it. `reset` returns the problem's
statement. `step` takes the source of a kernel and returns the reward with what an author needs to
improve it. An episode ends after `steps` kernels.
"""

import argparse
import asyncio
from dataclasses import asdict
from functools import partial
from typing import Any
from uuid import uuid4

import uvicorn
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
from pydantic import Field

from harness.evaluations import known_reward
from warpboard_agents.kernels import KernelEvaluator, Platform, open_evaluator
from warpboard_agents.settings import CREDENTIAL, read_token

PORT = 8000
STEPS = 8
SESSIONS_MAX = 64
# A kernel in C++ may be compiled for a minute before it runs.
ANSWER_S_MAX = 900.0


class KernelAction(Action):
    """A kernel to evaluate: its whole file."""

    source: str


class KernelObservation(Observation):
    """The problem's statement, and how the last kernel ended, as `Evaluation` describes it."""

    statement: str = ""
    verdict: str = ""
    reason: str = ""
    cases: list[dict[str, Any]] = Field(default_factory=list)
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    doubts: list[str] = Field(default_factory=list)


class KernelState(State):
    """The problem, and the best reward of the episode so far."""

    problem: str = ""
    best_reward: float | None = None


class KernelEnvironment(Environment[KernelAction, KernelObservation, KernelState]):
    """One episode at a time; the sessions of a server share one evaluator."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, evaluator: KernelEvaluator, steps: int = STEPS) -> None:
        super().__init__()
        self._evaluator, self._steps = evaluator, steps
        self._state = KernelState(problem=evaluator.slug)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **_: Any
    ) -> KernelObservation:
        """Start an episode; the problem has no randomness of its own, so `seed` changes nothing."""
        del seed
        self._state = KernelState(
            problem=self._evaluator.slug, episode_id=episode_id or str(uuid4())
        )
        return KernelObservation(statement=self._evaluator.statement)

    async def step_async(
        self, action: KernelAction, timeout_s: float | None = None, **_: Any
    ) -> KernelObservation:
        """Evaluate a kernel."""
        async with asyncio.timeout(timeout_s):
            evaluation = await self._evaluator.evaluate(action.source)
        reward = known_reward(evaluation)
        known = [value for value in (reward, self._state.best_reward) if value is not None]
        self._state.step_count += 1
        self._state.best_reward = max(known, default=None)
        return KernelObservation(
            statement=self._evaluator.statement,
            verdict=evaluation.verdict,
            reason=evaluation.reason,
            cases=[asdict(case) for case in evaluation.cases],
            speedup=evaluation.speedup,
            interval=evaluation.interval,
            doubts=evaluation.doubts,
            reward=reward,
            done=self._state.step_count >= self._steps,
        )

    def step(
        self, action: KernelAction, timeout_s: float | None = None, **options: Any
    ) -> KernelObservation:
        """Evaluate a kernel, outside of an event loop."""
        return asyncio.run(self.step_async(action, timeout_s, **options))

    @property
    def state(self) -> KernelState:
        """The state of the episode."""
        return self._state


class KernelEnv(EnvClient[KernelAction, KernelObservation, KernelState]):
    """A client of the server; `openenv.core.GenericEnvClient` works with it as well."""

    def __init__(self, base_url: str, **options: Any) -> None:
        super().__init__(base_url, **{"message_timeout_s": ANSWER_S_MAX} | options)

    def _step_payload(self, action: KernelAction) -> dict[str, Any]:
        return {"source": action.source}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[KernelObservation]:
        reward, is_over = payload.get("reward"), bool(payload.get("done"))
        observation = KernelObservation(**payload["observation"], reward=reward, done=is_over)
        return StepResult(observation=observation, reward=reward, done=is_over)

    def _parse_state(self, payload: dict[str, Any]) -> KernelState:
        return KernelState(**payload)


def main() -> None:
    """Serve a problem until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m warpboard_agents.openenv", description=__doc__)
    parser.add_argument("problem", help="its folder, or file; with --url, its slug")
    parser.add_argument("--url", default="", help=f"a platform; its token is in {CREDENTIAL}")
    parser.add_argument("--gpu", default="", help="with --url, if the problem has several")
    parser.add_argument("--steps", type=int, default=STEPS, help="kernels per episode")
    parser.add_argument("--sessions", type=int, default=SESSIONS_MAX, help="episodes at once")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=PORT)
    options = parser.parse_args()
    platform = Platform(options.url, read_token(), options.gpu) if options.url else None
    evaluator = open_evaluator(options.problem, platform=platform)
    environment = partial(KernelEnvironment, evaluator, options.steps)
    app = create_fastapi_app(environment, KernelAction, KernelObservation, options.sessions)
    uvicorn.run(app, host=options.host, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
