# id: M07 forbidden_hidden
# expect: passed
# forbid: torch.matmul
# says: aten::mm ran 1 times in a call (torch.matmul is not allowed)
# The text names no product, so only the record of a call shows it, and a moderator decides.
import torch

product = getattr(torch, "mat" + "mul")


def custom_kernel(data):
    left, right, out = data
    return product(left, right, out=out)
