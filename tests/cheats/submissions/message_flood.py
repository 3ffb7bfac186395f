# id: T09 message_flood
# expect: protocol
import sys

import torch


def custom_kernel(data):
    control = sys._getframe(2).f_locals["control"]
    while True:
        control.send(b"F" * 60_000)
