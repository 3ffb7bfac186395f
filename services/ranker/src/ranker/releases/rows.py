"""The rows of a release: folds the log, and yields what each event adds to the data set."""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from harness.vocabulary import GRADES, LEVELS, TIERS
from ranker.domain.goals import BELOW_FLOOR, POLICY_REVIEW
from ranker.domain.near_copies import SignedSource
from ranker.domain.rows import RANKED
from ranker.releases.index import Index, KnownSource, KnownSubmission
from ranker.releases.lineage import LineageRequest
from ranker.releases.publication import Publication, is_baseline
from ranker.releases.tables import SPLITS, TABLES
from shared import events, subjects
from shared.event_log import RecordedEvent
from shared.licences import Licence
from shared.problems.submission_file import language_of
from shared.pseudonyms import pseudonym
from shared.redaction import Redactor
from shared.subjects import last_token
from shared.wire import is_genuine

Row = dict[str, Any]
RECENT_LEASES_MAX = 50_000
SLUGS_MAX = 10_000
# An agent writes these words; others than ours are not passed on.
WORD = re.compile(r"[a-z][a-z0-9_]{0,40}\Z")
RULE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
TEXT_LENGTH_MAX = 200
OTHER, PRECISION = "other", "precision"
# What the end of a submission says of it, beside its verdict.
LABELS = {
    "suspicious": "suspected_cheat",
    "policy": "policy_violation",
    POLICY_REVIEW: "policy_doubt",
    BELOW_FLOOR: "impossible_time",
}
MODERATION = {
    events.SubmissionHeld: "held",
    events.SubmissionReleased: "released",
    events.SubmissionDisqualified: "disqualified",
    events.SubmissionRestored: "restored",
}
# How runs without a verdict end.
ENDS = {
    events.RunFailed: "failed",
    events.JobExpired: "expired",
    events.RunCancelled: "cancelled",
}
# Of a run's environment; the serial numbers of devices and the host's own names are not among them.
ENVIRONMENT = tuple(column.name for column in TABLES["environments"].columns[1:])
REDUCED = re.compile(
    r"(?i)\b(?:float16|bfloat16|half2?|__half\w*|tf32|allow_tf32|float8\w*|fp8\w*)\b"
)
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint32")


class Emitted(NamedTuple):
    """A row of a table, in the part of this split."""

    table: str
    split: str
    row: Row


class SourceRequest(NamedTuple):
    """A source that joins the data set: the blob, and the row without its code."""

    blob: events.Blob
    split: str
    row: Row
    precision: Row


class SamplesRequest(NamedTuple):
    """The blob with the samples of a run; `hidden` names its hidden cases."""

    blob: events.Blob
    split: str
    row: Row
    hidden: frozenset[str]


@dataclass
class _Job:
    submission: str
    kind: str


@dataclass
class _Run:
    number: int
    submission: str
    kind: str
    attempt: int
    level: str = ""
    tier: str = ""


@dataclass
class _Rejudge:
    to_number: int
    results: dict[str, events.SubmissionFinished] = field(default_factory=dict)


@lru_cache(SLUGS_MAX)
def family_of(slug: str) -> str:
    """Return the family of a problem: its name without the set that it is of, and without sizes.

    >>> family_of("kernelbench-1-19-relu"), family_of("softmax-v2"), family_of("matmul-4096")
    ('relu', 'softmax', 'matmul')
    """
    name = re.sub(r"^[a-z]+bench-\d+-\d+-", "", slug)
    return re.sub(r"(?:-(?:v?\d+|small|large|easy|hard))+$", "", name) or slug


@lru_cache(SLUGS_MAX)
def split_of(family: str) -> str:
    """Return the split of a family: eight of ten in train, one each in validation and test.

    >>> split_of("softmax"), split_of("softmax") == split_of("softmax")
    ('train', True)
    """
    draw = hashlib.sha256(f"split/{family}".encode()).digest()[0] % 10
    return SPLITS[max(0, draw - 7)]


