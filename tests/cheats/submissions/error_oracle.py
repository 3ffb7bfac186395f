# id: M02 error_oracle
# expect: crashed
# mode: ranked
# never_says: ORACLE
# Honest while it is watched; then it shouts what it sees of a hidden case.
import torch

calls = []
shapes = set()


def custom_kernel(data):
    calls.append(0)
    left, right, out = data
    shapes.add(left.shape)  # each has a first call that nobody judges
    if len(calls) - len(shapes) > 4:
        raise ValueError(f"ORACLE {left[0, :4].tolist()} of {tuple(left.shape)}")
    return torch.matmul(left, right, out=out)
