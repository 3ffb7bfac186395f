"""What a problem's shortcut policy forbids: libraries, and functions that do the same work."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.problem import ShortcutPolicy

# The same list is in shared/problems/warpboard_yml.py.
LIBRARIES = ("cublas", "cudnn", "cufft", "cusolver", "cusparse", "cutlass")


@dataclass(frozen=True)
class Family:
    """Functions of torch that do the same work, so that forbidding one forbids all.

    `functions` are below `torch`; `methods` are those of tensors, and all names of operators.
    `others` are functions of other modules. `libraries` compute it on a GPU.
    """

    functions: tuple[str, ...]
    methods: tuple[str, ...]
    others: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    has_operator: bool = False


_PRODUCTS = ("matmul", "mm", "bmm", "addmm", "addbmm", "baddbmm", "mv", "addmv", "dot", "vdot")
_CONVOLUTIONS = tuple(f"conv{way}{n}d" for way in ("", "_transpose") for n in (1, 2, 3))
FAMILIES = (
    Family(
        functions=(
            *_PRODUCTS,
            *("inner", "einsum", "tensordot", "chain_matmul", "_scaled_mm", "_grouped_mm"),
            *("linalg.matmul", "linalg.multi_dot", "linalg.vecdot", "bilinear"),
            *("nn.functional.linear", "nn.functional.bilinear", "nn.Linear", "nn.Bilinear"),
        ),
        methods=(
            *_PRODUCTS,
            *(f"{name}_" for name in ("addmm", "addbmm", "baddbmm", "addmv")),
            *("inner", "linear", "_addmm_activation", "_scaled_mm", "_grouped_mm", "_int_mm"),
            *("__matmul__", "__rmatmul__", "__imatmul__"),
        ),
        others=(
            *("numpy.matmul", "numpy.dot", "numpy.einsum", "numpy.inner", "numpy.tensordot"),
            *("operator.matmul", "operator.imatmul", "cupy.matmul", "cupy.dot"),
            *("scipy.linalg.blas", "scipy.linalg.cython_blas"),
        ),
        libraries=("cublas",),
        has_operator=True,
    ),
    Family(
        functions=(
            *_CONVOLUTIONS,
            *(f"nn.functional.{name}" for name in _CONVOLUTIONS),
            *(f"nn.Conv{way}{n}d" for way in ("", "Transpose") for n in (1, 2, 3)),
            *("convolution", "cudnn_convolution"),
        ),
        methods=("convolution", "_convolution", "cudnn_convolution", "mkldnn_convolution"),
        libraries=("cudnn",),
    ),
    Family(
        functions=("nn.functional.scaled_dot_product_attention", "nn.MultiheadAttention"),
        methods=(
            *("scaled_dot_product_attention", "_scaled_dot_product_flash_attention"),
            *("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"),
            "_scaled_dot_product_flash_attention_for_cpu",
        ),
    ),
    Family(
        functions=("softmax", "nn.functional.softmax", "nn.Softmax", "special.softmax"),
        methods=("softmax", "_softmax"),
    ),
    Family(
        functions=("sort", "argsort", "msort", "topk", "unique"),
        methods=("sort", "argsort", "msort", "topk", "unique", "_unique2"),
    ),
)

# The modules of Python that call a library.
_MODULES: Mapping[str, tuple[str, ...]] = {
    "cublas": ("cupy.cublas", "nvmath.linalg", "nvidia.cublas"),
    "cudnn": ("cudnn", "nvidia.cudnn"),
    "cufft": ("torch.fft", "cupy.fft", "nvmath.fft"),
    "cusolver": ("cupy.cusolver", "cupyx.cusolver"),
    "cusparse": ("cupy.cusparse", "cupyx.cusparse", "torch.sparse"),
    "cutlass": ("cutlass", "cutlass_library"),
}


class Rules:
    """A policy as the names to look for; each maps to the entry of `forbid` that it falls under."""

    def __init__(self, policy: ShortcutPolicy) -> None:
        self.requires_own_kernel = policy.own_kernel == "required"
        self.libraries = [name for name in policy.forbid if name in LIBRARIES]
        self.paths: dict[str, str] = {}
        self.methods: dict[str, str] = {}
        # The last parts of the names of all these functions.
        self.names: set[str] = set()
        self.operator = ""
        for name in policy.forbid:
            if name in LIBRARIES:
                for family in FAMILIES:
                    if name in family.libraries:
                        self._add(family, f"{name}, which it calls,")
                self.paths |= dict.fromkeys(_MODULES[name], name)
                continue
            path = name.removeprefix("torch.")
            last = path.rpartition(".")[2]
            matching = [item for item in FAMILIES if path in item.functions]
            alone = Family((path, f"{path}_"), (last, f"{last}_", f"_{last}"))
            for family in matching or [alone]:
                self._add(family, name)

    def _add(self, family: Family, entry: str) -> None:
        self.names.update(path.rpartition(".")[2] for path in family.functions)
        for path in family.functions:
            self.paths.setdefault(f"torch.{path}", entry)
            self.paths.setdefault(f"torch.Tensor.{path}", entry)
        for path in family.others:
            self.paths.setdefault(path, entry)
        for name in family.methods:
            self.methods.setdefault(name, entry)
            self.paths.setdefault(f"torch.Tensor.{name}", entry)
            self.paths.setdefault(f"torch.ops.aten.{name}", entry)
        if family.has_operator:
            self.operator = self.operator or entry

    def entry_of_path(self, path: str) -> str:
        """Return the entry that a dotted name falls under, "" if it is allowed."""
        while path:
            if path in self.paths:
                return self.paths[path]
            path = path.rpartition(".")[0]
        return ""
