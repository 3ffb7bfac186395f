# id: S39 every_core
# expect: wrong_answer timed_out
# never_prints: GAINED
# Many processes ask for the supervisor's core, to starve it until it blames the problem's author.
import os
import time

PROCESSES = 4


def hog():
    try:
        os.sched_setaffinity(0, range(os.cpu_count()))
    except OSError:
        pass
    # On a machine with one core there is no other to ask for.
    if os.cpu_count() > 1 and len(os.sched_getaffinity(0)) == os.cpu_count():
        print("GAINED", sorted(os.sched_getaffinity(0)), flush=True)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        pass
    os._exit(0)


def custom_kernel(data):
    for _ in range(PROCESSES):
        if os.fork() == 0:
            hog()
    time.sleep(0.2)
    return data[2]
