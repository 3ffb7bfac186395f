import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, experts, weights, counts, order = data
    # Your kernel goes here. This one sends every token to the first experts.
    experts.copy_(torch.arange(experts.shape[1], device=experts.device).expand_as(experts))
    weights.fill_(1 / experts.shape[1])
    counts.zero_()[: experts.shape[1]] = len(logits)
    return experts, weights, counts, order.copy_(torch.arange(len(order), device=order.device))
