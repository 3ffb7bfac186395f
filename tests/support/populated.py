"""A platform with a history: many problems, versions, submissions, decisions and withdrawals.

Every event is written into a log as the services would; times are drawn, always the same ones.
"""

import gzip
import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from msgspec import structs

from shared import events, subjects
from shared.blobs import BlobStore, describe_blob
from shared.event_log import EventLog, NewEvent
from shared.events import Blob, CaseResult, Fact
from shared.subjects import derive_id, job_id_of
from shared.wire import EventMetadata, make_envelope
from tests.support.lives import AGENT, BLOB, RUN_KEY, T0, problem
from tests.support.writers import written

GPUS = ("CPU", "H100")
CLOSED, NEVER, FREE = "closed-one", "never-shown", "free-one"
ACCOUNTS = 60
BATCH = 500
CASE = "size: 1024; seed: 7"


class Step(NamedTuple):
    """A fact, and the submission that it belongs to."""

    aggregate: str
    fact: Fact
    corr: str = ""


@dataclass
class Population:
    """How much of everything there is, and what people write into it."""

    problems: list[str]
    submissions: int
    texts: list[str] = field(default_factory=list)
    account_names: list[str] = field(default_factory=list)
    seed: int = 1
    # The ranked submissions of each leaderboard, as they are written.
    ranked: dict[tuple[str, str, int], list[tuple[str, str, Blob]]] = field(default_factory=dict)

    def account(self, number: int) -> str:
        """The id of an account."""
        return derive_id(f"account/{number}", "account")

    def text(self, number: int) -> str:
        """What somebody writes; without texts, something plain."""
        return self.texts[number % len(self.texts)] if self.texts else "fast"

    def source(self, number: int) -> bytes:
        """The source of a submission; every seventh is a copy of an earlier one."""
        base = number - number % 7 if number % 7 == 3 else number
        return (
            f'"""Kernel {base}: {self.text(base)}."""\n'
            f"def custom_kernel(data):\n    # {self.text(base + 1)}\n    return data + {base}\n"
        ).encode()


async def populate(log: EventLog, blobs: BlobStore, population: Population) -> None:
    """Write the whole history into a log and a store."""
    versions: dict[str, int] = {}
    enrolled = Step(subjects.agent(AGENT), _enrolled())
    for number in range(population.submissions):
        await blobs.put(population.source(number))
    await blobs.put(samples())
    steps = iter([enrolled, *_history(population)])
    while batch := list(islice(steps, BATCH)):
        await _append(log, batch, versions)


def _enrolled() -> events.AgentEnrolled:
    return events.AgentEnrolled(sign_key="a2V5", owner="test")


async def _append(log: EventLog, steps: list[Step], versions: dict[str, int]) -> None:
    """Store a batch; its first event names the version of its history, as a batch needs."""
    last, new = await log.last(), list[NewEvent]()
    for place, (wanted, fact, corr) in enumerate(steps):
        seq = last + place + 1
        aggregate, actor = written(wanted, fact)
        at = T0 + timedelta(seconds=seq)
        stamp = EventMetadata(derive_id(str(seq), "event"), at, actor, corr, "")
        history = subjects.history_of(aggregate)
        expected = None if new else versions.get(history, 0)
        versions[history] = seq
        new.append(NewEvent(make_envelope(fact, aggregate, stamp), expected))
    await (log.append_all(new) if len(new) > 1 else log.append(new[0]))


