# id: C12 lazy_subclass
# expect: wrong_answer
# says: Lazy float32[32, 32], expected a dense torch.Tensor float32[32, 32]
class Lazy:
    def __init__(self, data):
        self.data = data

    def __getattr__(self, name):
        left, right, _ = self.data
        return getattr(left @ right, name)


def custom_kernel(data):
    return Lazy(data)
