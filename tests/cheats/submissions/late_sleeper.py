# id: S16 sleep_at_import
# expect: timed_out
# long: it sleeps until its budget is over
# mode: ranked
# budgets: build=3
# Quick when it is built, and asleep in every later process, as the age of its own file tells.
import os
import time

import torch

if time.time() - os.stat(__file__).st_mtime > 1.5:
    time.sleep(60)


def custom_kernel(data):
    left, right, out = data
    time.sleep(0.4)
    return torch.matmul(left, right, out=out)
