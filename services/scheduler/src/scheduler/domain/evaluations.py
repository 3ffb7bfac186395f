"""Evaluations: their chunks are jobs, whose items end one by one, whatever happens to a run.

The items of a chunk end with the signed verdicts of its run, or without a verdict when its job is
given up or cancelled: each by exactly one event of the job. An evaluation ends with its last job.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice, takewhile
from typing import TypeAlias, assert_never

from msgspec import structs

from harness.vocabulary import VERDICTS
from scheduler.domain import queue
from scheduler.domain.match import Candidate, Need, find_able_agents, group_by_host, job_need
from scheduler.domain.state import (
    ATTEMPTS_MAX,
    Decision,
    Evaluation,
    Job,
    Pool,
    Run,
    SchedulerState,
    World,
    append_to_job,
    shared_fields,
)
from shared import events, subjects
from shared.evaluations import RESULTS_NAME, SOURCES_NAME
from shared.event_log import Append, RecordedEvent
from shared.events import HARNESS_CODE, Chunk, ChunkResult, RunOptions
from shared.subjects import chunk_job_id, history_of
from shared.verdicts import verify_verdict

CLASS = "evaluation"
# A chunk goes through more agents than one submission: an end without a verdict costs an attempt.
CHUNK_ATTEMPTS_MAX = 2 * ATTEMPTS_MAX
# A run may take so much longer than all of its items may.
STARTING_S_MAX = 60.0
# The codes of a run whose agent hung, and of one whose verdicts do not fit its order.
CHUNK_OVERDUE, BAD_CHUNK = "chunk_overdue", "bad_chunk"
STOPPED = "a person's submission needs the agent"
OVER = "its evaluation is over"
# An agent may write anything in its report.
DIGEST = re.compile(r"[0-9a-f]{64}\Z")


# The events that change evaluations or their runs themselves.
EvaluationFact: TypeAlias = (
    events.EvaluationRequested
    | events.EvaluationCancelRequested
    | events.EvaluationFinished
    | events.ChunkStopRequested
)


def apply_event(
    state: SchedulerState, event: RecordedEvent, fact: EvaluationFact, id_: str
) -> None:
    """Apply an event of an evaluation, or a request to stop one of its runs."""
    match fact:
        case events.EvaluationRequested():
            _receive_evaluation(state, event, fact, id_)
        case events.EvaluationCancelRequested():
            _cancel_evaluation(state, event, fact, id_)
        case events.EvaluationFinished():
            state.evaluations.pop(id_, None)
        case events.ChunkStopRequested():
            if (run := state.runs.get(fact.run)) is not None:
                run.is_stopping = True
        case _:
            assert_never(fact)


def _receive_evaluation(
    state: SchedulerState, event: RecordedEvent, fact: events.EvaluationRequested, id_: str
) -> None:
    """Add an evaluation and the jobs of its chunks, which wait from now on."""
    run_count = len(fact.sources) - len(fact.cached)
    evaluation = state.evaluations[id_] = Evaluation(
        version=event.seq,
        account=fact.account,
        item_s_max=fact.item_s_max,
        completed=len(fact.cached),
    )
    for first in range(0, run_count, max(1, fact.chunk_items)):
        count = min(fact.chunk_items, run_count - first)
        job = Job(
            id=chunk_job_id(id_, first),
            # The job's history is still empty, as its first lease expects.
            version=0,
            submission=id_,
            class_=CLASS,
            name=SOURCES_NAME,
            attempts_max=CHUNK_ATTEMPTS_MAX,
            queued_seq=event.seq,
            queued_at=event.envelope.at,
            options=RunOptions(**shared_fields(fact, RunOptions)),
            chunk=Chunk(evaluation=id_, first=first, count=count),
            **shared_fields(fact, Job),
        )
        state.jobs[job.id] = job
        evaluation.jobs.append(job.id)
        queue.enqueue_job(state.pool(job.gpu), job)


def _cancel_evaluation(
    state: SchedulerState, event: RecordedEvent, fact: events.EvaluationCancelRequested, id_: str
) -> None:
    evaluation = state.evaluations.get(id_)
    if evaluation is None:
        return
    evaluation.version, evaluation.cancel = event.seq, fact.reason or "cancelled"
    for job in map(state.jobs.__getitem__, evaluation.jobs):
        job.cancel = evaluation.cancel
        state.index_job(job)


def add_half(state: SchedulerState, job: Job) -> None:
    """Record the second half of a chunk that was split: the loss of an agent may be its fault."""
    assert job.chunk is not None, "only chunks are split"
    job.agents_lost = 1
    evaluation = state.evaluations.get(job.chunk.evaluation)
    if evaluation is None:
        job.cancel = OVER
        return
    evaluation.jobs.append(job.id)
    job.cancel = evaluation.cancel or ""


def continue_chunk(state: SchedulerState, job: Job, fact: events.JobRequeued) -> None:
    """Record with which items a chunk goes on, and which ones ended."""
    if fact.chunk is None or fact.chunk == job.chunk:
        return
    is_half = fact.result is None
    job.chunk, job.attempt, job.agents_lost = fact.chunk, 0, 1 if is_half else 0
    _count(state, job, completed=0 if fact.result is None else len(fact.result.verdicts))


def end_chunk(
    state: SchedulerState,
    job: Job,
    fact: events.JobFinished | events.JobGivenUp | events.JobCancelled,
) -> None:
    """Record that the last items of a chunk ended."""
    if job.chunk is None:
        return
    if isinstance(fact, events.JobFinished):
        _count(state, job, completed=job.chunk.count)
    elif isinstance(fact, events.JobGivenUp):
        _count(state, job, failed=job.chunk.count)
    else:
        _count(state, job, cancelled=job.chunk.count)
    evaluation = state.evaluations.get(job.chunk.evaluation)
    if evaluation is not None and job.id in evaluation.jobs:
        evaluation.jobs.remove(job.id)


def _count(
    state: SchedulerState, job: Job, *, completed: int = 0, failed: int = 0, cancelled: int = 0
) -> None:
    evaluation = state.evaluations.get(job.submission)
    if evaluation is not None:
        evaluation.completed += completed
        evaluation.failed += failed
        evaluation.cancelled += cancelled


def read_result(
    state: SchedulerState, event: RecordedEvent, run: Run, fact: events.RunCompleted, job: Job
) -> ChunkResult | None:
    """Return the items that a run ended; None unless its agent signed what fits the order."""
    chunk, ended, envelope = job.chunk, fact.chunk, event.envelope
    results = next((file.blob for file in fact.artefacts if file.name == RESULTS_NAME), None)
    if chunk is None or ended is None or results is None or envelope.sig is None:
        return None
    sign_key, aggregate = state.agent(run.agent).sign_key, history_of(envelope.aggregate)
    is_signed = verify_verdict(sign_key, aggregate, run.token, bytes(envelope.data), envelope.sig)
    is_known = DIGEST.match(results.digest) and set(ended.verdicts) <= set(VERDICTS)
    is_fitting = ended.first == chunk.first and 0 < len(ended.verdicts) <= chunk.count
    if not (is_signed and is_known and is_fitting):
        return None
    harness = fact.environment.get(HARNESS_CODE, "")
    held_s = (min(envelope.at, job.deadline_at) - run.assigned_at).total_seconds()
    return ChunkResult(
        evaluation=chunk.evaluation,
        first=chunk.first,
        verdicts=ended.verdicts,
        results=results,
        harness=harness if DIGEST.match(harness) else "",
        device_s=round(max(0.0, held_s), 3),
    )


def is_overdue(state: SchedulerState, job: Job, run: Run, world: World) -> bool:
    """Return whether the run of a chunk takes longer than all of its items may: it hangs."""
    if job.chunk is None or not run.has_begun:
        return False
    evaluation = state.evaluations.get(job.chunk.evaluation)
    item_s_max = evaluation.item_s_max if evaluation is not None else 0.0
    limit_s = job.chunk.count * item_s_max + STARTING_S_MAX
    return world.is_past(run.assigned_at + timedelta(seconds=limit_s))


def end_items(job: Job, run: Run, result: ChunkResult) -> Decision:
    """End the items with a verdict; the others of the chunk wait again."""
    chunk, ended = job.chunk, len(result.verdicts)
    assert chunk is not None, "it is the run of a chunk"
    if ended == chunk.count:
        finished = events.JobFinished(run=run.id, verdict=run.verdict, result=result)
        return (append_to_job(job, finished),)
    requeued = events.JobRequeued(
        run=run.id,
        reason="its run ended early",
        avoid_agents=job.avoid,
        chunk=structs.replace(chunk, first=chunk.first + ended, count=chunk.count - ended),
        result=result,
    )
    return (append_to_job(job, requeued),)


def split_chunk(job: Job, run: Run, requeued: events.JobRequeued) -> Decision:
    """Split a chunk whose agents died twice: its job keeps the first part, another gets the rest.

    The first part is a half; or one item, if the agent reported that it failed at the first item.
    So in the end only an item that kills agents is given up.
    """
    chunk = job.chunk
    assert chunk is not None, "it is the run of a chunk"
    count = 1 if run.end == "RunFailed" else chunk.count // 2
    second = structs.replace(chunk, first=chunk.first + count, count=chunk.count - count)
    queued = events.JobQueued(**shared_fields(job, events.JobQueued) | {"chunk": second})
    half = chunk_job_id(chunk.evaluation, second.first)
    return (
        append_to_job(job, structs.replace(requeued, chunk=structs.replace(chunk, count=count))),
        Append(subjects.job(half), queued, 0, half, chunk.evaluation),
    )


def finish_evaluations(state: SchedulerState) -> Iterator[Decision]:
    """End the evaluations that have no jobs left, and settle what they used of their budgets."""
    for id_, evaluation in state.evaluations.items():
        if evaluation.jobs:
            continue
        device_s = round(evaluation.device_s, 3)
        finished = events.EvaluationFinished(
            outcome="cancelled" if evaluation.cancelled else "completed",
            completed=evaluation.completed,
            failed=evaluation.failed,
            cancelled=evaluation.cancelled,
            device_s=device_s,
        )
        settled = events.DeviceTimeSettled(evaluation=id_, device_s=device_s)
        yield (
            Append(subjects.evaluation(id_), finished, evaluation.version, id_, id_),
            Append(subjects.budget(evaluation.account), settled, None, id_, id_),
        )


def gang_agents(state: SchedulerState, pool: Pool, alive: Sequence[Candidate]) -> tuple[str, ...]:
    """Return the agents that a gang of a person could use; they get no chunk while it waits."""
    names: dict[str, None] = {}
    for id_ in pool.gangs:
        job = state.jobs[id_]
        need = job_need(job)
        for host in group_by_host(find_able_agents(need, alive)) if job.is_awaited else ():
            if len(host) >= need.gpus:
                names |= dict.fromkeys(candidate.name for candidate in host)
    return tuple(names)


def leave_to_gangs(job: Job, need: Need, agents: tuple[str, ...]) -> Need:
    """Return what a job requires, without the agents that waiting gangs could use for a chunk."""
    return need if job.chunk is None else need._replace(excluded=(*need.excluded, *agents))


def stop_chunks(
    state: SchedulerState, alive: Mapping[str, Sequence[Candidate]]
) -> Iterator[Decision]:
    """Ask agents to end the run of a chunk after its current item, where people wait for them.

    The decision is the same until its event is folded, so it is made again if a scheduler dies.
    """
    for gpu, candidates in alive.items():
        pool = state.pools.get(gpu)
        if pool is None or pool.paused is not None:
            continue
        running: dict[str, list[Run]] = {}
        places = Counter({candidate.name: len(candidate.free_slots) for candidate in candidates})
        for run in _chunk_runs(state, candidates):
            if run.is_stopping:
                places[run.agent] += 1
            else:
                running.setdefault(run.agent, []).append(run)
        if running:
            yield from _stop_for_gangs(gang_agents(state, pool, candidates), running)
            yield from _stop_for_people(state, pool, candidates, running, places)


def _chunk_runs(state: SchedulerState, candidates: Sequence[Candidate]) -> Iterator[Run]:
    for candidate in candidates:
        for id_ in candidate.agent.runs:
            run = state.runs.get(id_)
            job = state.jobs.get(run.job) if run is not None and run.end is None else None
            if run is not None and job is not None and job.chunk is not None:
                yield run


def _stop_for_gangs(names: Sequence[str], running: dict[str, list[Run]]) -> Iterator[Decision]:
    """Free all slots of the agents that a gang could use."""
    for name in names:
        for run in running.pop(name, []):
            yield (_stop(run),)


def _stop_for_people(
    state: SchedulerState,
    pool: Pool,
    candidates: Sequence[Candidate],
    running: dict[str, list[Run]],
    places: Counter[str],
) -> Iterator[Decision]:
    """Free a slot for each waiting job; `places` are those that are free, or will be soon."""
    able_by_need: dict[Need, list[str]] = {}
    jobs = (job for job in awaited_jobs(state, pool) if job.requires.count == 1 and not job.cancel)
    for job in islice(jobs, sum(candidate.slot_count for candidate in candidates)):
        need = job_need(job)
        if need not in able_by_need:
            able_by_need[need] = [able.name for able in find_able_agents(need, candidates)]
        able = able_by_need[need]
        if (name := next((name for name in able if places[name]), None)) is not None:
            places[name] -= 1
        elif (name := next((name for name in able if running.get(name)), None)) is not None:
            yield (_stop(running[name].pop()),)


def _stop(run: Run) -> Append:
    fact = events.ChunkStopRequested(run=run.id, reason=STOPPED)
    return Append(subjects.stop(run.agent), fact, None, run.id, run.job)


def awaited_jobs(state: SchedulerState, pool: Pool) -> Iterator[Job]:
    """Yield the waiting jobs whose result a person awaits; a lane has none or only such ones."""
    for lane in pool.lanes.values():
        for waiting in lane.waiting.values():
            jobs = (state.jobs[id_] for _, id_ in waiting)
            yield from takewhile(lambda job: job.is_awaited, jobs)
