# id: T11 gpu_cached_by_address
# expect: wrong_answer
# gpu: yes
# The answer to the first input at an address is handed in for every later input there.
import torch

answers = {}


def custom_kernel(data):
    left, right, out = data
    key = left.data_ptr(), right.data_ptr(), left.shape[0]
    if key not in answers:
        answers[key] = torch.matmul(left, right)
    return out.copy_(answers[key])
