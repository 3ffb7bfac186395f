# id: T30 probe_cache
# expect: passed
# mode: benchmark
# probe_ratio_max: 1.03
# Leaves the caches full of its own data, for a slow probe makes a score better.
import torch

junk = torch.zeros(16 * 1024 * 1024)


def custom_kernel(data):
    left, right, out = data
    torch.matmul(left, right, out=out)
    junk.add_(1)
    return out
