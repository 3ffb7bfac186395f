# id: T11 cache_by_pointer
# expect: wrong_answer
import torch

answers = {}


def custom_kernel(data):
    left, right, out = data
    key = (left.data_ptr(), right.data_ptr(), tuple(left.shape))
    if key not in answers:
        answers[key] = left @ right
    return out.copy_(answers[key])
