# id: C02 uninitialised
# expect: wrong_answer
import torch


def custom_kernel(data):
    left, right, out = data
    for _ in range(50):
        found = torch.empty(out.shape)
        if torch.allclose(found[0, :4], left[0, :4] @ right[:4, :4], atol=1e-3):
            return found
    return torch.empty(out.shape)
