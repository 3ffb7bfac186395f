"""All operations of the simulator, with Discord's names."""

from discord_sim.operations import application, channels, messages
from discord_sim.state import Operation

MODULES = (application, channels, messages)


def every_operation() -> list[Operation]:
    """Return all operations; paths without parameters come before those with."""
    operations = [operation for module in MODULES for operation in module.OPERATIONS.all]
    return sorted(
        operations,
        key=lambda operation: [part.startswith("{") for part in operation.template.split("/")],
    )
