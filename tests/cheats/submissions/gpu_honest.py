# id: control gpu_honest
# expect: passed
# gpu: yes
# mode: benchmark
import torch

# The least that the timed case takes in a hot loop, by events: nothing may be faster.
left, right, out = (torch.randn(1024, 1024, device="cuda").triu() for _ in range(3))
alone = []
for _ in range(100):
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    torch.matmul(left, right, out=out)
    after.record()
    torch.cuda.synchronize()
    alone.append(1000 * before.elapsed_time(after))
print("ALONE_US", min(alone), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
