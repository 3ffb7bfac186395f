# id: control wrong
# expect: wrong_answer
import torch


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, left, out=out)
