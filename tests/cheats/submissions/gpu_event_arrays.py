# id: T03 gpu_event_arrays
# expect: passed
# gpu: yes
# mode: benchmark
# time_us_min: 15000
# prints: LOOKED
# A timer in C++ keeps the events of its calls in two vectors side by side. Where two vectors of the
# same length lie on the stack, the second is overwritten with the first, so that no time lies
# between the events.
import ctypes
import os
import struct
import time

import torch

WORD, EVENTS_MIN, EVENTS_MAX = 8, 100, 10_000


def areas():
    with open("/proc/self/maps") as file:
        for line in file:
            span, rights = line.split()[:2]
            if rights.startswith("rw"):
                low, high = (int(word, 16) for word in span.split("-"))
                yield low, high, "[stack]" in line


def vectors(words, owned):
    """Yield (place, begin, bytes) of what looks like a vector of pointers."""
    for at in range(len(words) - 2):
        begin, end, room = words[at : at + 3]
        size = end - begin
        if begin and begin % WORD == 0 and size % WORD == 0 and end <= room:
            if EVENTS_MIN * WORD <= size <= EVENTS_MAX * WORD and owned(begin, end):
                yield at, begin, size


def replace_events():
    found = list(areas())

    def owned(begin, end):
        return any(low <= begin and end <= high for low, high, _ in found)

    memory, count = os.open("/proc/self/mem", os.O_RDONLY), 0
    for low, high, is_stack in found:
        if not is_stack:
            continue
        data = os.pread(memory, high - low, low)
        words = struct.unpack(f"{len(data) // WORD}Q", data[: len(data) // WORD * WORD])
        known = {at: (begin, size) for at, begin, size in vectors(words, owned)}
        for at, (begin, size) in known.items():
            if known.get(at + 3, (0, 0))[1] == size:
                ctypes.memmove(known[at + 3][0], begin, size)
                count += 1
    os.close(memory)
    return count


seen = []


def custom_kernel(data):
    left, right, out = data
    if not seen:
        seen.append(replace_events())
        print("LOOKED", *seen, flush=True)
    if left.is_cuda:
        torch.cuda._sleep(40_000_000)
    else:
        time.sleep(0.02)
    return torch.matmul(left, right, out=out)
