"""Requests checks, reads how far they are, and publishes what was checked."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal

import msgspec
from msgspec import structs

from harness.vocabulary import CPU_TYPE
from ingest.checks import rules
from ingest.decisions import DECISIONS_MAX, Decisions, back_off
from ingest.ports import Ports
from ingest.problems.commands import Check, Publication
from ingest.problems.rules import JSON, check_slug
from ingest.problems.service import Problems
from shared import events, subjects
from shared.api.problems import CheckProgress, ProblemCheck, PublishedVersion
from shared.api.submissions import Progress
from shared.bus import Bus
from shared.checks.examination import check_progress
from shared.checks.problem_files import split_solutions
from shared.checks.request import REPORT_NAME, CheckRequest, encode_request
from shared.errors import Failed, Refused
from shared.event_log import Conflict, RecordedEvent
from shared.problems.compilation import ProblemVersion, compile_problem
from shared.problems.report import read_report
from shared.problems.warpboard_yml import apply_settings
from shared.verdicts import verify_verdict
from shared.wire import is_genuine

REMEMBERED_MAX = 1000
# Every agent that takes tests takes checks.
TEST_MODE = "test"


@dataclass
class LiveProgress:
    """The newest progress of each check, as its agent reports it; it is not stored."""

    newest: dict[str, tuple[str, Progress]] = field(default_factory=dict)

    async def watch(self, bus: Bus) -> None:
        """Follow progress messages for ever."""
        async for topic, data in bus.hear("progress.>"):
            _, agent, id_ = topic.split(".")
            try:
                progress = msgspec.json.decode(data, type=Progress)
            except ValueError:
                continue  # An agent may write anything there.
            self.newest.pop(id_, None)
            self.newest[id_] = agent, progress
            if len(self.newest) > REMEMBERED_MAX:
                del self.newest[next(iter(self.newest))]

    def find(self, id_: str, agent: str) -> CheckProgress | None:
        """Return the progress that this agent reported on a check."""
        reporter, progress = self.newest.get(id_, ("", None))
        if progress is None or reporter != agent:
            return None
        text = check_progress(progress, "").estimate.removeprefix(": ")
        return CheckProgress(text=text, done=progress.done, total=progress.total)


@dataclass(frozen=True)
class Checks:
    """The checks of authors; each author sees their own."""

    ports: Ports
    decisions: Decisions
    problems: Problems
    progress: LiveProgress = field(default_factory=LiveProgress)

    async def request(
        self, publication: Publication, gpu: str | None, account: str, actor: str
    ) -> ProblemCheck:
        """Ask for a check of these files on an agent of a GPU type, by default one with agents.

        Raises `Refused` for files that do not compile, and for too many open checks; `Failed`.
        """
        check_slug(publication.slug)
        version, files = await asyncio.to_thread(_compile, publication)
        gpus = list(publication.change.gpus or version.gpus)
        chosen = await self._choose_gpu(gpu, gpus)
        put = self.ports.blobs.put
        stored = {name: await put(data) for name, data in files.items()}
        digests = {name: blob.digest for name, blob in stored.items()}
        request = CheckRequest(version.slug, version.digest, gpus, digests)
        requested = events.ProblemCheckRequested(
            check="",
            account=account,
            problem=version.slug,
            problem_digest=version.digest,
            gpu=chosen,
            gpus=gpus,
            files=stored,
            request=await put(encode_request(request), JSON),
            deadline_at=rules.deadline(self.ports.clock()),
            requires=version.requires,
        )
        id_ = await self._record(requested, actor)
        check = await self.find(id_, account)
        return structs.replace(check, warnings=list(version.warnings))

    async def _record(self, requested: events.ProblemCheckRequested, actor: str) -> str:
        """Append the request, unless there is the same one, or too many are open; return its id."""
        aggregate = subjects.check(requested.account)
        for attempt in range(DECISIONS_MAX):
            history = await self.ports.log.history(aggregate)
            if (same := await self._find_same(history, requested)) is not None:
                return same
            rules.check_open(await self._count_open(history))
            number = history[-1].seq if history else 0
            id_ = subjects.derive_id(f"{requested.account}/{number}", "check")
            try:
                fact = structs.replace(requested, check=id_)
                await self.decisions.record(aggregate, fact, actor, number)
            except Conflict:
                await back_off(attempt)
                continue
            return id_
        raise Failed("your checks changed too often during the request: try again")

    async def find(self, id_: str, account: str) -> ProblemCheck:
        """Return a check of this author. Raises `Refused` (`unknown_check`) and `Failed`."""
        recorded, requested = await self._find(id_, account)
        return (await self._read(recorded, requested))[0]

    async def publish(
        self, id_: str, account: str, publication: Publication, actor: str
    ) -> PublishedVersion:
        """Publish what was checked, with the report that the agent signed.

        `publication` has the settings; the files are those of the check. Raises `Refused` and
        `Failed`.
        """
        recorded, requested = await self._find(id_, account)
        check, report = await self._read(recorded, requested)
        if report is None or check.state != "clean":
            raise Refused("check_failed", check.text, "check")
        files = {
            name: await self.ports.blobs.get(blob.digest) for name, blob in requested.files.items()
        }
        own, _ = split_solutions(requested.problem, files)
        checked = replace(
            publication,
            slug=requested.problem,
            files=own,
            check=Check(report),
            change=replace(publication.change, gpus=tuple(requested.gpus)),
        )
        return await self.problems.publish(checked, actor)

    async def _find(
        self, id_: str, account: str
    ) -> tuple[RecordedEvent, events.ProblemCheckRequested]:
        for event in await self.ports.log.history(subjects.check(account)):
            fact = event.fact
            if isinstance(fact, events.ProblemCheckRequested) and fact.check == id_:
                return event, fact
        raise Refused("unknown_check", f"you have no check {id_!r}", "check")

    async def _find_same(
        self, history: Sequence[RecordedEvent], requested: events.ProblemCheckRequested
    ) -> str | None:
        """Return a check of the same version that is open or found no error, None without one."""
        at = self.ports.clock()
        for event in reversed(history):
            fact = event.fact
            if not isinstance(fact, events.ProblemCheckRequested):
                continue
            # The request names slug, version, GPU types and files.
            if fact.request != requested.request or fact.gpu != requested.gpu:
                continue
            is_kept = event.envelope.at + timedelta(seconds=rules.KEPT_S) > at
            if is_kept and (await self._read(event, fact))[0].state not in ("refused", "failed"):
                return fact.check
        return None

    async def _count_open(self, history: Sequence[RecordedEvent]) -> int:
        at, open_count = self.ports.clock(), 0
        for event in history:
            fact = event.fact
            if not isinstance(fact, events.ProblemCheckRequested):
                continue
            if fact.deadline_at + timedelta(seconds=rules.ENDED_AFTER_S) > at:
                open_count += not (await self._job(fact.check)).is_over
        return open_count

    async def _job(self, id_: str) -> rules.CheckJob:
        history = await self.ports.log.history(subjects.job(subjects.job_id_of(id_)))
        return rules.fold_job(history)

    async def _read(
        self, recorded: RecordedEvent, requested: events.ProblemCheckRequested
    ) -> tuple[ProblemCheck, bytes | None]:
        """Return how far a check is, and its report if it has one."""
        job = await self._job(requested.check)
        check = ProblemCheck(
            id=requested.check,
            slug=requested.problem,
            digest=requested.problem_digest,
            gpu=requested.gpu,
            gpus=requested.gpus,
            state="queued",
            text="",
            requested_at=recorded.envelope.at,
            deadline_at=requested.deadline_at,
        )
        if job.is_over:
            return await self._read_end(check, job)
        if job.is_queued:
            why = await self._why_no_agent(requested.gpu)
            text = rules.waiting_text(requested.gpu, why, requested.deadline_at)
            return structs.replace(check, text=text), None
        history = await self.ports.log.history(subjects.run(job.agent, job.run))
        has_begun = any(isinstance(event.fact, events.RunStarted) for event in history)
        progress = self.progress.find(check.id, job.agent)
        text = f"checking: {progress.text}" if progress else f"checking on agent {job.agent}"
        state: Literal["assigned", "running"] = "running" if has_begun else "assigned"
        return structs.replace(check, state=state, text=text, progress=progress), None

    async def _read_end(
        self, check: ProblemCheck, job: rules.CheckJob
    ) -> tuple[ProblemCheck, bytes | None]:
        if job.reason:
            text = f"{job.reason}. Nothing was found out about the problem: send it again"
            return structs.replace(check, state="failed", text=text), None
        aggregate = subjects.run(job.agent, job.run)
        history = await self.ports.log.history(aggregate)
        key = rules.sign_key(await self.ports.log.history(subjects.agent(job.agent)))
        blob = _report_blob(history, aggregate, check.digest, key)
        if blob is None:
            text = f"agent {job.agent} did not sign the report of this version: check it again"
            return structs.replace(check, state="failed", text=text), None
        report = await self.ports.blobs.get(blob.digest)
        return rules.with_report(check, read_report(report)), report

    async def _why_no_agent(self, gpu: str) -> str | None:
        """Return why no agent takes a check on this GPU type, None if one may."""
        try:
            queue = await self.ports.lookups.queue(gpu, TEST_MODE)
        except Failed:
            return None  # Only the text is poorer.
        if queue is None:
            return f"no agent of {gpu} is alive"
        return None if queue.state == "queued" else queue.reason

    async def _choose_gpu(self, gpu: str | None, gpus: Sequence[str]) -> str:
        """Return the GPU type to check on. Raises `Refused` for one that is not among them."""
        spellings = {name.lower(): name for name in gpus}
        if gpu is not None:
            if gpu.lower() not in spellings:
                message = f"{gpu} is none of the leaderboards' GPU types {', '.join(gpus)}"
                raise Refused("unknown_gpu", message, "check_on")
            return spellings[gpu.lower()]
        # What runs on the processor may still not run on a GPU, which has other limits.
        by_device = sorted(gpus, key=lambda name: name == CPU_TYPE)
        for name in by_device:
            if await self._why_no_agent(name) is None:
                return name
        return by_device[0]


def _compile(publication: Publication) -> tuple[ProblemVersion, Mapping[str, bytes]]:
    """Compile the files with their settings; also return them, together with the solutions."""
    own, _ = split_solutions(publication.slug, publication.files)
    solutions = {name: data for name, data in publication.files.items() if name not in own}
    own = apply_settings(own, publication.settings)
    version = compile_problem(publication.slug, own, publication.change.gpus or ())
    return version, {**own, **solutions}


def _report_blob(
    history: Sequence[RecordedEvent], aggregate: str, digest: str, key: str | None
) -> events.Blob | None:
    """Return the report that an agent signed for this version; None without a valid signature.

    `history` is that of the run: the order, and what its agent reported.
    """
    orders = [event for event in history if isinstance(event.fact, events.JobAssigned)]
    ends = [event for event in history if isinstance(event.fact, events.RunCompleted)]
    if key is None or not orders or not ends or not is_genuine(ends[0].envelope):
        return None
    order, completed = orders[0], ends[0]
    envelope, fact = completed.envelope, completed.fact
    assert isinstance(order.fact, events.JobAssigned)
    assert isinstance(fact, events.RunCompleted)
    is_signed = envelope.sig is not None and verify_verdict(
        key, aggregate, order.seq, bytes(envelope.data), envelope.sig
    )
    if not is_signed or order.fact.problem_digest != digest:
        return None
    return next((file.blob for file in fact.artefacts if file.name == REPORT_NAME), None)
