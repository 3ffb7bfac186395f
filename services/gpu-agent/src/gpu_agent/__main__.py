"""Run the GPU agent until SIGTERM or for one job, check its settings, or print its public key."""

import sys

from shared.startup import pause_garbage_collection

if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        from gpu_agent.settings import load
        from shared.settings import print_problems

        sys.exit(print_problems(load))
    with pause_garbage_collection():
        if sys.argv[1:] == ["key"]:
            # Without the modules of a run, which take most of the time.
            from gpu_agent.settings import print_key as main
        else:
            from gpu_agent.main import main
    sys.exit(main(sys.argv[1:]))
