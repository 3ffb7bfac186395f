# id: C09 known_seed
# expect: wrong_answer
import torch


def custom_kernel(data):
    size = len(data[0])
    generator = torch.Generator().manual_seed(7)
    left, right = (torch.randn(size, size, generator=generator).triu() for _ in range(2))
    return left @ right
