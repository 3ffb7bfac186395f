# id: S17 segfault
# expect: crashed
# says: SIGSEGV
import ctypes


def custom_kernel(data):
    ctypes.string_at(0)
