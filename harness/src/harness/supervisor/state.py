"""What a machine remembers from run to run: how fast it usually is."""

import contextlib
import json
from pathlib import Path

from harness.timing.history import History

_HISTORY = "history.json"
_BYTES_MAX = 1024 * 1024


class State:
    """The machine's memory, in a folder, or for as long as the supervisor lives without one."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._history = History()
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        # A history that cannot be read is begun anew.
        with contextlib.suppress(OSError, ValueError), (folder / _HISTORY).open() as file:
            self._history = History.from_json(json.loads(file.read(_BYTES_MAX)))

    def history(self) -> History:
        """What the machine has shown so far."""
        return self._history

    def keep(self, history: History) -> None:
        """Remembers what it has shown by now; the file is whole at every moment."""
        self._history = history
        if self._folder is None:
            return
        fresh = self._folder / f"{_HISTORY}.new"
        fresh.write_text(json.dumps(history.to_json()))
        fresh.replace(self._folder / _HISTORY)
