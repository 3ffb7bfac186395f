"""Run the GPU agent until SIGTERM, or for one job."""

import sys

from shared.startup import pause_garbage_collection

if __name__ == "__main__":
    with pause_garbage_collection():
        from gpu_agent.main import main
    sys.exit(main(sys.argv[1:]))
