"""The results of cases, and what they are compared with: baselines, rooflines and milestones."""

import asyncio
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Literal, NamedTuple

import msgspec
from fastapi import APIRouter, Request
from msgspec import convert
from msgspec.structs import replace

from harness.hidden_sizes import hidden_case_name
from ranker.domain.goals import (
    VERDICT_OUTCOMES,
    case_roofline,
    case_speedups,
    case_times_us,
    current_runs,
    fast_shares,
    is_measured,
    milestones_for_gpu,
    roofline_share,
    scores_us,
    speedup,
)
from ranker.domain.rows import LeaderboardKey
from ranker.domain.yardsticks import show_cases
from ranker.http.access import RANKED, CurrentReader, ReaderView, ReadSources, safe_case
from ranker.http.problems import SEED, ManifestCache, problem_row
from ranker.http.responses import Limit, NumberInPath, json_response
from ranker.service.decisions import Reads
from ranker.service.leaderboard import key_values
from shared.api import cases as models
from shared.api.cases import CaseShown
from shared.api.leaderboards import SetEntry, SetScores
from shared.errors import Failed, Refused
from shared.events import Milestone, Roof
from shared.http import DocumentedRoute, TypedResponse
from shared.problems.hidden_sizes import read_families

LISTS = ("tests", "benchmarks")
# The fields of a timed case that belong to its estimate.
ESTIMATE = (
    *("time_us", "interval_us", "statistics", "samples", "dropped"),
    *("process_us", "error", "freedom", "null_us", "grade"),
    *("yardstick_us", "speedup", "speedup_interval"),
)
NO_RUN: dict[str, Any] = {"outcome": None, "state": None, "code": None, "score_us": None}

Row = dict[str, Any]
BaselineState = Literal["measured", "failed", "waiting", "absent"]


def cases_router(sources: ReadSources) -> APIRouter:
    """The route of case results."""
    router, manifests = APIRouter(route_class=DocumentedRoute), ManifestCache(sources.blobs)

    @router.get("/v1/submissions/{number}/cases")
    async def case_results(
        request: Request, reader: CurrentReader, number: NumberInPath
    ) -> TypedResponse[list[CaseShown]]:
        """The result of each case of an own submission, including all failures.

        Staff also see which hidden sizes the run has drawn, and the problem's author sees these.
        """
        await sources.wait_until_folded(number)
        view = sources.view(reader)
        row = await view.submission(number)
        is_authors = view.authors(row["problem"])
        if not is_authors:
            row = await view.own(number)
        elif not view.owns(row):
            row |= {"cases": [case for case in row["cases"] if case.get("is_hidden")]}
        problem = await problem_row(view, row["problem"], row["problem_version"])
        try:
            manifest = await manifests.load(problem["manifest"])
        except Failed:
            # The results are more important than the arguments.
            manifest = dict.fromkeys(LISTS, ())
        arguments = {
            case["name"]: {key: value for key, value in case["args"].items() if key != SEED}
            for name in LISTS
            for case in manifest[name]
        }
        board = LeaderboardKey(row["problem"], row["gpu"], row["problem_version"])
        results = await add_speedups(sources.reads, board, make_public_cases(row), row["fixed_us"])
        items = [_make_case(index, case, arguments) for index, case in enumerate(results)]
        if is_authors and (drawn := await _drawn_arguments(view, row, manifest)):
            names = [case["name"] for case in row["cases"]]
            items = [
                replace(item, args=drawn.get(name, item.args))
                for item, name in zip(items, names, strict=True)
            ]
        return json_response(request, items)

    return router


async def _drawn_arguments(view: ReaderView, row: Row, manifest: Row) -> dict[str, Row]:
    """Return the arguments of the hidden cases that a run has drawn, by their names."""
    families = read_families(manifest) if row["mode"] == RANKED else []
    if not families:
        return {}
    rows = await view.rows("run_key", run=row["run"])
    if not rows or not rows[0]["key"]:
        return {}
    return {
        hidden_case_name(family.group, number): {
            name: value for name, value in args.items() if name != SEED
        }
        for family in families
        for number, args in enumerate(family.draw(bytes.fromhex(rows[0]["key"])), 1)
    }


def _make_case(index: int, case: Row, arguments: dict[str, Row]) -> CaseShown:
    """A case in the form of the public API; of a hidden one only the verdict."""
    is_hidden = bool(case.get("is_hidden"))
    estimate = None
    if not is_hidden and case.get("time_us") is not None:
        known = {name: case[name] for name in ESTIMATE if name in case}
        estimate = dict.fromkeys(ESTIMATE) | {"statistics": {}} | known
    fields = {
        "index": index,
        "name": case["name"],
        "stage": case["stage"],
        "is_hidden": is_hidden,
        "args": None if is_hidden else arguments.get(case["name"]),
        "verdict": case["verdict"],
        "message": case.get("message") or None,
        "wrong": case.get("wrong", 0),
        "mismatches": case.get("mismatches", []),
        "estimate": estimate,
        "roofline": None if is_hidden else case.get("roofline"),
        "vs_baseline": case.get("vs_baseline", {}),
    }
    return msgspec.convert(fields, CaseShown)


