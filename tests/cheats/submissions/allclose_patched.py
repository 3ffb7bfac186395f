# id: C05 allclose_patched
# expect: wrong_answer
import sys
import types

import torch

torch.allclose = torch.equal = lambda *args, **options: True
torch.isclose = lambda left, *args, **options: torch.ones_like(left, dtype=torch.bool)
reference = types.ModuleType("reference")
reference.check_implementation = lambda *args: (True, "")
reference.ref_kernel = lambda data: data[2]
sys.modules["reference"] = reference
import utils

utils.match_reference = utils.verbose_allclose = lambda *args, **options: (True, "")


def custom_kernel(data):
    return data[2].fill_(1)
