"""Run ingest until SIGTERM."""

import sys

from shared.startup import pause_garbage_collection

if __name__ == "__main__":
    with pause_garbage_collection():
        from ingest.main import main
    sys.exit(main())