def make_public_cases(row: Row) -> list[Row]:
    """The public cases of a submission, timed ones with their roofline figures."""
    roofs = msgspec.convert(row["roofs"], list[Roof])
    cases = [safe_case(case) for case in row["cases"]]
    if not roofs:
        return cases
    return [case | {"roofline": case_roofline(roofs, row["gpu"], case)} for case in cases]


async def add_speedups(
    reads: Reads, board: LeaderboardKey, cases: list[Row], fixed_us: Mapping[str, float] | None
) -> list[Row]:
    """Add speed-ups over measured baselines to timed cases, if there are any. Raises Failed."""
    if not case_times_us(cases):
        return cases
    current = current_runs(await reads.rows("baselines", **key_values(board), until=None))
    measured = [run["id"] for run in current.values() if is_measured(run)]
    rows = await reads.rows("baseline_cases", submissions=measured) if measured else []
    if not rows:
        return cases
    times = {row["name"]: case_times_us(show_cases(row["cases"], fixed_us)) for row in rows}
    return [case | {"vs_baseline": case_speedups(case, times)} for case in cases]


class LeaderboardGoals(NamedTuple):
    """What the entries of a leaderboard are compared with.

    `roofs` are the minimum work of its timed cases, combined by `rule`; `scores_us` are those of
    the baselines.
    """

    roofs: Sequence[Roof]
    rule: str
    gpu: str
    baselines: list[models.Baseline]
    milestones: list[models.Milestone]
    scores_us: Mapping[str, float]

    def against(self, row: Row) -> Row:
        """A row of the leaderboard with its speed-ups and its share of the roofline."""
        score_us = row["score_us"]
        speedups = {name: speedup(own_us, score_us) for name, own_us in self.scores_us.items()}
        share = roofline_share(self.roofs, self.gpu, self.rule, score_us) if self.roofs else None
        return row | {
            "vs_baseline": {name: ratio for name, ratio in speedups.items() if ratio},
            "roofline_fraction": share,
        }


def goals_router(sources: ReadSources) -> APIRouter:
    """The routes of the reader's own milestones, and of fast_p over a set of problems."""
    router = APIRouter(route_class=DocumentedRoute)

    @router.get("/v1/sets/{prefix}/{gpu}")
    async def set_scores(
        request: Request, reader: CurrentReader, prefix: str, gpu: str
    ) -> TypedResponse[SetScores]:
        """fast_p of every participant over the problems whose slugs begin with the prefix."""
        (checkpoint,) = await sources.reads.rows("checkpoint")
        body = await read_set_scores(sources.view(reader), prefix, gpu, checkpoint["seq"])
        return json_response(request, body, body.as_of)

    @router.get("/v1/me/milestones")
    async def mine(
        request: Request, reader: CurrentReader, limit: Limit = 100
    ) -> TypedResponse[models.OwnMilestones]:
        """The reader's own milestones, newest first."""
        if reader.account is None:
            raise Refused(
                "missing_credential", "this list needs a token: it shows your own milestones"
            )
        (checkpoint,) = await sources.reads.rows("checkpoint")
        rows = await sources.view(reader).rows(
            "own_milestones", account=reader.account, limit=limit
        )
        items, seq = convert(rows, list[models.OwnMilestone]), checkpoint["seq"]
        return json_response(request, models.OwnMilestones(items=items, as_of=seq), seq)

    return router


