# id: T35 residue_timers
# expect: passed
# mode: benchmark
# check: no_residue
# Timers that expire while it is frozen interrupt the core where the yardstick runs by then. They
# are set in the first call of each block, which does not count, for the time after the last one.
import ctypes
import signal
import time

import torch

GAP_S, TIMERS, STEP_NS, MONOTONIC = 0.03, 1000, 10_000, 1
LIBC = ctypes.CDLL(None)


class Event(ctypes.Structure):
    _fields_ = (("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("rest", ctypes.c_byte * 52))


class Times(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "at_s", "at_ns"))


def new_timer():
    timer, event = ctypes.c_void_p(), Event(signal=signal.SIGUSR1)
    is_made = LIBC.timer_create(MONOTONIC, ctypes.byref(event), ctypes.byref(timer)) == 0
    return timer if is_made else None


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
timers = [timer for timer in (new_timer() for _ in range(TIMERS)) if timer]
print("TIMERS", len(timers), flush=True)
began = ended = time.perf_counter()
length_s = 0.0


def set_timers(after_s):
    for number, timer in enumerate(timers):
        total_ns = int(1e9 * after_s) + number * STEP_NS
        times = Times(0, 0, *divmod(total_ns, 10**9))
        LIBC.timer_settime(timer, 0, ctypes.byref(times), None)


def custom_kernel(data):
    global began, ended, length_s
    left, right, out = data
    now = time.perf_counter()
    is_first = now - ended > GAP_S
    if is_first:
        length_s, began = max(length_s, ended - began), now
    torch.matmul(left, right, out=out)
    if is_first:
        set_timers(length_s)
    ended = time.perf_counter()
    return out
