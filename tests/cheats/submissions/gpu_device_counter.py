# id: C18 gpu_device_counter
# expect: wrong_answer late_write protocol timed_out
# gpu: yes
# All that is shared is filled with zeros: mailbox, inputs, and whatever counter lies there.
import torch


def custom_kernel(data):
    left, right, out = data
    for tensor in (left, out):
        torch.empty(0, dtype=torch.uint8, device="cuda").set_(tensor.untyped_storage()).zero_()
    return out
