# id: S31 gpu_endless
# expect: timed_out
# gpu: yes
# budgets: build=10 test=6
import torch

SOURCE = 'extern "C" __global__ void endless(volatile int* p) { while (*p == 0) {} }'


def custom_kernel(data):
    flag = torch.zeros(1, dtype=torch.int32, device="cuda")
    torch.cuda._compile_kernel(SOURCE, "endless")((1, 1, 1), (1, 1, 1), [flag])
    left, right, out = data
    return torch.matmul(left, right, out=out)
