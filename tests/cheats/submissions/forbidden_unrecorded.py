# id: M08 forbidden_unrecorded
# expect: passed
# forbid: torch.matmul
# says: line 13: getattr can hide what is called
# never_says: aten::mm
# It also falsifies the record of its own process: what its text hides is still doubted.
import torch
from torch.utils import _python_dispatch

_python_dispatch.TorchDispatchMode.__enter__ = lambda mode: mode
_python_dispatch.TorchDispatchMode.__exit__ = lambda mode, *error: None

product = getattr(torch, "mat" + "mul")


def custom_kernel(data):
    left, right, out = data
    return product(left, right, out=out)
