# id: T08 dones_queued
# expect: protocol
import sys

control = sys._getframe(1)
while "control" not in control.f_locals:
    control = control.f_back
for _ in range(50):
    control.f_locals["control"].send(b"D" + b"x" * 16)


def custom_kernel(data):
    return data[2]
