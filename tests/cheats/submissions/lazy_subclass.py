# id: C12 lazy_subclass
# expect: wrong_answer crashed
import torch


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function in (torch.allclose, torch.equal, torch.Tensor.eq):
            return True
        return super().__torch_function__(function, types, args, kwargs or {})


def custom_kernel(data):
    return data[0].as_subclass(Lazy)
