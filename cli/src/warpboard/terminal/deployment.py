"""The check of a deployment of several processes: settings, servers, disks and certificates."""

from pathlib import Path

import click

from shared.api.fields import parse_response
from shared.errors import Refused
from shared.presentation.report_parts import ProgressText
from warpboard.context import AppContext
from warpboard.domain.demand import Offer, missing_lines, offer_exit_code
from warpboard.domain.deployment import (
    SERVICES,
    Finding,
    find_contradictions,
    find_services,
    parse_environment,
)
from warpboard.domain.output import FAILED, OK
from warpboard.processes.doctor import check_services, find_full_disks, find_old_backup
from warpboard.terminal import options
from warpboard.terminal.options import local_command


@local_command(
    "server doctor /etc/warpboard/*.env",
    parameters=(
        click.argument("files", nargs=-1, type=options.FILE),
        click.option(
            "--backup-metric",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The .prom file of the backup; its age is checked, too.",
        ),
    ),
)
async def doctor(context: AppContext, files: tuple[Path, ...], backup_metric: Path | None) -> int:
    """Find what is wrong with a deployment: settings, servers, disks.

    FILES have the settings, a line NAME=value each; without one, the environment has them. Checked
    are the services that have settings there. Exit code 0 if nothing is wrong, else 1.
    """
    environ, findings = _read_settings(context, files)
    services = find_services(environ)
    if not services:
        prefixes = ", ".join(f"{service.prefix}_…" for service in SERVICES.values())
        raise Refused("bad_settings", f"there are no settings of a service: expected {prefixes}")
    with context.screen.live(["doctor"]) as show:
        show("doctor", ProgressText(f"checking {', '.join(services)}"))
        findings += find_contradictions(environ)
        findings += find_full_disks(environ)
        if backup_metric is not None:
            findings += find_old_backup(backup_metric)
        findings += await check_services(services, environ, context.settings.environ)
        if "gpu-agent" in services:
            findings += _check_isolation(context)
    document = {"services": services, "findings": [finding._asdict() for finding in findings]}
    lines = [f"{finding.service}: {finding.problem}" for finding in findings]
    context.show(document, lines or [f"nothing is wrong with {', '.join(services)}"])
    return FAILED if findings else OK


def _read_settings(
    context: AppContext, files: tuple[Path, ...]
) -> tuple[dict[str, str], list[Finding]]:
    """Return the settings of all files together, and lines that are none."""
    if not files:
        return dict(context.settings.environ), []
    environ, findings = dict[str, str](), list[Finding]()
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise Refused("bad_settings", f"{file} cannot be read: {error}") from error
        variables, problems = parse_environment(text, str(file))
        environ |= variables
        findings += problems
    return environ, findings


def _check_isolation(context: AppContext) -> list[Finding]:
    """Return which walls this machine lacks, if its isolation is not strong."""
    offer = parse_response(context.harness.offer(), Offer)
    if offer_exit_code(offer) == OK:
        return []
    reasons = "; ".join(missing_lines(offer.missing))
    return [Finding("gpu-agent", f"isolation here is {offer.level}: {reasons}")]
