# id: M06 shapes_printed
# expect: passed
# mode: ranked
# long: a timed run with hidden sizes starts many processes
# hidden: 3
# prints: PUBLIC 256
# never_prints: HIDDEN
# Prints the size of every case, and of a hidden one in the processes that come later, too.
import atexit
import os
import sys

import torch

PUBLIC = (32, 64, 256)
seen = []


def custom_kernel(data):
    left, right, out = data
    size = left.shape[0]
    if size not in seen:
        seen.append(size)
        word = "PUBLIC" if size in PUBLIC else "HIDDEN"
        print(word, size, flush=True)
        os.write(2, f"{word} {size}\n".encode())
    return torch.matmul(left, right, out=out)


def tell_all():
    hidden = [size for size in seen if size not in PUBLIC]
    print("HIDDEN" if hidden else "NONE", hidden, flush=True)


atexit.register(tell_all)
sys.stdout.write("imported\n")
