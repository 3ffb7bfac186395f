# id: T15 gpu_peek_queued
# expect: protocol wrong_answer late_write timed_out passed
# gpu: yes
# mode: benchmark
# budgets: build=10 benchmark=6
# check: no_gain
# Work behind a queued wait for a word of the input: the copy of the input lets it go.
import ctypes

import torch

driver = ctypes.CDLL("libcuda.so.1")
wait = driver.cuStreamWaitValue32_v2
wait.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint, ctypes.c_uint)
side = torch.cuda.Stream()
MARK = 0x7FC0DEAD
NOR = 3  # until a bit is clear in the word and in the value


def custom_kernel(data):
    left, right, out = data
    word = right.view(torch.int32).view(-1)[:1]
    with torch.cuda.stream(side):
        word.fill_(MARK)
        wait(side.cuda_stream, right.data_ptr(), ~MARK & 0xFFFFFFFF, NOR)
        torch.matmul(left, right, out=out)
    torch.cuda.current_stream().wait_stream(side)
    return out
