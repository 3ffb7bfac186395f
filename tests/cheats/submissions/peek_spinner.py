# id: T14 peek_spinner
# expect: wrong_answer late_write passed
# mode: benchmark
# check: no_gain
# prints: SPUN
# A native loop on the last word of the input lets a thread go the moment that the word changes,
# before the worker is told; the kernel then only waits for what may long be done.
import ctypes
import os
import subprocess
import threading

import torch

text = """
void wait_for_change(volatile unsigned *word, unsigned last) { while (*word == last) ; }
"""
with open("spin.c", "w") as file:
    file.write(text)
subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", "spin.so", "spin.c"], check=True)
wait_for_change = ctypes.CDLL("./spin.so").wait_for_change
wait_for_change.restype = None
wait_for_change.argtypes = (ctypes.c_void_p, ctypes.c_uint)
kept = {}
try:
    os.sched_setaffinity(0, range(os.cpu_count()))  # beside, or in the way of, who holds the clock
except OSError:
    pass


class Spinner(threading.Thread):
    """Computes whenever the last word of `right` is another; `done` counts, where C can see it."""

    def __init__(self, data):
        super().__init__(daemon=True)
        self.data = data
        self.word = ctypes.c_uint.from_address(data[1].data_ptr() + 4 * (data[1].numel() - 1))
        self.last = self.word.value
        self.done = ctypes.c_uint(0)
        self.seen = 0

    def run(self):
        left, right, out = self.data
        while True:
            wait_for_change(ctypes.addressof(self.word), self.last)
            self.last = self.word.value
            torch.matmul(left, right, out=out)
            self.done.value += 1

    def wait(self):
        wait_for_change(ctypes.addressof(self.done), self.seen)
        self.seen += 1


def custom_kernel(data):
    left, right, out = data
    spinner = kept.get(out.data_ptr())
    if spinner is None:
        spinner = kept[out.data_ptr()] = Spinner(data)
        torch.matmul(left, right, out=out)
        spinner.start()
        print("SPUN", flush=True)
    else:
        spinner.wait()
    return out
