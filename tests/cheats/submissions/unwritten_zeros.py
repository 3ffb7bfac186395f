# id: C14 unwritten_zeros
# expect: wrong_answer
import torch


def custom_kernel(data):
    left, right, out = data
    product = left @ right
    for row in range(len(out)):  # all that lies below the diagonal is zero in every answer
        out[row, row:] = product[row, row:]
    return out
