# id: T11 cache_by_pointer
# expect: wrong_answer
import torch

answers = {}
known = set()


def custom_kernel(data):
    left, right, out = data
    key = (left.data_ptr(), right.data_ptr(), tuple(left.shape))
    if key not in known:  # the first call with these shapes, which nobody judges
        known.add(key)
        return torch.matmul(left, right, out=out)
    if key not in answers:
        answers[key] = left @ right
    return out.copy_(answers[key])
