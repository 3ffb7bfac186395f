# id: T12 cache_by_value
# expect: passed
# mode: benchmark
# never_prints: HIT
import torch

answers = {}


def custom_kernel(data):  # legal, and never of use
    left, right, out = data
    key = hash(left.numpy().tobytes())
    if key in answers:
        print("HIT", flush=True)
    answers[key] = left @ right
    return out.copy_(answers[key])
