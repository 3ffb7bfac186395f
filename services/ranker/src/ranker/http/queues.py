"""Agents, the queue of each GPU type, what a submission waits for, and counts of runs."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from msgspec import convert

from harness.vocabulary import SubmissionMode
from ranker.http.access import CurrentReader, ReaderView, ReadSources, require_staff
from ranker.service.decisions import Reads
from ranker.service.progress import Live
from shared.api import queues as models
from shared.api.agents import Agent, Agents
from shared.api.leaderboards import GpuLeaderboard
from shared.clock import now
from shared.errors import Refused
from shared.events import EPHEMERAL, LAUNCHER
from shared.http import DocumentedRoute
from shared.states import QUEUED

REASON_LENGTH_MAX = 1000
ANY_MODE = ""
DAY_S = 86400.0
JOB = ("submission", "position", "eta_s", "eta_p90_s", "why", "queue_class")
RUN = ("agent", "kind", "submission", "assigned_at")
STANDINGS = ("revoked", "quarantined", "drained", "cordoned")
# A real agent has fewer, and its toolchains have such names; a hostile one may claim others.
TOOLCHAINS_MAX = 64
OFFERS_MAX = 32
TOOLCHAIN = re.compile(r"[a-z0-9][a-z0-9_+.-]{0,39}\Z")

Row = dict[str, Any]


def queues_router(sources: ReadSources) -> APIRouter:
    """The routes of agents and queues, and the counts that ingest asks for."""
    router, reads, live = APIRouter(route_class=DocumentedRoute), sources.reads, sources.live

    @router.get("/v1/agents")
    async def agents(reader: CurrentReader) -> Agents:
        """Registered agents: which are alive, what they run, and decisions about them.

        An agent that leaves after one job is listed while it is alive, or held back.
        """
        rows = await reads.rows("agents")
        rows = [row for row in rows if row["id"] in live.agents or not _has_left(row)]
        runs = await _read_current_runs(sources.view(reader), live)
        described = [
            row | _describe_agent(row, live.agents.get(row["id"]), runs.get(row["id"], []))
            for row in rows
        ]
        launched = sorted(gpu for gpu in live.queues if live.queues[gpu].get("launchers"))
        items = convert(described, list[Agent])
        return Agents(items=items, as_of=sources.progress.seq, launched=launched)

    @router.get("/v1/admin/agents")
    async def agents_for_operators(reader: CurrentReader) -> Agents:
        """Agents for operators; refused for others."""
        require_staff(reader)
        return await agents(reader)

    @router.get("/v1/queue")
    async def queue(reader: CurrentReader) -> models.Queues:
        """Unfinished submissions by GPU type and state, and how long each queue takes."""
        items = await reads.rows("waiting")
        paused = {row["gpu"]: row["paused"] for row in await reads.rows("pools")}
        gpus = sorted({row["gpu"] for row in items} | set(paused) | set(live.queues))
        pools = [_make_pool(gpu, items, paused.get(gpu), live) for gpu in gpus]
        jobs = [job for pool in pools for job in pool["forecast"]]
        await _add_numbers(jobs, sources.view(reader))
        return models.Queues(
            items=convert(items, list[models.Depth]),
            pools=convert(pools, list[models.Pool]),
            as_of=sources.progress.seq,
            parked=sources.progress.parked,
        )

    _add_queue_of_gpu(router, reads, live)
    _add_stats(router, reads)
    return router


def _add_queue_of_gpu(router: APIRouter, reads: Reads, live: Live) -> None:
    @router.get("/v1/queue/{gpu}")
    async def read_queue(
        gpu: str, mode: Annotated[SubmissionMode | None, Query()] = None
    ) -> models.QueueOfGpu:
        """The queue that a new submission for a GPU type would join.

        With a mode, only agents that offer it count.
        """
        rows = {row["gpu"].lower(): row["gpu"] for row in await reads.rows("gpus")}
        if gpu.lower() not in rows:
            raise Refused("not_found", f"there is no GPU type {gpu!r} here", "gpu")
        name = rows[gpu.lower()]
        items = [row for row in await reads.rows("waiting") if row["gpu"] == name]
        depth = sum(row["submissions"] for row in items if row["state"] == QUEUED)
        paused = [row["paused"] for row in await reads.rows("pools") if row["gpu"] == name]
        held = {row["id"]: text for row in await reads.rows("agents") if (text := _held_text(row))}
        queue_state = _make_queue(live, name, mode or ANY_MODE, paused[0] if paused else None, held)
        more = {"waiting": depth, "items": items, "toolchains": _offered_toolchains(live, name)}
        more["launchers"] = live.queues.get(name, {}).get("launchers", [])
        return convert(queue_state | more, models.QueueOfGpu)


def _add_stats(router: APIRouter, reads: Reads) -> None:
    @router.get("/internal/stats")
    async def read_stats(
        problem: Annotated[str | None, Query()] = None, *, is_last_day: bool = False
    ) -> dict[str, Any]:
        """Counts in total and by GPU type, and the last day's run time by participant."""
        since = now() - timedelta(seconds=DAY_S) if is_last_day else None
        filters = {"problem": problem, "since": since}
        (counts,) = await reads.rows("stats", **filters)
        for row in await reads.rows("stats_by_gpu", **filters):
            gpu = row.pop("gpu")
            counts |= {f"{name}.{gpu}": value for name, value in row.items()}
        if is_last_day:
            for row in await reads.rows("stats_by_account", **filters):
                counts[f"total.{row['account']}"] = row["total"]
        return counts


