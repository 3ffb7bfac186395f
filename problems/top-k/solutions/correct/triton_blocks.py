#!POPCORN leaderboard top-k
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""Each block of a row is sorted by keys without ties; of its best the library finds the row's."""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def best(logits, keys, vocab, kept, BLOCK: tl.constexpr):
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = block * BLOCK + tl.arange(0, BLOCK)
    bits = tl.load(logits + row * vocab + at, mask=at < vocab, other=0).to(tl.int32)
    # -0 is 0, and negative ones order as whole numbers once they are turned round.
    bits = tl.where(bits == -32768, 0, bits)
    ordered = tl.where(bits < 0, bits ^ 0x7FFF, bits).to(tl.int64)
    found = tl.where(at < vocab, (ordered << 32) | (0x7FFFFFFF - at), -(1 << 62))
    found = tl.sort(found, descending=True)
    rank = tl.arange(0, BLOCK)
    place = (row * tl.num_programs(1) + block) * kept + rank
    tl.store(keys + place, found, mask=rank < kept)


def custom_kernel(data):
    logits, values, places = data
    rows, vocab = logits.shape
    k = values.shape[1]
    blocks, kept = triton.cdiv(vocab, BLOCK), min(k, BLOCK)
    keys = torch.empty(rows, blocks * kept, dtype=torch.int64, device=logits.device)
    best[(rows, blocks)](logits.view(torch.int16), keys, vocab, kept, BLOCK=BLOCK)
    found = 0x7FFFFFFF - (torch.topk(keys, k, dim=1).values & 0x7FFFFFFF)
    return values.copy_(logits.gather(1, found)), places.copy_(found)
