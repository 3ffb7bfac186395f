"""Wires a launcher together and runs it until SIGTERM, or checks its settings."""

import sys

from scheduler.launcher.runners import GitHubRunner, LocalRunner, connect_github
from scheduler.launcher.service import Launcher, Runner
from scheduler.launcher.settings import GITHUB, MODAL, Settings, load
from shared import lifecycle
from shared.bus_keys.permissions import LAUNCHER_PREFIX
from shared.clock import now
from shared.lifecycle import Lifecycle, run_until_first
from shared.metrics import LogMetrics
from shared.nats.certificates import CertificateMetrics
from shared.nats.connection import connect
from shared.nats.reader import ReaderLog, ReaderMonitor
from shared.settings import print_problems


async def _open_runner(settings: Settings) -> Runner:
    """Return the place where agents run."""
    if settings.kind == GITHUB:
        http = connect_github(
            settings.github_api_url, settings.github_repository, settings.github_token
        )
        return GitHubRunner(http, settings.github_workflow, settings.github_ref, settings.poll_s)
    if settings.kind == MODAL:
        # It is optional, and takes a second to import.
        from scheduler.launcher.modal import ModalRunner, connect_modal

        client = await connect_modal(settings.modal_token_id, settings.modal_token_secret)
        folder = settings.data / MODAL
        return ModalRunner(
            client, settings.modal_app, settings.modal_environment, folder, settings.poll_s
        )
    return LocalRunner(
        settings.data, settings.agent_environ, settings.credential_key, settings.gpu_indexes
    )


async def _run(settings: Settings, life: Lifecycle) -> None:
    nc = await connect(settings.bus_login, "launcher", closed=life.stopping.set)
    user = f"{LAUNCHER_PREFIX}{settings.name}"
    log, monitor = ReaderLog(nc, user), ReaderMonitor(nc, user, life.report_unhealthy)
    LogMetrics("launcher", log)
    CertificateMetrics("launcher", settings.bus_login, nc)
    runner = await _open_runner(settings)
    launcher = Launcher(
        settings.name, log, now, runner, settings.agent_logins, settings.credential_key
    )

    async def launch() -> None:
        await monitor.until_whole()
        await launcher.run(settings.offer())

    try:
        await run_until_first(life.stopping.wait(), monitor.watch(), launch())
    finally:
        await runner.close()
    await nc.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        sys.exit(print_problems(load))
    sys.exit(lifecycle.run_service("launcher", load, _run))