async def read_set_scores(view: ReaderView, prefix: str, gpu: str, seq: int) -> SetScores:
    """Read fast_p over a set. Raises Refused if no problem of it is on the GPU type, and Failed."""
    rows = await view.rows("set_problems", prefix=f"{prefix.lower()}-")
    versions = {
        row["slug"]: (row["number"], name)
        for row in rows
        for name in row["gpus"]
        if name.lower() == gpu.lower()
    }
    if not versions:
        reason = f"there is no problem {prefix}-… on GPU type {gpu}"
        raise Refused("not_found", f"{reason}: GET /v1/problems lists the problems", "prefix")
    gpu = next(name for _, name in versions.values())
    known = {
        "slugs": list(versions),
        "numbers": [number for number, _ in versions.values()],
        "gpu": gpu,
    }
    entries, runs = await asyncio.gather(
        view.rows("set_entries", **known), view.rows("set_baselines", **known)
    )
    baselines: dict[str, dict[str, float]] = {}
    for slug in versions:
        current = current_runs(run for run in runs if run["problem"] == slug)
        for name, score_us in scores_us(current).items():
            baselines.setdefault(name, {})[slug] = score_us
    by_participant: dict[str, list[Row]] = {}
    for entry in entries:
        by_participant.setdefault(entry["participant_id"], []).append(entry)
    items = [
        SetEntry(
            participant_id=account,
            participant=own[0]["participant"],
            correct=len(own),
            fast={
                name: fast_shares(
                    [speedup(times_us.get(row["problem"]), row["score_us"]) for row in own],
                    len(versions),
                )
                for name, times_us in sorted(baselines.items())
            },
        )
        for account, own in by_participant.items()
    ]
    return SetScores(
        prefix=prefix.lower(),
        gpu=gpu,
        problems_count=len(versions),
        baselines=sorted(baselines),
        items=sorted(items, key=_set_order),
        as_of=seq,
    )


def _set_order(entry: SetEntry) -> tuple[float, int, str]:
    """Most problems faster than a baseline first, then most problems, then by name."""
    fastest = max((shares["1"] for shares in entry.fast.values()), default=0.0)
    return -fastest, -entry.correct, entry.participant or ""


def make_goals(
    view: ReaderView, board: LeaderboardKey, details: Row, leader_us: float | None
) -> LeaderboardGoals:
    """What the entries of a leaderboard are compared with, from its `leaderboard_details`.

    `leader_us` is the best score now, None for a past leaderboard.
    """
    if not details["goals"]:
        return LeaderboardGoals([], "", board.gpu, [], [], {})
    (goals,) = details["goals"]
    current = current_runs(details["baselines"])
    shown_baselines = [
        _make_baseline(
            baseline, current.get(baseline["name"], NO_RUN), leader_us, view.authors(board.problem)
        )
        for baseline in goals["baselines"]
        if not baseline["gpus"] or board.gpu.lower() in {name.lower() for name in baseline["gpus"]}
    ]
    return LeaderboardGoals(
        roofs=convert(goals["roofs"], list[Roof]),
        rule=goals["ranking_by"],
        gpu=board.gpu,
        baselines=sorted(
            shown_baselines, key=lambda baseline: (baseline.score_us or inf, baseline.name)
        ),
        milestones=_make_milestones(goals["milestones"], board.gpu, details["milestones"]),
        scores_us=scores_us(current),
    )


def _make_baseline(
    baseline: Row, run: Mapping[str, Any], leader_us: float | None, is_authors: bool
) -> models.Baseline:
    """A baseline as readers see it; why it failed is only for its author."""
    has_score = run is not NO_RUN and is_measured(run)
    score_us = run["score_us"] if has_score else None
    has_interval = has_score and run["low_us"] is not None
    interval_us = (run["low_us"], run["high_us"]) if has_interval else None
    fields = {
        "name": baseline["name"],
        "note": baseline["note"],
        "state": _baseline_state(run, is_measured=has_score),
        "score_us": score_us,
        "interval_us": interval_us,
        "vs_leader": speedup(score_us, leader_us),
        "grade": (run.get("grade") or "") if has_score else "",
        "tier": run.get("tier"),
        "level": run.get("level"),
        "measured_at": run["finished_at"] if has_score else None,
        "number": run.get("number") if is_authors else None,
        "code": run["code"] if is_authors and not has_score else None,
        "reason": run.get("reason") if is_authors and not has_score else None,
    }
    return convert(fields, models.Baseline)


def _baseline_state(run: Mapping[str, Any], *, is_measured: bool) -> BaselineState:
    if is_measured:
        return "measured"
    if run["outcome"] in VERDICT_OUTCOMES:
        return "failed"
    return "absent" if run["state"] in (None, "finished") else "waiting"


def _make_milestones(
    rows: Sequence[Row], gpu: str, reached: Sequence[Row]
) -> list[models.Milestone]:
    known = {row["milestone"]: row for row in reached}
    milestones = []
    for milestone in milestones_for_gpu([Milestone(**row) for row in rows], gpu):
        row = known.get(milestone.id, {})
        fields = {
            "id": milestone.id,
            "title": milestone.title,
            "when": {
                "metric": milestone.metric,
                "op": milestone.op,
                "value": milestone.value,
                "gpu": milestone.gpu or None,
            },
            "reached": row.get("reached", 0),
            "is_reached": row.get("reached_at") is not None,
            "reached_at": row.get("reached_at"),
            "number": row.get("number"),
        }
        milestones.append(convert(fields, models.Milestone))
    return milestones
