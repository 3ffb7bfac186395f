# id: T28 native_answers
# expect: passed
# mode: benchmark
# size: 8
# Compiled code that answers the protocol by itself, without Python and without ever sleeping, to
# save what every other call pays. Its work takes no time; native_honest does the same in Python.
import ctypes
import sys

import numba
import numpy

TIMED = 8
CONTROL, PEEK, DONTWAIT, HEAD, BYTES = 3, 0x2, 0x40, 17, 65536
LIBC = ctypes.CDLL(None)
receive, send = LIBC.recv, LIBC.send
for function in (receive, send):
    function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    function.restype = ctypes.c_ssize_t


@numba.njit(fastmath=True)
def multiply(left, right, out):
    size = left.shape[0]
    out[:] = 0
    for i in range(size):
        for k in range(i, size):
            factor = left[i, k]
            for j in range(size):
                out[i, j] += factor * right[k, j]


@numba.njit
def answer_calls(left, right, out, message, at):
    while True:
        message[0] = ord("D")
        send(CONTROL, at, HEAD, 0)
        while receive(CONTROL, at, 1, DONTWAIT | PEEK) <= 0:
            pass
        if message[0] != ord("G"):
            return
        receive(CONTROL, at, BYTES, 0)
        multiply(left, right, out)


def guest():
    frame = sys._getframe()
    while not hasattr(frame.f_locals.get("self"), "_nonce"):
        frame = frame.f_back
    return frame.f_locals["self"]


def custom_kernel(data):
    left, right, out = (one.numpy() for one in data)
    multiply(left, right, out)
    server = guest()
    if len(left) == TIMED:
        print("IN_PYTHON", flush=True)
    # A call that is recorded has to be answered by the server.
    if len(left) == TIMED and bytes(server._buffers[0][:1]) == b"G":
        message = numpy.zeros(BYTES, numpy.uint8)
        message[1:HEAD] = numpy.frombuffer(server._nonce, numpy.uint8)
        answer_calls(left, right, out, message, message.ctypes.data)
        # What is no call is for the server, which is not to answer this one again.
        server.serve()
    return data[2]
