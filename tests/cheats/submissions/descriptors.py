# id: T27 descriptors
# expect: protocol crashed
import os

import torch


def custom_kernel(data):
    for descriptor in range(256):
        try:
            os.write(descriptor, b"passed")
        except OSError:
            pass
    for descriptor in range(256):
        try:
            os.close(descriptor)
        except OSError:
            pass
    return data[2]
