# id: control honest
# expect: passed
# mode: benchmark
import time
import torch
from task import input_t, output_t

# The least that the timed case takes in a hot loop, without a handshake: nothing may be faster.
left, right, out = torch.randn(256, 256).triu(), torch.randn(256, 256).triu(), torch.empty(256, 256)
alone = []
for _ in range(300):
    began = time.perf_counter_ns()
    torch.matmul(left, right, out=out)
    alone.append(time.perf_counter_ns() - began)
print("ALONE_US", min(alone) / 1000, flush=True)


def custom_kernel(data: input_t) -> output_t:
    left, right, out = data
    return torch.matmul(left, right, out=out)
