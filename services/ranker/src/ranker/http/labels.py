"""The labels of the advisory screen, for staff alone: they are hints, and quote sources."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec import convert
from pydantic import Field

from ranker.domain.screen_rules import RULES, RULES_BY_ID, SCREEN_VERSION
from ranker.domain.source_screen import Finding, quote_line
from ranker.http.access import CurrentReader, ReadSources, require_staff
from ranker.http.responses import LIMIT_MAX, NUMBER_MAX, NumberInPath, QueryParams, json_response
from ranker.retrieval.labels import SourceLabels
from shared.api import labels as models
from shared.errors import Refused, did_you_mean
from shared.http import DocumentedRoute, TypedResponse

PAGE = "/guide/docs/advisory-screen#{rule}"


class LabelQuery(QueryParams):
    """The query parameters of the list."""

    problem: str | None = None
    rule: str | None = None
    severity: models.Severity = "medium"
    before: Annotated[int, Field(ge=1, le=NUMBER_MAX)] | None = None
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = 50


def labels_router(sources: ReadSources) -> APIRouter:
    """The routes of labels; a ranker that reads no sources has none."""
    router = APIRouter(route_class=DocumentedRoute)

    def require_labels() -> SourceLabels:
        if sources.labels is None:
            raise Refused("not_supported", "not supported: this ranker reads no sources")
        return sources.labels

    @router.get("/v1/admin/labels")
    async def list_labelled(
        request: Request, reader: CurrentReader, query: Annotated[LabelQuery, Query()]
    ) -> TypedResponse[models.LabelledSubmissions]:
        """Ranked submissions that the advisory screen labels, newest first; for staff.

        `severity` is the least that is listed; `rule` lists one rule, whatever its severity.
        """
        require_staff(reader)
        labels = require_labels()
        rules = _select_rules(query.rule, query.severity)
        seq = sources.progress.seq
        is_complete = await labels.catch_up()
        rows = await sources.view(reader).rows(
            "labelled",
            rules=rules,
            problem=query.problem and query.problem.lower(),
            before=query.before,
            limit=query.limit + 1,
        )
        items = [_describe_row(row) for row in rows[: query.limit]]
        body = models.LabelledSubmissions(
            items=items,
            next_before=items[-1].number if len(rows) > query.limit else None,
            version=SCREEN_VERSION,
            is_complete=is_complete,
            as_of=seq,
        )
        return json_response(request, body)

    @router.get("/v1/admin/labels/{number}")
    async def read_labels(
        request: Request, reader: CurrentReader, number: NumberInPath
    ) -> TypedResponse[models.SubmissionLabels]:
        """The labels of a submission, with the lines that they are about; for staff."""
        require_staff(reader)
        labels = require_labels()
        await sources.wait_until_folded(number)
        submission = await sources.view(reader).submission(number)
        digest = submission["source_digest"]
        findings = await labels.read(digest, submission["name"])
        files = await labels.read_files(digest, submission["name"]) if findings else ()
        texts = {file.name: file.data for file in files}
        body = models.SubmissionLabels(
            number=number,
            labels=_explain(findings, texts),
            version=SCREEN_VERSION,
            as_of=sources.progress.seq,
        )
        return json_response(request, body)

    return router


def _select_rules(rule: str | None, severity: models.Severity) -> list[str]:
    """Return the ids of the rules to list. Raises Refused for an unknown rule."""
    if rule is not None:
        if rule not in RULES_BY_ID:
            hint = did_you_mean(rule, list(RULES_BY_ID))
            reason = f"there is no rule {rule!r}{hint}: {', '.join(RULES_BY_ID)}"
            raise Refused("invalid_request", reason, "rule")
        return [rule]
    least = models.SEVERITIES.index(severity)
    return [it.id for it in RULES if models.SEVERITIES.index(it.severity) <= least]


def _by_rule(findings: Iterable[Finding]) -> list[tuple[str, list[models.SourcePlace]]]:
    return [
        (rule, [models.SourcePlace(file=it.file, line=it.line) for it in group])
        for rule, group in groupby(findings, lambda finding: finding.rule)
    ]


def _describe_row(row: Mapping[str, object]) -> models.LabelledSubmission:
    findings = convert(row["findings"], list[Finding])
    labels = [
        models.SourceLabel(
            rule=rule,
            severity=RULES_BY_ID[rule].severity,
            title=RULES_BY_ID[rule].title,
            places=places,
        )
        for rule, places in _by_rule(findings)
        if rule in RULES_BY_ID
    ]
    return convert({**row, "labels": labels}, models.LabelledSubmission)


def _explain(
    findings: Sequence[Finding], sources: Mapping[str, bytes]
) -> list[models.ExplainedLabel]:
    return [
        models.ExplainedLabel(
            rule=rule,
            severity=RULES_BY_ID[rule].severity,
            title=RULES_BY_ID[rule].title,
            places=places,
            why=RULES_BY_ID[rule].why,
            page=PAGE.format(rule=rule),
            evidence=[
                models.LabelEvidence(
                    file=place.file,
                    line=place.line,
                    excerpt=quote_line(sources.get(place.file, b""), place.line),
                )
                for place in places
            ],
        )
        for rule, places in _by_rule(findings)
    ]
