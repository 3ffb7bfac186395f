"""Run ranker: the service, or one of its commands (check, gc, audit, scrub, replay, ...)."""

import sys
from gc import set_threshold

from shared.startup import pause_garbage_collection

# A replay allocates and frees millions of values without cycles: with the default threshold of 700
# the garbage collector took a tenth of its time (60 k events, two cores, Python 3.11, 2026-11).
GARBAGE_MIN = 50_000

if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        from ranker.settings import load
        from shared.settings import print_problems

        sys.exit(print_problems(load))
    set_threshold(GARBAGE_MIN)
    if sys.argv[1:]:
        with pause_garbage_collection():
            from ranker import commands
        sys.exit(commands.main(sys.argv[1:]))
    with pause_garbage_collection():
        from ranker.main import main
    sys.exit(main())
