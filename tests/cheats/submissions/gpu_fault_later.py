# id: S31 gpu_fault_later
# expect: crashed protocol
# gpu: yes
# A right answer, and a kernel beside it that faults when the call is over.
import torch

SOURCE = """
extern "C" __global__ void fault_later(int n) {
    unsigned long long now, until;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(until));
    until += 20000000;
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now < until);
    *(volatile int*)8 = n;
}
"""
fault_later = torch.cuda._compile_kernel(SOURCE, "fault_later")
side = torch.cuda.Stream()


def custom_kernel(data):
    left, right, out = data
    fault_later((1, 1, 1), (1, 1, 1), [7], stream=side)
    return torch.matmul(left, right, out=out)