def _history(population: Population) -> Iterator[Step]:
    dice = random.Random(population.seed)
    problems = [*population.problems, CLOSED, NEVER, FREE]
    for slug in problems:
        yield _version(population, slug, 1)
    closing = events.LeaderboardChanged(visibility="closed", reason=population.text(0))
    yield Step(subjects.problem(CLOSED), closing)
    # Two of five accounts choose a licence.
    for account in (number for number in range(ACCOUNTS) if number % 5 < 2):
        value = "default" if account % 5 else "MIT" if account else "none"
        licence = events.PreferenceSet(preference="licence", value=value)
        yield Step(subjects.account(population.account(account)), licence)
    third = population.submissions // 3
    for number in range(population.submissions):
        if number and number % third == 0:
            for slug in population.problems:
                yield _version(population, slug, 1 + number // third)
        yield from _life(population, problems, dice, number, 1 + min(number // third, 2))
        yield from _decisions(population, dice, number)
        if number % 50 == 49:
            yield from _repetitions(population, dice, number)
    over = events.LeaderboardChanged(
        visibility=None, has_deadline=True, deadline_at=T0, reason=population.text(1)
    )
    for slug in population.problems[::2]:
        yield Step(subjects.problem(slug), over)


def _version(population: Population, slug: str, number: int) -> Step:
    publish = "never" if slug == NEVER else "always" if slug == FREE else "after_close"
    baselines = [
        events.Baseline(name=name, file=f"{name}.py", source=BLOB) for name in ("eager", "compile")
    ]
    fact = structs.replace(
        problem(number),
        digest=hashlib.sha256(f"{slug}/{number}".encode()).hexdigest(),
        title=f"{slug} of {population.text(number)}",
        gpus=list(GPUS),
        publish=publish,
        source_visible="always" if publish == "always" else "after_close",
        baselines=baselines,
    )
    return Step(subjects.problem(slug), fact)


def submission_id(number: int) -> str:
    """The id of a submission."""
    return derive_id(f"submission/{number}", "submission")


def _life(
    population: Population, problems: list[str], dice: random.Random, number: int, version: int
) -> Iterator[Step]:
    id_ = submission_id(number)
    slug, gpu = problems[dice.randrange(len(problems))], dice.choice(GPUS)
    version = version if slug in population.problems else 1
    source = describe_blob(population.source(number))
    account, baseline = population.account(dice.randrange(ACCOUNTS)), ""
    if number % 29 == 5:
        account, baseline = subjects.BASELINE_ACCOUNT, ("eager", "compile")[number % 2]
    received = events.SubmissionReceived(
        account=account,
        problem=slug,
        problem_number=version,
        problem_digest="d" * 64,
        gpu=gpu,
        mode="test" if number % 13 == 1 else "ranked",
        source=source,
        name=f"{population.text(number)}.py",
        deadline_at=T0,
        via="http",
        baseline=baseline,
        licence="CC0-1.0" if number % 11 == 2 else "none" if number % 17 == 4 else "",
    )
    yield Step(subjects.submission(id_), received, id_)
    job, run = job_id_of(id_), derive_id(id_, "run")
    leased = events.JobLeased(run=run, agent=AGENT, attempt=1, lease_until_at=T0)
    yield Step(subjects.job(job), leased, id_)
    aggregate = subjects.run(AGENT, run)
    yield Step(aggregate, _assigned(id_, job, slug, source), id_)
    started = events.RunStarted(
        fingerprint="f", harness="1", level="strong", tier="C1", key_commit="0" * 64
    )
    yield Step(aggregate, started, id_)
    end, completed = _results(population, dice, number, job, run, is_baseline=bool(baseline))
    if received.mode == "test":
        end = structs.replace(end, is_eligible=False, code="mode_not_ranked", score_us=None)
    yield Step(aggregate, completed, id_)
    yield Step(subjects.submission(id_), end, id_)
    if end.is_eligible:
        population.ranked.setdefault((slug, gpu, version), []).append((id_, account, source))


def _assigned(id_: str, job: str, slug: str, source: Blob) -> events.JobAssigned:
    return events.JobAssigned(
        job=job,
        submission=id_,
        attempt=1,
        problem=slug,
        problem_digest="d" * 64,
        source=source,
        name="kernel.py",
        gpu="CPU",
        mode="ranked",
        session="s1",
        lease_until_at=T0,
        deadline_at=T0,
    )


def _results(
    population: Population,
    dice: random.Random,
    number: int,
    job: str,
    run: str,
    *,
    is_baseline: bool,
) -> tuple[events.SubmissionFinished, events.RunCompleted]:
    score_us = round(dice.uniform(50, 200), 3)
    process_us = [score_us * dice.uniform(0.99, 1.01) for _ in range(6)]
    is_wrong, is_held = number % 10 == 7, number % 23 == 9
    verdict = "wrong_answer" if is_wrong else "suspicious" if is_held else "passed"
    is_passed = verdict == "passed"
    case = CaseResult(
        name=CASE,
        stage="time",
        verdict=verdict,
        message=population.text(number),
        time_us=score_us,
        interval_us=(score_us * 0.99, score_us * 1.01),
        samples=100,
        process_us=process_us,
        error=0.002,
        freedom=22,
        grade="noisy" if number % 19 == 3 else "ok",
        yardstick_us=150.0,
    )
    hidden = CaseResult(
        name=f"secret {population.text(number)}", stage="check", verdict="passed", is_hidden=True
    )
    completed = events.RunCompleted(
        verdict=verdict,
        stage="time",
        reason=population.text(number),
        cases=[case, hidden],
        took_s=1.0,
        key=RUN_KEY,
        environment={
            "torch": "2.13.0",
            "cpu": "a processor",
            "gpu_uuid": "GPU-11111111-2222-3333-4444-555555555555",
            "platform": population.text(number),
            "harness_code": "c" * 64,
        },
        log_head=population.text(number),
        samples=describe_blob(samples()),
    )
    scored = is_passed and not is_baseline
    end = events.SubmissionFinished(
        outcome="passed" if is_passed else "failed",
        is_eligible=scored,
        code="baseline" if is_baseline else "ranked" if is_passed else "suspicious",
        reason=population.text(number),
        job=job,
        run=run,
        verdict=verdict,
        score_us=score_us if is_passed else None,
        interval_us=(score_us * 0.99, score_us * 1.01) if is_passed else None,
        process_us=process_us if is_passed else [],
        error=0.002,
        freedom=22,
        sigma_run=0.001,
        delta=0.02,
        grade=case.grade,
        is_held=is_held,
        yardstick_us=150.0,
    )
    return end, completed


def samples() -> bytes:
    """The samples of a run: two processes of one case, and a hidden case."""
    pair = {"A": {"time_us": [1.5, 1.25]}, "B": {"time_us": [2.0]}}
    case = {"processes": [{"pairs": [pair]}, {"pairs": [pair]}]}
    document = {"version": 2, "unit": "us", "cases": {CASE: case}}
    return gzip.compress(json.dumps(document).encode(), mtime=0)


def _decisions(population: Population, dice: random.Random, number: int) -> Iterator[Step]:
    """What operators and participants decide on an earlier submission, now and then."""
    if number < 20 or number % 6:
        return
    id_ = submission_id(dice.randrange(number))
    moderation, text = subjects.moderation(id_), population.text(number)
    account = subjects.account(population.account(dice.randrange(ACCOUNTS)))
    facts: list[tuple[str, Fact]] = [
        (moderation, events.SubmissionHeld(rule="copied", reason=text)),
        (moderation, events.SubmissionReleased(reason=text)),
        (moderation, events.SubmissionDisqualified(rule=text, reason=text)),
        (moderation, events.SubmissionRestored(reason=text)),
        (moderation, events.SubmissionWithdrawn(reason=text)),
        (account, events.AccountBanned(reason=text, until_at=None)),
        (account, events.AccountUnbanned(reason=text)),
        (moderation, events.AppealFiled(text=BLOB)),
        (moderation, events.AppealDecided(reason=text, is_accepted=True)),
    ]
    aggregate, fact = facts[(number // 6) % len(facts)]
    yield Step(aggregate, fact, id_)


def _repetitions(population: Population, dice: random.Random, number: int) -> Iterator[Step]:
    """A duel, a rejudge and a fixed yardstick, on the fullest leaderboard."""
    (slug, gpu, version), entries = max(population.ranked.items(), key=lambda item: len(item[1]))
    (first, second), text = dice.sample(entries, 2), population.text(number)
    board: dict[str, Any] = {"problem": slug, "problem_number": version, "gpu": gpu}
    sides = [
        events.DuelSide(submission=id_, number=1, account=account, source=source, name=text)
        for id_, account, source in (first, second)
    ]
    duel = subjects.duel(derive_id(str(number), "duel"))
    requested = events.DuelRequested(
        **board, problem_digest="d" * 64, first=sides[0], second=sides[1], reason=text
    )
    result = events.DuelResult(winner="A", ratio=0.9, interval=(0.89, 0.91), pairs=9)
    yield Step(duel, requested)
    yield Step(duel, events.DuelJudged(**board, run="r", result=result, reason=text))
    items = [
        events.RejudgeItem(submission=id_, account=account, gpu=gpu, source=source, name=text)
        for id_, account, source in (first, second)
    ]
    rejudge = subjects.rejudge(derive_id(str(number), "rejudge"))
    wanted = events.RejudgeRequested(
        problem=slug,
        from_number=version,
        to_number=version,
        to_digest="d" * 64,
        select="retime",
        items=items,
        reason=text,
    )
    yield Step(rejudge, wanted)
    for id_, _, _ in (second, first):
        run = derive_id(f"{number}/{id_}", "run")
        end, _ = _results(population, dice, 2, job_id_of(id_), run, is_baseline=False)
        yield Step(rejudge, events.RejudgeJudged(submission=id_, result=end))
    kind = events.RejudgeApplied if number % 100 == 49 else events.RejudgeDiscarded
    yield Step(rejudge, kind(reason=text))
    restated = events.RestatedScore(
        submission=first[0],
        run=derive_id(first[0], "run"),
        score_us=77.5,
        yardstick_us=150.0,
        interval_us=(77.0, 78.0),
        process_us=[77.4, 77.6],
        error=0.001,
        freedom=11,
        delta=0.02,
    )
    yardstick = subjects.yardstick(slug, gpu, version)
    fixed = events.YardstickFixed(
        **board, problem_digest="d" * 64, times_us={CASE: 150.0}, runs=[], restated=[restated]
    )
    if number % 100 == 99:
        yield Step(yardstick, fixed)
