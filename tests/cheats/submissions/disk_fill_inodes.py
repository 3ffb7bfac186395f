# id: S12 disk_fill
# expect: passed crashed import_error out_of_memory timed_out
# level: medium
# launchers: zygote
# budgets: build=20
# never_prints: GAINED
# Empty files take no room but their names; a quarter of a million of them is too many. Bubblewrap
# cannot limit their number: there they count as memory.
import os

import torch

os.makedirs("many", exist_ok=True)
made = 0
try:
    while made < 250_000:
        os.close(os.open(f"many/{made}", os.O_CREAT | os.O_WRONLY, 0o600))
        made += 1
    print("GAINED", made, "files", flush=True)
except OSError:
    pass
print("MADE", made, flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
