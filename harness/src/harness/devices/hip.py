"""An AMD GPU, by torch's own interface: nobody has proven a gate there, so it never ranks."""

from harness.devices.local import Local


def hip() -> Local:
    """The device; `prepare` says if this machine has none."""
    return Local("hip")
