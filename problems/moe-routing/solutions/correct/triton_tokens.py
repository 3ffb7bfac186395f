#!POPCORN leaderboard moe-routing
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A token for each program: its best experts one after the other, by keys without ties."""

import torch
import triton
import triton.language as tl


@triton.jit
def route(
    logits, experts, weights, counts, count, chosen, BLOCK: tl.constexpr, RANKS: tl.constexpr
):
    token = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(logits + token * count + at, mask=at < count, other=0.0)
    # Floats order as whole numbers once the negative ones are turned round; -0 is made 0 first.
    bits = tl.where(values == 0, 0, values.to(tl.int32, bitcast=True))
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)
    least = -(1 << 62)
    keys = tl.where(at < count, (ordered << 16) | (0xFFFF - at), least)
    ranks = tl.arange(0, RANKS)
    best = tl.full((RANKS,), float("-inf"), tl.float32)
    for rank in range(chosen):
        key = tl.max(keys, 0)
        expert = (0xFFFF - (key & 0xFFFF)).to(tl.int32)
        value = tl.sum(tl.where(at == expert, values, 0.0), 0)
        best = tl.where(ranks == rank, value, best)
        keys = tl.where(at == expert, least, keys)
        tl.store(experts + token * chosen + rank, expert)
        tl.atomic_add(counts + expert, 1)
    powers = tl.exp(best - tl.max(best, 0))
    tl.store(weights + token * chosen + ranks, powers / tl.sum(powers, 0), mask=ranks < chosen)


def custom_kernel(data):
    logits, experts, weights, counts, order = data
    tokens, count = logits.shape
    chosen = experts.shape[1]
    sizes = {"BLOCK": triton.next_power_of_2(count), "RANKS": triton.next_power_of_2(chosen)}
    counts.zero_()
    route[(tokens,)](logits, experts, weights, counts, count, chosen, **sizes)
    order.copy_(torch.sort(experts.flatten(), stable=True).indices)
    return experts, weights, counts, order
