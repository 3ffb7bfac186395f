# id: C13 one_element_wrong
# expect: wrong_answer
# says: 1 of
import torch


def custom_kernel(data):
    left, right, out = data
    torch.matmul(left, right, out=out)
    out[-1, -1] += 1
    return out
