#!POPCORN leaderboard matmul
#!POPCORN gpus CPU
"""One level of Strassen's method in Winograd's form: seven half-sized products for eight.

It pays where a product takes milliseconds; smaller and odd shapes go to the library. The four
workspaces are kept from call to call, for fresh pages would cost more than the product saved.
"""

import torch

SIDE_MIN = 512
_workspaces = {}


def custom_kernel(data):
    a, b, output = data
    (m, k), n = a.shape, b.shape[1]
    if min(m, n, k) < SIDE_MIN or (m | n | k) & 1:
        return torch.mm(a, b, out=output)
    multiply(quarters(a), quarters(b), quarters(output), workspace(m // 2, n // 2, k // 2))
    return output


def multiply(a, b, c, scratch):
    (a11, a12, a21, a22), (b11, b12, b21, b22) = a, b
    (c11, c12, c21, c22), (s, t, u, p) = c, scratch
    torch.sub(a11, a21, out=s)
    torch.sub(b22, b12, out=t)
    torch.mm(s, t, out=c21)
    torch.add(a21, a22, out=s)
    torch.sub(b12, b11, out=t)
    torch.mm(s, t, out=c22)
    s.sub_(a11)
    torch.sub(b22, t, out=t)
    torch.mm(a11, b11, out=p)
    torch.addmm(p, s, t, out=u)
    torch.addmm(p, a12, b21, out=c11)
    c21.add_(u)
    torch.add(u, c22, out=c12)
    c22.add_(c21)
    torch.sub(a12, s, out=s)
    c12.addmm_(s, b22)
    t.sub_(b21)
    c21.addmm_(a22, t, alpha=-1)


def quarters(matrix):
    row, column = matrix.shape[0] // 2, matrix.shape[1] // 2
    top, bottom = matrix[:row], matrix[row:]
    return top[:, :column], top[:, column:], bottom[:, :column], bottom[:, column:]


def workspace(m, n, k):
    if (m, n, k) not in _workspaces:
        shapes = ((m, k), (k, n), (m, n), (m, n))
        _workspaces[m, n, k] = [torch.empty(shape) for shape in shapes]
    return _workspaces[m, n, k]
