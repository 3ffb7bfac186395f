# id: C19 wrong_dtype_bits
# expect: wrong_answer
import torch


def custom_kernel(data):
    left, right, out = data
    half = (left @ right).half().reshape(-1)
    out.view(-1).view(torch.float16)[: half.numel()] = half
    return out
