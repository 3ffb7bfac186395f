# id: T14 peek_spinner
# expect: wrong_answer late_write passed
# mode: benchmark
# check: no_gain
import threading

import torch

seen = {}


def spin():
    while True:
        left, right, out = seen["data"]
        last = right.reshape(-1)[0].item()
        if last != seen.get("last"):
            seen["last"] = last
            torch.matmul(left, right, out=out)


def custom_kernel(data):
    if "data" not in seen:
        seen["data"] = data
        threading.Thread(target=spin, daemon=True).start()
        return torch.matmul(data[0], data[1], out=data[2])
    if data[2].data_ptr() != seen["data"][2].data_ptr():
        seen["data"] = data
        return torch.matmul(data[0], data[1], out=data[2])
    return data[2]
