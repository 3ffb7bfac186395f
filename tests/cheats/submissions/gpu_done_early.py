# id: T06 gpu_done_early
# expect: wrong_answer late_write protocol timed_out
# gpu: yes
# The mailbox lies in the memory of the inputs: done is said there before the work begins.
import sys

import torch

BEFORE_END = 4096
DONE_AT = 64


def custom_kernel(data):
    left, right, out = data
    frame, nonce = sys._getframe(0), None
    while frame and nonce is None:
        found = [getattr(value, "_nonce", None) for value in frame.f_locals.values()]
        nonce = next((one for one in found if isinstance(one, bytes) and len(one) == 16), None)
        frame = frame.f_back
    if nonce:
        flat = torch.empty(0, dtype=torch.uint8, device="cuda").set_(left.untyped_storage())
        at = len(flat) - BEFORE_END + DONE_AT
        word = int.from_bytes(nonce[4:8], "little") | 1
        flat[at : at + 4].view(torch.int32).fill_(word - (word >> 31 << 32))
    torch.cuda._sleep(4_000_000)
    return torch.matmul(left, right, out=out)