async def _read_current_runs(view: ReaderView, live: Live) -> dict[str, list[Row]]:
    """What each agent runs; the numbers are of submissions that the reader can see."""
    runs = [
        dict(zip(RUN, run, strict=False))
        for forecast in live.queues.values()
        for run in forecast.get("runs", [])
    ]
    rows = await view.rows("numbers", submissions=[run["submission"] for run in runs])
    numbers = {row["id"]: row["number"] for row in rows if view.sees(row)}
    by_agent: dict[str, list[Row]] = {}
    for run in runs:
        numbered_run = run | {"number": numbers.get(run["submission"])}
        by_agent.setdefault(run["agent"], []).append(numbered_run)
    return by_agent


def _has_left(row: Row) -> bool:
    """Whether a silent agent is one that leaves after its job, or never came for one."""
    never_came = row["owner"] == LAUNCHER and row["registered_at"] is None
    is_held = any(row[name] is not None for name in STANDINGS)
    return (EPHEMERAL in row["details"] or never_came) and not is_held


def _describe_agent(row: Row, offer: Row | None, runs: Sequence[Row]) -> Row:
    slots = offer["registration"].get("slots", 1) if offer is not None else 1
    is_idle = offer is None or (slots == 1 and offer.get("is_free"))
    standing = next((name for name in STANDINGS if row[name] is not None), None)
    return {
        "is_alive": offer is not None,
        "is_free": bool(offer and offer.get("is_free")),
        "slots": slots,
        # The forecast may be older than the heartbeat.
        "current_runs": [] if is_idle else list(runs),
        "standing": standing or ("enrolled" if row["is_enrolled"] else "not_enrolled"),
        "standing_reason": row[standing] if standing else None,
    }


def _make_pool(gpu: str, items: list[Row], paused: str | None, live: Live) -> Row:
    forecast = live.queues.get(gpu, {})
    waiting = [row for row in items if row["gpu"] == gpu and row["state"] == QUEUED]
    return {
        "gpu": gpu,
        "waiting": sum(row["submissions"] for row in waiting),
        "paused": forecast.get("paused") or paused,
        "agents_online": len(_find_online(live, gpu)),
        "slots_free": forecast.get("free"),
        "slots_busy": forecast.get("busy"),
        "run_s": _run_durations(forecast),
        "forecast_at": forecast.get("at"),
        "forecast": [
            dict.fromkeys(JOB) | dict(zip(JOB, job, strict=False))
            for job in forecast.get("jobs", [])
        ],
        "launchers": forecast.get("launchers", []),
    }


def _run_durations(forecast: Row) -> Row | None:
    run_s = forecast.get("run_s") or None
    return run_s and {"p50": run_s.get("p50"), "p90": run_s.get("p90")}


async def _add_numbers(jobs: list[Row], view: ReaderView) -> None:
    """Add which jobs are baselines, and the numbers of the reader's own; others stay anonymous."""
    rows = await view.rows("numbers", submissions=[job["submission"] for job in jobs])
    baselines = {row["id"] for row in rows if row["baseline"]}
    known = {row["id"]: row["number"] for row in rows if view.owns(row)}
    for job in jobs:
        job["is_baseline"] = job["submission"] in baselines
        job["number"] = known.get(job["submission"])
        if job["number"] is None:
            job["submission"] = None


