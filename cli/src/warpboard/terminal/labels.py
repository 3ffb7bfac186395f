"""Operators' commands that show what the advisory screen labels in sources."""

from collections.abc import Iterator

import click
from click import Choice, IntRange

from shared.api.labels import SEVERITIES, LabelledSubmissions, SubmissionLabels
from shared.presentation.units import escape_control_characters
from warpboard.api import Api
from warpboard.context import AppContext
from warpboard.domain.output import make_table
from warpboard.terminal import options
from warpboard.terminal.options import api_command

LIMIT_MAX = 200


@api_command(
    "admin label list --severity high",
    parameters=(
        click.option("--problem", type=options.SLUG, metavar="SLUG", help="Only this problem."),
        click.option("--rule", metavar="RULE", help="Only this rule, such as timer_patched."),
        click.option(
            "--severity",
            type=Choice(SEVERITIES),
            default="medium",
            show_default=True,
            help="The least severity of a rule; --rule has precedence.",
        ),
        click.option("--before", type=IntRange(min=1), metavar="NUMBER", help="Only earlier ones."),
        click.option("--limit", type=IntRange(1, LIMIT_MAX), default=50, show_default=True),
        options.WIDE,
    ),
    access=options.OPERATOR,
)
async def list_labels(context: AppContext, api: Api, **query: str | float | None) -> int:
    """List ranked submissions whose sources have labels, newest first.

    Labels are hints of the advisory screen: they change no score and no rank.
    """
    answer = await api.get(LabelledSubmissions, "admin", "labels", **query)
    rows = [
        {
            "number": line.number,
            "participant": line.participant,
            "leaderboard": f"{line.problem} on {line.gpu}",
            "severity": line.labels[0].severity,
            "rules": [label.rule for label in line.labels],
            "received": line.received_at,
        }
        for line in answer.value.items
    ]
    parts = [make_table("labels", rows, extra=("received", "participant"))]
    notes = [] if answer.value.is_complete else ["the newest sources are still being screened"]
    if answer.value.next_before is not None:
        notes.append(f"more: --before {answer.value.next_before}")
    return context.show(answer.document, [*parts, *notes])


@api_command("admin label show 12", parameters=(options.NUMBER,), access=options.OPERATOR)
async def show_labels(context: AppContext, api: Api, number: int) -> int:
    """Show the labels of submission NUMBER, with their lines."""
    answer = await api.get(SubmissionLabels, "admin", "labels", number)
    return context.show(answer.document, label_lines(answer.value))


def label_lines(labels: SubmissionLabels) -> Iterator[str]:
    """Describe the labels of a submission."""
    if not labels.labels:
        yield f"the advisory screen labels nothing in submission {labels.number}"
    for label in labels.labels:
        yield f"{label.severity}: {label.rule}: the source {label.title}"
        for place in label.evidence:
            yield f"  {place.file}:{place.line}: {escape_control_characters(place.excerpt)}"
        yield f"  {label.why}"
