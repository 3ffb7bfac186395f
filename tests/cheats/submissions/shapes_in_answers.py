# id: M06 shapes_in_answers
# expect: wrong_answer
# mode: ranked
# hidden: 3
# never_says: differ
# Makes as many elements wrong as the hidden size has rows, and writes the size into them.
import torch


def custom_kernel(data):
    left, right, out = data
    torch.matmul(left, right, out=out)
    if left.shape[0] not in (32, 64, 256):
        out.view(-1)[: left.shape[0]] = float(left.shape[0])
    return out
