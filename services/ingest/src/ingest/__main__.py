"""Run ingest until SIGTERM, or check its settings."""

import sys

from shared.startup import pause_garbage_collection

if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        from ingest.settings import load
        from shared.settings import print_problems

        sys.exit(print_problems(load))
    with pause_garbage_collection():
        from ingest.main import main
    sys.exit(main())
