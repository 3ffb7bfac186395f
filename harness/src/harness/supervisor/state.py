"""What a machine remembers from run to run: how fast it usually is, and what was compiled."""

import contextlib
import json
import os
from pathlib import Path

from harness.supervisor.home import RUN_UID
from harness.timing.history import History
from harness.toolchains.cache import Cache

_HISTORY = "history.json"
_CACHE = "compiled"
_BYTES_MAX = 1024 * 1024


class State:
    """The machine's memory, in a folder that a next supervisor may be given again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._history = History()
        (folder / _CACHE).mkdir(parents=True, exist_ok=True)
        self.cache = _cache(folder / _CACHE)
        # A history that cannot be read is begun anew.
        with contextlib.suppress(OSError, ValueError), (folder / _HISTORY).open() as file:
            self._history = History.from_json(json.loads(file.read(_BYTES_MAX)))

    def history(self) -> History:
        """What the machine has shown so far."""
        return self._history

    def keep(self, history: History) -> None:
        """Remembers what it has shown by now; the file is whole at every moment."""
        self._history = history
        fresh = self._folder / f"{_HISTORY}.new"
        fresh.write_text(json.dumps(history.to_json()))
        fresh.replace(self._folder / _HISTORY)


def _cache(folder: Path) -> Cache:
    """By its descriptor, and given to the account of the runs, which cannot reach its path."""
    folder.chmod(0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    if os.getuid() == 0:
        os.fchown(descriptor, RUN_UID, RUN_UID)
    cache = Cache(descriptor)
    cache.sweep()
    return cache