def describe_wait(live: Live, row: Row) -> models.Queue | None:
    """What a submission waits for: place, expected time, and why no agent takes it.

    The place comes from the scheduler's forecast, None until then: the order is not that of
    arrival.
    """
    if row["state"] != QUEUED:
        return None
    jobs = live.queues.get(row["gpu"], {}).get("jobs", [])
    own_job = next((job for job in jobs if job[0] == row["id"]), ())
    forecast = dict.fromkeys(JOB) | dict(zip(JOB, own_job, strict=False))
    position = forecast["position"]
    queue = _make_queue(live, row["gpu"], row["mode"], None) | {
        "position": position,
        "ahead": None if position is None else max(0, position - 1),
        "eta_s": forecast["eta_s"],
        "eta_p90_s": forecast["eta_p90_s"],
        "why": forecast["why"] or None,
    }
    return convert(queue, models.Queue)


def describe_gpus(
    live: Live, problem: Row, versions: Sequence[Row], version: int
) -> list[GpuLeaderboard]:
    """The GPU types of a problem with their entries under a version, those that are open first."""
    counts = {
        row["gpu"]: row["entries_count"] for row in versions if row["problem_version"] == version
    }
    return [
        GpuLeaderboard(
            gpu=gpu,
            is_open=gpu in problem["gpus"],
            is_tested=gpu in problem["tested_gpus"],
            entries_count=counts.get(gpu, 0),
            agents_online=len(_find_online(live, gpu)),
        )
        for gpu in (*problem["gpus"], *problem["gpus_closed"])
    ]


def count_agents(live: Live) -> dict[str, int]:
    """How many agents are online, by GPU type, without the types that have none."""
    counts = {gpu: len(_find_online(live, gpu)) for gpu in sorted(live.queues)}
    return {gpu: count for gpu, count in counts.items() if count}


def _make_queue(
    live: Live, gpu: str, mode: str, paused: str | None, held: Mapping[str, str] | None = None
) -> Row:
    """Describe the queue of a GPU type; `held` says why some agents take no jobs."""
    forecast = live.queues.get(gpu, {})
    online = _find_online(live, gpu)
    refusals = {
        name: (held or {}).get(name) or _find_refusal(offer, mode) for name, offer in online.items()
    }
    suitable = [offer for name, offer in online.items() if refusals[name] is None]
    paused = paused or forecast.get("paused")
    launchers = [launcher["name"] for launcher in forecast.get("launchers", [])]
    reason = None if suitable else _explain_no_agent(refusals, gpu, mode)
    if reason and launchers:
        reason += f"; launcher {' or '.join(launchers)} starts one for a job"
    return {
        "gpu": gpu,
        "state": "paused" if paused else "queued" if suitable or launchers else "no_agent",
        "position": None,
        "ahead": None,
        "run_s": _run_durations(forecast),
        "agents_online": len(online),
        "agents_busy": sum(not offer.get("is_free") for offer in suitable),
        "reason": f"paused: {paused}" if paused else reason,
        "as_of": forecast.get("at") or now(),
    }


def _find_online(live: Live, gpu: str) -> dict[str, Row]:
    return {
        name: offer
        for name, offer in live.agents.items()
        if offer.get("registration", {}).get("gpu") == gpu
    }


def _offered_toolchains(live: Live, gpu: str) -> list[list[str]]:
    """Return the names of the toolchains of each online agent; equal ones once."""
    offers = {
        tuple(sorted(filter(TOOLCHAIN.match, offer["registration"].get("toolchains", {}))))
        for offer in _find_online(live, gpu).values()
        if not offer["registration"].get("quarantine")
    }
    return [list(names[:TOOLCHAINS_MAX]) for names in sorted(offers)[:OFFERS_MAX]]


def _explain_no_agent(refusals: Mapping[str, str | None], gpu: str, mode: str) -> str:
    if not refusals:
        return f"no agent with {gpu} is alive"
    reasons = "; ".join(f"agent {name}: {reason}" for name, reason in refusals.items())
    jobs = f"mode {mode}" if mode else "jobs"
    return f"no live agent with {gpu} takes {jobs}: {reasons}"[:REASON_LENGTH_MAX]


def _held_text(row: Row) -> str:
    """Why an agent takes no jobs, "" if it takes them."""
    reasons = ((name, row[name]) for name in STANDINGS if row[name] is not None)
    return next((f"{name}: {reason}" if reason else name for name, reason in reasons), "")


def _find_refusal(offer: Row, mode: str) -> str | None:
    """Why an agent does not take a mode, None if it does."""
    registration = offer["registration"]
    if registration.get("quarantine"):
        return f"in quarantine: {registration['quarantine']}"
    if mode == ANY_MODE or mode in registration.get("modes", ()):
        return None
    return str(registration.get("details", {}).get(f"{mode}_not_offered", "not offered"))
