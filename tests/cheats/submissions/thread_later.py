# id: T05 thread_later
# expect: wrong_answer late_write
import threading
import time

import torch


def later(left, right, out):
    time.sleep(0.25)  # longer than a busy machine may keep a core
    torch.matmul(left, right, out=out)


def custom_kernel(data):
    threading.Thread(target=later, args=data).start()
    return data[2]
