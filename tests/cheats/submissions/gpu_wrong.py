# id: control gpu_wrong
# expect: wrong_answer
# gpu: yes
import torch


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, left, out=out)
