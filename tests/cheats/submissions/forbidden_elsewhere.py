# id: M09 forbidden_elsewhere
# expect: policy
# forbid: torch.matmul
# says: line 14: numpy.linalg.matmul (torch.matmul is not allowed)
# What computes the product is a function of another library.
import numpy as np
import torch


def custom_kernel(data):
    left, right, out = data
    rows = [np.matvec(right.numpy().T, row) for row in left.numpy()]
    assert len(rows) == len(left)
    product = np.linalg.matmul(left.numpy(), right.numpy())
    return out.copy_(torch.from_numpy(product))
