# id: C15 gpu_half_precision
# expect: wrong_answer
# gpu: yes
# A problem in float32 is computed in bfloat16, which tensor cores do many times as fast.
import torch


def custom_kernel(data):
    left, right, out = data
    return out.copy_(torch.matmul(left.bfloat16(), right.bfloat16()))