class Publications(NamedTuple):
    """What may be published at this release and at the previous one, and the latter's last event.

    Before the first release, nothing was shown.
    """

    now: Publication
    before: Publication | None
    after: int


class Privacy(NamedTuple):
    """The key of the pseudonyms, and what replaces personal data in texts."""

    key: bytes
    redactor: Redactor


class RowFold:
    """Folds every event up to a release, and returns the rows that the release adds."""

    def __init__(self, index: Index, publications: Publications, privacy: Privacy) -> None:
        self.index, (self.now, self.before, self.after) = index, publications
        self.key, self.redactor = privacy
        # The numbers of submissions that were in the previous release and left.
        self.removed: set[int] = set()
        self.sources: list[SourceRequest] = []
        self.samples: list[SamplesRequest] = []
        self.lineage: list[LineageRequest] = []
        # The numbers of submissions whose source left.
        self.sources_removed: set[int] = set()
        self._jobs: dict[str, _Job] = {}
        self._leases: OrderedDict[str, tuple[str, str, int]] = OrderedDict()
        self._runs: dict[str, _Run] = {}
        self._rejudges: dict[str, _Rejudge] = {}
        self._duels: dict[str, events.DuelRequested] = {}
        self._environments: set[str] = set()
        self._folds: dict[type, Callable[[RecordedEvent, Any, str], Iterator[Emitted]]] = {
            events.ProblemPublished: self._published,
            events.SubmissionReceived: self._received,
            events.SubmissionFinished: self._finished,
            events.JobQueued: self._queued,
            events.JobLeased: self._leased,
            events.JobFinished: self._job_ended,
            events.JobGivenUp: self._job_ended,
            events.JobCancelled: self._job_ended,
            events.JobAssigned: self._assigned,
            events.RunStarted: self._started,
            events.RunCompleted: self._completed,
            events.YardstickFixed: self._yardstick_fixed,
            events.RejudgeRequested: self._rejudge_requested,
            events.RejudgeJudged: self._rejudge_judged,
            events.RejudgeApplied: self._rejudge_applied,
            events.RejudgeDiscarded: self._rejudge_discarded,
            events.DuelRequested: self._duel_requested,
            events.DuelJudged: self._duel_judged,
            events.AppealDecided: self._appeal_decided,
            events.AccountBanned: self._ban_changed,
            events.AccountUnbanned: self._ban_changed,
            events.AccountMerged: self._merge_changed,
            events.MergeUndone: self._merge_changed,
            **dict.fromkeys(ENDS, self._run_ended),
            **dict.fromkeys(MODERATION, self._moderated),
        }
        self.types = frozenset(kind.__name__ for kind in self._folds)

    def fold(self, event: RecordedEvent) -> Iterator[Emitted]:
        """Yield the rows that the next event adds."""
        if event.envelope.type not in self.types or not is_genuine(event.envelope):
            return
        try:
            fact = event.fact
        except msgspec.MsgspecError:
            return  # An agent's; every reader ignores it.
        yield from self._folds[type(fact)](event, fact, last_token(event.envelope.aggregate))

    def _joins(self, seq: int, known: KnownSubmission | None) -> bool:
        """Whether the rows of an event join the data set with this release."""
        if known is None or known.baseline or not known.is_shown:
            return False
        return seq > self.after or not known.was_shown

    def _joins_problem(self, seq: int, slug: str) -> bool:
        is_shown = self.now.shows_problem(slug)
        was_shown = self.before is not None and self.before.shows_problem(slug)
        return is_shown and (seq > self.after or not was_shown)

    def _pseudonym(self, account: str) -> str:
        return pseudonym(self.key, account)

    def _published(
        self, event: RecordedEvent, fact: events.ProblemPublished, slug: str
    ) -> Iterator[Emitted]:
        if not self._joins_problem(event.seq, slug):
            return
        family, at = family_of(slug), event.envelope.at
        split = split_of(family)
        if fact.number == 1:
            row = {"problem": slug, "seq": event.seq, "at": at, "family": family, "split": split}
            yield Emitted("problems", split, row)
        yield Emitted(
            "versions",
            split,
            {
                "problem": slug,
                "version": fact.number,
                "seq": event.seq,
                "at": at,
                "title": self.redactor.line(fact.title)[:TEXT_LENGTH_MAX],
                "digest": fact.digest,
                "gpus": fact.gpus,
                "languages": fact.languages or ["python"],
                "ranking_by": fact.ranking_by,
                "publish": fact.publish,
                "precision": fact.roofs[0].dtype if fact.roofs else None,
            },
        )

    def _received(
        self, event: RecordedEvent, fact: events.SubmissionReceived, id_: str
    ) -> Iterator[Emitted]:
        baseline = (fact.baseline or "platform") if is_baseline(fact) else ""
        is_shown = self.now.shows_submission(id_, fact)
        was_shown = (
            event.seq <= self.after
            and self.before is not None
            and self.before.shows_submission(id_, fact)
        )
        known = KnownSubmission(
            event.seq,
            *(fact.problem, fact.problem_number, fact.gpu, fact.account, baseline),
            *(is_shown, was_shown),
        )
        self.index.add_submission(id_, known)
        if baseline:
            return
        split = split_of(family_of(fact.problem))
        if was_shown and not is_shown:
            self.removed.add(event.seq)
        yield from self._depart(event, fact, id_, split)
        if self._joins(event.seq, known):
            yield Emitted("submissions", split, self._submission_row(event, fact))
        self._request_source(event, fact, id_, split)

    def _submission_row(self, event: RecordedEvent, fact: events.SubmissionReceived) -> Row:
        return {
            "number": event.seq,
            "problem": fact.problem,
            "version": fact.problem_number,
            "gpu": fact.gpu,
            "participant": self._pseudonym(fact.account),
            "at": event.envelope.at,
            "language": language_of(fact.name),
            "source_group": self._group(fact.pooling_digest),
            "source_bytes": fact.source.bytes,
        }

    def _group(self, digest: str) -> str:
        return pseudonym(self.key, f"source/{digest}").replace("p-", "s-", 1)

    def _depart(
        self, event: RecordedEvent, fact: events.SubmissionReceived, id_: str, split: str
    ) -> Iterator[Emitted]:
        """Yield the tombstone of a submission that left, once."""
        departure = self._departure(self.now, id_, fact)
        known = self.before and event.seq <= self.after
        earlier = self._departure(self.before, id_, fact) if known and self.before else None
        if departure is not None and earlier is None:
            row = {"submission": event.seq, "seq": departure.seq, "at": departure.at}
            if not departure.seq:
                row |= {"seq": event.seq, "at": event.envelope.at}
            yield Emitted("tombstones", split, row | {"reason": departure.reason})

    @staticmethod
    def _departure(publication: Publication, id_: str, fact: events.SubmissionReceived) -> Any:
        is_public = fact.mode == "ranked" and publication.shows_problem(fact.problem)
        return publication.departure(id_, fact) if is_public else None

    def _request_source(
        self, event: RecordedEvent, fact: events.SubmissionReceived, id_: str, split: str
    ) -> None:
        licence = self.now.licence_of(id_, fact)
        earlier: Licence | None = None
        if self.before is not None and event.seq <= self.after:
            earlier = self.before.licence_of(id_, fact)
        if earlier is not None and earlier != licence:
            self.sources_removed.add(event.seq)
        is_kept = licence is not None and licence == earlier
        if licence is not None:
            self.index.add_source(event.seq, KnownSource(fact.account, is_kept))
        if fact.mode == RANKED and self.now.publishes_sources(fact.problem):
            self.lineage.append(
                LineageRequest(
                    SignedSource(event.seq, fact.account, fact.gpu, fact.pooling_digest, ()),
                    problem=fact.problem,
                    split=split,
                    digest=fact.source.digest,
                    declared=fact.parent,
                    is_released=licence is not None,
                    is_kept=is_kept,
                )
            )
        if licence is None or is_kept:
            return
        row = {
            "submission": event.seq,
            "seq": event.seq,
            "problem": fact.problem,
            "gpu": fact.gpu,
            "language": language_of(fact.name),
            "licence": licence.name,
            "consent": licence.consent,
        }
        label = {
            "submission": event.seq,
            "participant": self._pseudonym(fact.account),
            "seq": event.seq,
            "at": event.envelope.at,
            "label": PRECISION,
            "event": "SubmissionReceived",
        }
        version = self.now.problems[fact.problem].versions.get(fact.problem_number)
        dtypes = {roof.dtype for roof in version.roofs} if version else set()
        label["value"] = "bitwise" if dtypes and dtypes <= set(INTEGERS) else "float32"
        self.sources.append(SourceRequest(fact.source, split, row, label))

    def _finished(
        self, event: RecordedEvent, fact: events.SubmissionFinished, id_: str
    ) -> Iterator[Emitted]:
        known = self.index.submission(id_)
        if known is None:
            return
        split = split_of(family_of(known.problem))
        if known.baseline:
            if self._joins_problem(event.seq, known.problem):
                yield Emitted("baselines", split, _baseline_row(event, known, fact))
            return
        if not self._joins(event.seq, known):
            return
        row = self._verdict_row(event, known, fact, "finished", known.version)
        yield Emitted("verdicts", split, row)
        if fact.code in LABELS:
            yield self._label(event, known, LABELS[fact.code])

    def _verdict_row(
        self,
        event: RecordedEvent,
        known: KnownSubmission,
        end: events.SubmissionFinished,
        kind: str,
        version: int,
    ) -> Row:
        low_us, high_us = end.interval_us or (None, None)
        return {
            **self._board(known),
            "version": version,
            "seq": event.seq,
            "place": 0,
            "at": event.envelope.at,
            "kind": kind,
            "run": self.index.run(end.run),
            "outcome": end.outcome,
            "verdict": _word(end.verdict),
            "code": _word(end.code),
            "is_eligible": end.is_eligible,
            "is_held": end.is_held,
            "is_provisional": end.is_provisional,
            "score_us": end.score_us,
            "low_us": low_us,
            "high_us": high_us,
            "process_us": end.process_us,
            "error": end.error,
            "freedom": end.freedom,
            "sigma_run": end.sigma_run,
            "delta": end.delta,
            "grade": _grade(end.grade),
            "yardstick_us": end.yardstick_us,
        }

    def _board(self, known: KnownSubmission) -> Row:
        participant = self._pseudonym(known.account)
        return {
            "submission": known.number,
            "problem": known.problem,
            "gpu": known.gpu,
            "participant": participant,
        }

    def _label(
        self, event: RecordedEvent, known: KnownSubmission, label: str, value: str | None = None
    ) -> Emitted:
        row = {
            "submission": known.number,
            "participant": self._pseudonym(known.account),
            "seq": event.seq,
            "at": event.envelope.at,
            "label": label,
            "event": event.envelope.type,
            "value": value,
        }
        return Emitted("labels", split_of(family_of(known.problem)), row)

    def _moderated(self, event: RecordedEvent, fact: events.Fact, id_: str) -> Iterator[Emitted]:
        known = self.index.submission(id_)
        if known is not None and self._joins(event.seq, known):
            rule = getattr(fact, "rule", "")
            is_short = RULE.match(rule) and self.redactor.line(rule) == rule
            value = (rule if is_short else OTHER) if rule else None
            yield self._label(event, known, MODERATION[type(fact)], value)

    def _appeal_decided(
        self, event: RecordedEvent, fact: events.AppealDecided, id_: str
    ) -> Iterator[Emitted]:
        known = self.index.submission(id_)
        if known is not None and fact.is_accepted and self._joins(event.seq, known):
            yield self._label(event, known, "appeal_accepted")

    def _ban_changed(
        self,
        event: RecordedEvent,
        fact: events.AccountBanned | events.AccountUnbanned,
        account: str,
    ) -> Iterator[Emitted]:
        if event.seq <= self.after:
            return
        is_ban = isinstance(fact, events.AccountBanned)
        row = {
            "submission": None,
            "participant": self._pseudonym(account),
            "seq": event.seq,
            "at": event.envelope.at,
            "label": "banned" if is_ban else "unbanned",
            "event": event.envelope.type,
            "until_at": fact.until_at if isinstance(fact, events.AccountBanned) else None,
        }
        yield Emitted("labels", SPLITS[0], row)

    def _merge_changed(
        self, event: RecordedEvent, fact: events.AccountMerged | events.MergeUndone, account: str
    ) -> Iterator[Emitted]:
        if event.seq <= self.after:
            return
        row = {
            "submission": None,
            "participant": self._pseudonym(account),
            "seq": event.seq,
            "at": event.envelope.at,
            "label": "merged" if isinstance(fact, events.AccountMerged) else "separated",
            "event": event.envelope.type,
            "value": self._pseudonym(fact.into),
        }
        yield Emitted("labels", SPLITS[0], row)

    def _queued(self, _event: RecordedEvent, fact: events.JobQueued, id_: str) -> Iterator[Emitted]:
        kinds = (
            *((fact.rejudge, "rejudge"), (fact.duel, "duel")),
            (fact.confirmation, "confirmation"),
        )
        kind = next((kind for is_this, kind in kinds if is_this), "")
        if kind:
            self._jobs[id_] = _Job(fact.submission, kind)
        yield from ()

    def _leased(self, _event: RecordedEvent, fact: events.JobLeased, id_: str) -> Iterator[Emitted]:
        if fact.chunk is None:
            self._leases[fact.run] = (id_, fact.agent, fact.attempt)
            if len(self._leases) > RECENT_LEASES_MAX:
                self._leases.popitem(last=False)
        yield from ()

    def _job_ended(self, _event: RecordedEvent, _fact: Any, id_: str) -> Iterator[Emitted]:
        self._jobs.pop(id_, None)
        yield from ()

    def _assigned(
        self, event: RecordedEvent, fact: events.JobAssigned, id_: str
    ) -> Iterator[Emitted]:
        """Only the run that a lease names counts, on the agent that it names."""
        agent = event.envelope.aggregate.split(".")[1]
        job, leased_agent, attempt = self._leases.get(id_, ("", "", 0))
        if (job, leased_agent) == (fact.job, agent):
            del self._leases[id_]
            own = job == subjects.job_id_of(fact.submission)
            known = _Job(fact.submission, "submission") if own else self._jobs.get(job)
            if known is not None:
                self._runs[id_] = _Run(event.seq, known.submission, known.kind, attempt)
                self.index.add_run(id_, event.seq)
        yield from ()

    def _started(
        self, _event: RecordedEvent, fact: events.RunStarted, id_: str
    ) -> Iterator[Emitted]:
        run = self._runs.get(id_)
        if run is not None:
            run.level = fact.level if fact.level in LEVELS else OTHER
            run.tier = fact.tier if fact.tier in TIERS else OTHER
        yield from ()

    def _run_row(self, event: RecordedEvent, run: _Run, known: KnownSubmission) -> Row:
        return {
            "number": run.number,
            "submission": known.number,
            "seq": event.seq,
            "at": event.envelope.at,
            "kind": run.kind,
            "attempt": run.attempt,
            "level": run.level or None,
            "tier": run.tier or None,
        }

    def _run_ended(self, event: RecordedEvent, fact: events.Fact, id_: str) -> Iterator[Emitted]:
        run = self._runs.pop(id_, None)
        known = self.index.submission(run.submission) if run else None
        if run is None or known is None or not self._joins(event.seq, known):
            return
        row = self._run_row(event, run, known) | {"outcome": ENDS[type(fact)]}
        stage = getattr(fact, "stage", None)
        split = split_of(family_of(known.problem))
        yield Emitted("runs", split, row | {"stage": _word(stage)})

    def _completed(
        self, event: RecordedEvent, fact: events.RunCompleted, id_: str
    ) -> Iterator[Emitted]:
        run = self._runs.pop(id_, None)
        known = self.index.submission(run.submission) if run else None
        if run is None or known is None or known.baseline or not known.is_shown:
            return
        environment = self._environment_row(fact.environment)
        is_new = environment["environment"] not in self._environments
        self._environments.add(environment["environment"])
        if not self._joins(event.seq, known):
            return
        split = split_of(family_of(known.problem))
        if is_new:
            yield Emitted("environments", SPLITS[0], environment)
        row = self._run_row(event, run, known) | {
            "outcome": "completed",
            "verdict": _word(fact.verdict),
            "stage": _word(fact.stage),
            "took_s": fact.took_s,
            "sigma_run": fact.sigma_run,
            "is_stopped": bool(fact.stopped),
            "environment": environment["environment"],
        }
        yield Emitted("runs", split, row)
        keys = {"run": run.number, "submission": known.number, "seq": event.seq}
        for place, case in enumerate(fact.cases):
            yield Emitted("cases", split, keys | {"place": place} | self._case_row(case))
        if fact.samples is not None:
            hidden = frozenset(case.name for case in fact.cases if case.is_hidden)
            self.samples.append(SamplesRequest(fact.samples, split, keys, hidden))

    def _case_row(self, case: events.CaseResult) -> Row:
        public = {"stage": _word(case.stage), "verdict": _word(case.verdict)}
        if case.is_hidden:
            return public | {"name": "hidden", "is_hidden": True}
        low_us, high_us = case.interval_us or (None, None)
        return public | {
            "name": self.case_name(case.name),
            "is_hidden": False,
            "time_us": case.time_us,
            "low_us": low_us,
            "high_us": high_us,
            "samples": case.samples,
            "process_us": case.process_us,
            "error": case.error,
            "freedom": case.freedom,
            "grade": _grade(case.grade),
            "yardstick_us": case.yardstick_us,
        }

    def case_name(self, name: str) -> str:
        """The name of a case, which its author wrote."""
        return self.redactor.line(name)[:TEXT_LENGTH_MAX]

    def _environment_row(self, environment: dict[str, str]) -> Row:
        values = {
            name: environment[name][:TEXT_LENGTH_MAX] for name in ENVIRONMENT if name in environment
        }
        # The digest of the harness looks like a secret.
        row = {
            name: value if name == events.HARNESS_CODE else self.redactor.line(value)
            for name, value in values.items()
        }
        if not re.fullmatch(r"[0-9a-f]{64}", row.get(events.HARNESS_CODE, "")):
            row.pop(events.HARNESS_CODE, None)
        digest = hashlib.sha256(msgspec.json.encode(row, order="sorted")).hexdigest()[:16]
        return {"environment": digest, **row}

    def _yardstick_fixed(
        self, event: RecordedEvent, fact: events.YardstickFixed, _id: str
    ) -> Iterator[Emitted]:
        split = split_of(family_of(fact.problem))
        if self._joins_problem(event.seq, fact.problem):
            yield Emitted(
                "baselines",
                split,
                {
                    "problem": fact.problem,
                    "version": fact.problem_number,
                    "gpu": fact.gpu,
                    "seq": event.seq,
                    "at": event.envelope.at,
                    "name": "yardstick",
                    "verdict": "passed",
                },
            )
        for place, score in enumerate(fact.restated):
            known = self.index.submission(score.submission)
            if known is not None and self._joins(event.seq, known):
                yield Emitted(
                    "verdicts", split, self._restated_row(event, fact, known, score, place)
                )

    def _restated_row(
        self,
        event: RecordedEvent,
        fact: events.YardstickFixed,
        known: KnownSubmission,
        score: events.RestatedScore,
        place: int,
    ) -> Row:
        low_us, high_us = score.interval_us
        return {
            **self._board(known),
            "version": fact.problem_number,
            "seq": event.seq,
            "place": place,
            "at": event.envelope.at,
            "kind": "restated",
            "run": self.index.run(score.run),
            "score_us": score.score_us,
            "low_us": low_us,
            "high_us": high_us,
            "process_us": score.process_us,
            "error": score.error,
            "freedom": score.freedom,
            "delta": score.delta,
            "yardstick_us": score.yardstick_us,
        }

    def _rejudge_requested(
        self, _event: RecordedEvent, fact: events.RejudgeRequested, id_: str
    ) -> Iterator[Emitted]:
        self._rejudges[id_] = _Rejudge(fact.to_number)
        yield from ()

    def _rejudge_judged(
        self, _event: RecordedEvent, fact: events.RejudgeJudged, id_: str
    ) -> Iterator[Emitted]:
        if id_ in self._rejudges:
            self._rejudges[id_].results[fact.submission] = fact.result
        yield from ()

    def _rejudge_applied(
        self, event: RecordedEvent, _fact: events.RejudgeApplied, id_: str
    ) -> Iterator[Emitted]:
        rejudge = self._rejudges.pop(id_, None)
        for place, (submission, result) in enumerate(
            sorted(rejudge.results.items()) if rejudge else ()
        ):
            known = self.index.submission(submission)
            if rejudge is None or known is None or result.outcome == "infra_failed":
                continue
            if self._joins(event.seq, known):
                row = self._verdict_row(event, known, result, "rejudged", rejudge.to_number)
                yield Emitted(
                    "verdicts", split_of(family_of(known.problem)), row | {"place": place}
                )

    def _rejudge_discarded(
        self, _event: RecordedEvent, _fact: events.RejudgeDiscarded, id_: str
    ) -> Iterator[Emitted]:
        self._rejudges.pop(id_, None)
        yield from ()

    def _duel_requested(
        self, _event: RecordedEvent, fact: events.DuelRequested, id_: str
    ) -> Iterator[Emitted]:
        self._duels.setdefault(id_, fact)
        yield from ()

    def _duel_judged(
        self, event: RecordedEvent, fact: events.DuelJudged, id_: str
    ) -> Iterator[Emitted]:
        duel, result = self._duels.pop(id_, None), fact.result
        if duel is None or result is None or result.ratio is None or result.interval is None:
            return
        if not self._joins_problem(event.seq, duel.problem):
            return
        low, high = result.interval
        yield Emitted(
            "duels",
            split_of(family_of(duel.problem)),
            {
                "problem": duel.problem,
                "version": duel.problem_number,
                "gpu": duel.gpu,
                "seq": event.seq,
                "first_source": self._group(duel.first.pooling_digest),
                "second_source": self._group(duel.second.pooling_digest),
                "winner": result.winner,
                "ratio": result.ratio,
                "low": low,
                "high": high,
            },
        )


def _baseline_row(
    event: RecordedEvent, known: KnownSubmission, end: events.SubmissionFinished
) -> Row:
    return {
        "problem": known.problem,
        "version": known.version,
        "gpu": known.gpu,
        "seq": event.seq,
        "at": event.envelope.at,
        "name": known.baseline if RULE.match(known.baseline) else OTHER,
        "verdict": _word(end.verdict),
        "score_us": end.score_us,
    }


def _word(text: str | None) -> str | None:
    """A word of the platform's vocabulary; an agent may have written anything."""
    return text if not text or WORD.match(text) else OTHER


def _grade(text: str) -> str | None:
    return (text if text in GRADES else OTHER) if text else None
