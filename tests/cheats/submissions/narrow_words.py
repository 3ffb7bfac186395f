# id: C15 low_precision
# expect: wrong_answer
# problem: words
# answers: checked
# Half of the bytes are written where the check may judge a narrower dtype; the other half is lost.
import torch


def custom_kernel(data):
    return data.flip(0).to(torch.int32)
