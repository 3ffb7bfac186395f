"""`warpboard up` whose services each run with the Python that a file in its folder names."""

from collections.abc import Sequence
from pathlib import Path

from warpboard.context import create_context
from warpboard.processes import services
from warpboard.processes.services import PlatformConfig, Service
from warpboard.terminal.program import Program

_local_services = services.local_services
SCRIPT = 'python=$(cat "$0") && exec "$python" "$@"'


def python_file(folder: Path, service: str) -> Path:
    """Return the file with the path of a service's Python."""
    return folder / "python" / service


def _versioned_services(config: PlatformConfig) -> Sequence[Service]:
    return [
        service._replace(
            command=(
                *("sh", "-c", SCRIPT, str(python_file(config.folder, service.name))),
                *service.command[1:],
            )
        )
        for service in _local_services(config)
    ]


if __name__ == "__main__":
    services.local_services = _versioned_services
    Program(create_context)(prog_name="warpboard")
