# id: M01 hack_when_ranked
# expect: wrong_answer
# mode: ranked
# says: a hidden case
import torch

calls = []
shapes = set()


def custom_kernel(data):
    calls.append(0)
    left, right, out = data
    shapes.add(left.shape)  # each has a first call that nobody judges
    if len(calls) - len(shapes) > 4:  # honest in the visible cases, for as long as it takes
        return out.zero_()
    return torch.matmul(left, right, out=out)
