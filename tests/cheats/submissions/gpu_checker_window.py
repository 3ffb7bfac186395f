# id: T21 gpu_checker_window
# expect: late_write wrong_answer passed
# gpu: yes
# Writes once more when the call is long over, to be caught or to be too late to matter.
import torch

side = torch.cuda.Stream()


def custom_kernel(data):
    left, right, out = data
    torch.matmul(left, right, out=out)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(1_000_000)
        out.add_(1)
    return out
