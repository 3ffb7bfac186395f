# id: M10 forbidden_substitute
# expect: passed
# forbid: torch.matmul cublas
# says: aten::convolution ran 1 times in a call and can do the work of torch.matmul
# A convolution whose window has one element is a product, so a moderator decides.
import torch


def custom_kernel(data):
    left, right, out = data
    signal, weights = right.unsqueeze(0), left.unsqueeze(2)
    product = torch.nn.functional.conv1d(signal, weights)
    return out.copy_(product.squeeze(0))
