"""The pages of the queue and of the agents; a script keeps them up to date."""

import asyncio
from datetime import datetime
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from ingest.login.web import Web
from ingest.ports import ReadProxy
from ingest.site.charts import CanaryChart, draw_canaries
from ingest.site.reads import PageReads, api_path, find_visitor, read_if_possible, read_in_time
from shared.api.agents import Agent, Agents
from shared.api.queues import Job, Pool, Queues
from shared.api.submissions import NewestSubmissions
from shared.clock import now
from shared.presentation.report_parts import agent_state_text, busy_pools, held_back_text

# How often the script reads a page again; without scripts, browsers load it again more rarely.
REFRESH_S, RELOAD_S = 5, 30
OPEN_MAX = 100
JOBS_MAX = 100


class PoolRow(NamedTuple):
    """The queue of a GPU type, how many of its submissions run, and the first that wait."""

    pool: Pool
    running: int
    jobs: list[Job]
    jobs_more: int


class AgentRow(NamedTuple):
    """An agent, its state in words, whether it takes jobs, for how long it runs one, its canaries.

    Without a job, `run_s` is None; without two canaries, `chart` is None.
    """

    agent: Agent
    state: str
    is_ready: bool
    run_s: float | None
    chart: CanaryChart | None


def make_agent_row(agent: Agent, at: datetime) -> AgentRow:
    """Return the row of an agent at an instant."""
    run = agent.current_run
    return AgentRow(
        agent,
        agent_state_text(agent),
        agent.is_alive and not held_back_text(agent),
        None if run is None else max(0.0, (at - run.assigned_at).total_seconds()),
        draw_canaries(agent.canaries),
    )


def list_pools(queues: Queues, *, is_all: bool) -> list[PoolRow]:
    """Return the queues; by default without idle GPU types, and without baselines that wait."""
    rows = []
    for pool in queues.pools if is_all else busy_pools(queues.pools):
        jobs = [job for job in pool.forecast if is_all or not job.is_baseline]
        running = sum(
            depth.submissions
            for depth in queues.items
            if depth.gpu == pool.gpu and depth.state in ("assigned", "running")
        )
        rows.append(PoolRow(pool, running, jobs[:JOBS_MAX], max(0, len(jobs) - JOBS_MAX)))
    return rows


async def read_open_submissions(reads: PageReads) -> NewestSubmissions | None:
    """Return the unfinished submissions that the reader can see, None if they cannot be read."""
    path = api_path("submissions")
    return await read_if_possible(reads.read(path, NewestSubmissions, state="open", limit=OPEN_MAX))


def add_platform_pages(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    """Add the pages of the queue and of the agents."""

    @router.get("/queue")
    @router.head("/queue")
    async def queue(request: Request) -> Response:
        """What waits and runs on each GPU type, with the forecast."""
        is_all = request.query_params.get("all") == "1"
        visitor = await find_visitor(request, web, ranker)
        queues, submissions = await read_in_time(
            asyncio.gather(
                visitor.reads.read(api_path("queue"), Queues),
                read_open_submissions(visitor.reads),
            )
        )
        pools = list_pools(queues, is_all=is_all)
        values: dict[str, Any] = {
            "pools": pools,
            "pools_hidden": len(queues.pools) - len(pools),
            "is_all": is_all,
            "parked": queues.parked,
            "submissions": submissions.items if submissions else None,
            "account": visitor.account,
            "refresh_s": REFRESH_S,
            "reload_s": RELOAD_S,
        }
        return web.public_page(request, "queue.html", visitor.session, has_script=True, **values)

    @router.get("/agents")
    @router.head("/agents")
    async def agents(request: Request) -> Response:
        """Every agent with its state, isolation, timing and canaries."""
        visitor = await find_visitor(request, web, ranker)
        known = await read_in_time(visitor.reads.read(api_path("agents"), Agents))
        at = now()
        rows = [make_agent_row(agent, at) for agent in known.items if agent.standing != "revoked"]
        values: dict[str, Any] = {
            "rows": sorted(rows, key=lambda row: (not row.agent.is_alive, row.agent.id)),
            "revoked_count": len(known.items) - len(rows),
            "refresh_s": REFRESH_S,
            "reload_s": RELOAD_S,
        }
        return web.public_page(request, "agents.html", visitor.session, has_script=True, **values)
