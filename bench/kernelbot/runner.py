"""KernelBot's evaluation in a process that stays warm, as a container of its cloud provider does.

`python runner.py`, with KernelBot's `src` on PYTHONPATH: each line on stdin is a configuration as
JSON, each line on stdout the result.
"""

import json
import os
import sys
import tempfile
from dataclasses import asdict
from typing import Any

from libkernelbot.run_eval import make_system_info, run_config


def main() -> None:
    """Evaluate until the end of input."""
    # KernelBot prints what it does to stdout, where the results belong.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    make_system_info()  # Imports torch, which a warm container has done.
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            result: dict[str, Any] = asdict(run_config(json.loads(line)))
            os.chdir("/")
        print(json.dumps(result, default=str), file=results, flush=True)


if __name__ == "__main__":
    main()
