# id: T04 gpu_second_stream
# expect: wrong_answer late_write
# gpu: yes
import torch

side = torch.cuda.Stream()


def custom_kernel(data):
    left, right, out = data
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(2_000_000)
        torch.matmul(left, right, out=out)
    return out
