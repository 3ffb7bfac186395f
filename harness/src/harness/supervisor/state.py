"""What a machine remembers from run to run: how fast it usually is, and what was compiled."""

import contextlib
import json
import os
from pathlib import Path

from harness.supervisor.home import RUN_UID
from harness.timing.history import History
from harness.toolchains.cache import Cache

# A history for each device: what one shows says nothing of another.
_HISTORIES = {"cpu": "history.json", "cuda": "history-cuda.json", "hip": "history-hip.json"}
_CACHE = "compiled"
_BYTES_MAX = 1024 * 1024


class State:
    """The machine's memory, in a folder that a next supervisor may be given again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / _CACHE).mkdir(parents=True, exist_ok=True)
        self.cache = _cache(folder / _CACHE)
        self._histories = {device: _read(folder / name) for device, name in _HISTORIES.items()}

    def history(self, device: str) -> History:
        """What a device of the machine has shown so far."""
        return self._histories.get(device, History())

    def keep(self, device: str, history: History) -> None:
        """Remembers what it has shown by now; the file is whole at every moment."""
        if device not in _HISTORIES:
            return
        self._histories[device] = history
        name = _HISTORIES[device]
        fresh = self._folder / f"{name}.{os.getpid()}"
        fresh.write_text(json.dumps(history.to_json()))
        fresh.replace(self._folder / name)


def _read(path: Path) -> History:
    """A history that cannot be read is begun anew."""
    with contextlib.suppress(OSError, ValueError), path.open() as file:
        return History.from_json(json.loads(file.read(_BYTES_MAX)))
    return History()


def _cache(folder: Path) -> Cache:
    """By its descriptor, and given to the account of the runs, which cannot reach its path."""
    folder.chmod(0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    if os.getuid() == 0:
        os.fchown(descriptor, RUN_UID, RUN_UID)
    cache = Cache(descriptor)
    cache.sweep()
    return cache
