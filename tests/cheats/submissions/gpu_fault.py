# id: S31 gpu_fault
# expect: crashed
# gpu: yes
import torch

SOURCE = 'extern "C" __global__ void fault(int n) { *(volatile int*)8 = n; }'


def custom_kernel(data):
    torch.cuda._compile_kernel(SOURCE, "fault")((1, 1, 1), (1, 1, 1), [7])
    left, right, out = data
    return torch.matmul(left, right, out=out)
