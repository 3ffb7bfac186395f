# id: S32 gpu_leftovers
# expect: passed
# runs: 2
# gpu: yes
# prints: LOOKED
# never_prints: MARKS FOUND
# The first run leaves marks in memory of the device, the second looks for them in fresh memory.
import torch

MARK = 0x5EC2E75EC2E7
memory = torch.empty(256 << 20, dtype=torch.int64, device="cuda")
print("LOOKED", flush=True)
if bool((memory == MARK).any()):
    print("MARKS " + "FOUND", flush=True)
memory.fill_(MARK)
torch.cuda.synchronize()


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
