# id: T05 gpu_thread_later
# expect: wrong_answer late_write
# gpu: yes
import threading
import time

import torch


def later(data):
    time.sleep(0.002)
    left, right, out = data
    torch.matmul(left, right, out=out)


def custom_kernel(data):
    threading.Thread(target=later, args=(data,)).start()
    return data[2]
