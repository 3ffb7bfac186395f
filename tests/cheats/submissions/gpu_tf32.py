# id: C15 gpu_tf32
# expect: wrong_answer
# gpu: yes
# A problem in float32 is computed with ten bits of each factor, on tensor cores.
import torch

torch.backends.cuda.matmul.allow_tf32 = True


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
