# id: T01 clock_patched
# expect: passed
# mode: benchmark
# time_us_min: 19000
import time
import torch

sleep = time.sleep
for name in ("perf_counter", "perf_counter_ns", "time", "time_ns", "monotonic", "monotonic_ns"):
    setattr(time, name, lambda: 0)
time.sleep = lambda seconds: None


class Event:
    def __init__(self, *args, **options):
        pass

    def record(self, *args):
        pass

    def elapsed_time(self, other):
        return 1e-9


torch.cuda.Event = Event
torch.cuda.synchronize = lambda *args: None


def custom_kernel(data):
    left, right, out = data
    sleep(0.02)
    return torch.matmul(left, right, out=out)
