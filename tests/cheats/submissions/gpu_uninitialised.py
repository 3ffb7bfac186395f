# id: C02 gpu_uninitialised
# expect: wrong_answer
# gpu: yes
# New memory may hold what somebody computed: it is handed in as the answer.
import torch


def custom_kernel(data):
    left, right, out = data
    return torch.empty_like(out)
