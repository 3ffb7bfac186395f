# id: S21 bad_messages
# expect: protocol
import sys


def custom_kernel(data):
    control = sys._getframe(2).f_locals["control"]
    control.send(b"F" + b"[" * 10_000)
    return data[2]
