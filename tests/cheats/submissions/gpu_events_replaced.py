# id: T03 gpu_events_replaced
# expect: passed
# gpu: yes
# mode: benchmark
# time_us_min: 15000
# The events of torch are replaced by ones between which no time passes, and waiting for the device
# does nothing.
import torch


class Event:
    def __init__(self, *arguments, **options):
        pass

    def record(self, stream=None):
        pass

    def wait(self, stream=None):
        pass

    def query(self):
        return True

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 1e-6


torch.cuda.init()
torch.cuda.Event = torch.Event = Event
torch.cuda.synchronize = lambda device=None: None


def custom_kernel(data):
    left, right, out = data
    torch.cuda._sleep(40_000_000)
    return torch.matmul(left, right, out=out)
