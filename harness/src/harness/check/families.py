"""What library functions compute, as one table: functions of one family do the same work.

A shortcut policy that forbids one function forbids its family, in every library. The page
docs/shortcuts.md is generated from this table.
"""

from collections.abc import Iterator
from dataclasses import dataclass

# Libraries that have the functions of NumPy, and those that have the functions of SciPy.
NUMPY_LIKE = ("numpy", "cupy", "jax.numpy")
SCIPY_LIKE = ("scipy", "cupyx.scipy", "jax.scipy")


@dataclass(frozen=True)
class Family:
    """Functions that do the same work.

    `torch`, `numpy` and `scipy` are names below these modules and below those that have the same
    functions; a name stands for everything below it, too. `others` are full names. `operators` are
    the methods of tensors and the operators that torch dispatches. `libraries` compute it on a GPU.
    `can_do` are the titles of families whose work it can do as well, such as a product by a
    convolution: not forbidden with them, but doubted.
    """

    title: str
    torch: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    numpy: tuple[str, ...] = ()
    scipy: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    can_do: tuple[str, ...] = ()
    has_operator: bool = False

    def paths(self) -> Iterator[str]:
        """Yield the full names of all functions."""
        for path in self.torch:
            yield f"torch.{path}"
            yield f"torch.Tensor.{path}"
        for name in self.operators:
            yield f"torch.Tensor.{name}"
            yield f"torch.ops.aten.{name}"
        for modules, names in ((NUMPY_LIKE, self.numpy), (SCIPY_LIKE, self.scipy)):
            yield from (f"{module}.{name}" for module in modules for name in names)
        yield from self.others

    def has(self, path: str) -> bool:
        """Return whether a name below `torch` belongs to it."""
        return any(path == name or path.startswith(f"{name}.") for name in self.torch)


_DIMENSIONS = (1, 2, 3)
_PRODUCTS = (
    *("matmul", "mm", "bmm", "addmm", "addbmm", "baddbmm", "mv", "addmv", "dot", "vdot"),
    *("matrix_exp", "matrix_power", "smm", "hspmm", "sspaddmm", "_int_mm"),
)
# Not what lies beside them, such as fftfreq and fftshift, which transform nothing.
_FFTS = (
    *(
        f"{way}{kind}fft{axes}"
        for way in ("", "i")
        for kind in ("", "r")
        for axes in ("", "2", "n")
    ),
    *("hfft", "ihfft"),
)
_HERMITIAN_FFTS = ("hfft2", "hfftn", "ihfft2", "ihfftn")
_COSINES = tuple(
    f"{way}{kind}{axes}" for way in ("", "i") for kind in ("dct", "dst") for axes in ("", "n")
)
_CONVOLUTIONS = (
    *(f"conv{way}{n}d" for way in ("", "_transpose") for n in _DIMENSIONS),
    "conv_tbc",
)
_CONVOLUTION_OPERATORS = ("convolution", "cudnn_convolution", "cudnn_convolution_transpose")
_CELLS = ("lstm", "gru", "rnn_tanh", "rnn_relu")

PRODUCTS, CONVOLUTIONS, SOFTMAX, SORTING = (
    *("matrix products", "convolutions", "softmax", "sorting"),
)
SOLVING = "solving linear systems"
CHOLESKY, LU, QR, SVD, EIGEN = (
    *("Cholesky factorization", "LU factorization", "QR factorization"),
    *("singular values", "eigenvalues"),
)

FAMILIES = (
    Family(
        PRODUCTS,
        torch=(
            *_PRODUCTS,
            *("inner", "einsum", "tensordot", "chain_matmul", "_scaled_mm", "_grouped_mm"),
            *("linalg.matmul", "linalg.multi_dot", "linalg.vecdot", "linalg.matrix_power"),
            *("linalg.matrix_exp", "bilinear", "_trilinear"),
            *("nn.functional.linear", "nn.functional.bilinear", "nn.Linear", "nn.Bilinear"),
            *("sparse.mm", "sparse.addmm", "sparse.sampled_addmm"),
        ),
        operators=(
            *_PRODUCTS,
            *(f"{name}_" for name in ("addmm", "addbmm", "baddbmm", "addmv")),
            *("inner", "linear", "_addmm_activation", "_scaled_mm", "_grouped_mm", "_trilinear"),
            *("linalg_matrix_exp", "linalg_vecdot", "_sparse_mm", "_sparse_addmm"),
            *("sparse_sampled_addmm", "_sparse_semi_structured_mm", "_weight_int4pack_mm"),
            *("_weight_int8pack_mm", "__matmul__", "__rmatmul__", "__imatmul__"),
        ),
        numpy=(
            *("matmul", "dot", "vdot", "inner", "einsum", "tensordot", "matvec", "vecmat"),
            *("vecdot", "linalg.matmul", "linalg.multi_dot", "linalg.tensordot"),
            *("linalg.vecdot", "linalg.matrix_power", "matrix", "asmatrix"),
        ),
        scipy=("linalg.blas", "linalg.cython_blas", "linalg.expm", "linalg.matmul_toeplitz"),
        others=(
            *("operator.matmul", "operator.imatmul", "opt_einsum.contract", "einops.einsum"),
            *("jax.lax.dot", "jax.lax.dot_general", "jax.lax.batch_matmul"),
        ),
        libraries=("cublas",),
        has_operator=True,
    ),
    Family(
        CONVOLUTIONS,
        torch=(
            *_CONVOLUTIONS,
            *_CONVOLUTION_OPERATORS,
            *(f"nn.functional.{name}" for name in _CONVOLUTIONS),
            *(
                f"nn.{lazy}Conv{way}{n}d"
                for lazy in ("", "Lazy")
                for way in ("", "Transpose")
                for n in _DIMENSIONS
            ),
        ),
        operators=(
            *_CONVOLUTIONS,
            *_CONVOLUTION_OPERATORS,
            *("_convolution", "convolution_overrideable", "mkldnn_convolution"),
            *("miopen_convolution", "slow_conv3d", "_slow_conv2d_forward"),
        ),
        numpy=("convolve", "correlate"),
        scipy=(
            *("signal.convolve", "signal.convolve2d", "signal.correlate", "signal.correlate2d"),
            *("signal.fftconvolve", "signal.oaconvolve", "signal.lfilter", "ndimage.convolve"),
            *("ndimage.convolve1d", "ndimage.correlate", "ndimage.correlate1d"),
        ),
        others=(
            *("jax.lax.conv", "jax.lax.conv_general_dilated", "jax.lax.conv_transpose"),
            *("jax.lax.conv_with_general_padding", "jax.lax.conv_general_dilated_local"),
        ),
        libraries=("cudnn",),
        can_do=(PRODUCTS,),
    ),
    Family(
        "attention",
        torch=(
            *("nn.functional.scaled_dot_product_attention", "nn.MultiheadAttention"),
            *("nn.functional.multi_head_attention_forward", "nn.attention"),
        ),
        operators=(
            *("scaled_dot_product_attention", "_scaled_dot_product_flash_attention"),
            *("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"),
            *("_scaled_dot_product_flash_attention_for_cpu", "_native_multi_head_attention"),
            "_scaled_dot_product_attention_math",
        ),
        others=("jax.nn.dot_product_attention",),
        can_do=(PRODUCTS, SOFTMAX),
    ),
    Family(
        SOFTMAX,
        torch=(
            *("softmax", "log_softmax", "special.softmax", "special.log_softmax"),
            *(
                f"nn.functional.{name}softm{end}"
                for name, end in (("", "ax"), ("log_", "ax"), ("", "in"), ("gumbel_", "ax"))
            ),
            *("nn.Softmax", "nn.LogSoftmax", "nn.Softmin", "nn.Softmax2d"),
        ),
        operators=("softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax"),
        scipy=("special.softmax", "special.log_softmax"),
        others=("jax.nn.softmax", "jax.nn.log_softmax"),
    ),
    Family(
        "log-sum-exp and cross-entropy",
        torch=(
            *("logsumexp", "special.logsumexp", "logcumsumexp"),
            *("nn.functional.cross_entropy", "nn.CrossEntropyLoss"),
        ),
        operators=("logsumexp", "special_logsumexp", "logcumsumexp", "cross_entropy_loss"),
        scipy=("special.logsumexp",),
        others=("jax.nn.logsumexp",),
        can_do=(SOFTMAX,),
    ),
    Family(
        SORTING,
        torch=("sort", "argsort", "msort", "topk", "unique"),
        operators=("sort", "argsort", "msort", "topk", "unique", "_unique2"),
        numpy=(
            *("sort", "argsort", "lexsort", "sort_complex", "unique", "unique_all"),
            *("unique_counts", "unique_inverse", "unique_values"),
        ),
        others=("jax.lax.sort", "jax.lax.sort_key_val", "jax.lax.top_k", "jax.lax.approx_max_k"),
    ),
    Family(
        "selection",
        torch=(
            *("kthvalue", "median", "nanmedian", "quantile", "nanquantile", "mode"),
            "unique_consecutive",
        ),
        operators=("kthvalue", "median", "nanmedian", "mode", "unique_consecutive"),
        numpy=(
            *("median", "nanmedian", "quantile", "nanquantile", "percentile", "nanpercentile"),
            *("partition", "argpartition"),
        ),
        can_do=(SORTING,),
    ),
    Family(
        SOLVING,
        torch=(
            *("linalg.solve", "linalg.solve_ex", "linalg.solve_triangular", "triangular_solve"),
            *("linalg.inv", "linalg.inv_ex", "inverse", "linalg.pinv", "pinverse"),
            *("linalg.lstsq", "linalg.lu_solve", "lu_solve", "cholesky_solve"),
            *("cholesky_inverse", "linalg.ldl_solve", "linalg.tensorsolve", "linalg.tensorinv"),
        ),
        operators=(
            *("_linalg_solve_ex", "linalg_solve", "linalg_solve_triangular", "triangular_solve"),
            *("linalg_inv_ex", "linalg_inv", "inverse", "linalg_pinv", "pinverse"),
            *("linalg_lstsq", "linalg_lu_solve", "lu_solve", "cholesky_solve"),
            *("cholesky_inverse", "linalg_ldl_solve"),
        ),
        numpy=(
            *("linalg.solve", "linalg.inv", "linalg.pinv", "linalg.lstsq", "linalg.tensorsolve"),
            "linalg.tensorinv",
        ),
        scipy=(
            *("linalg.solve", "linalg.solve_triangular", "linalg.solve_banded", "linalg.inv"),
            *("linalg.solveh_banded", "linalg.solve_toeplitz", "linalg.solve_circulant"),
            *("linalg.pinv", "linalg.pinvh", "linalg.lstsq", "linalg.lu_solve"),
            *("linalg.cho_solve", "linalg.cho_solve_banded", "linalg.lapack"),
            *("linalg.cython_lapack", "sparse.linalg"),
        ),
        others=("jax.lax.linalg.triangular_solve", "cupyx.lapack"),
        libraries=("cublas", "cusolver"),
        can_do=(PRODUCTS,),
    ),
    Family(
        CHOLESKY,
        torch=("cholesky", "linalg.cholesky", "linalg.cholesky_ex"),
        operators=("cholesky", "linalg_cholesky", "linalg_cholesky_ex"),
        numpy=("linalg.cholesky",),
        scipy=("linalg.cholesky", "linalg.cho_factor", "linalg.cholesky_banded"),
        others=("jax.lax.linalg.cholesky",),
        libraries=("cusolver",),
        can_do=(SOLVING, LU, QR),
    ),
    Family(
        LU,
        torch=(
            *("lu", "linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex", "lu_unpack"),
            *("linalg.ldl_factor", "linalg.ldl_factor_ex", "det", "linalg.det", "slogdet"),
            *("linalg.slogdet", "logdet"),
        ),
        operators=(
            *("linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex", "_lu_with_info"),
            *("linalg_ldl_factor_ex", "_linalg_det", "_linalg_slogdet", "det", "slogdet"),
            "logdet",
        ),
        numpy=("linalg.det", "linalg.slogdet"),
        scipy=("linalg.lu", "linalg.lu_factor", "linalg.ldl", "linalg.det"),
        others=("jax.lax.linalg.lu",),
        libraries=("cublas", "cusolver"),
        can_do=(SOLVING, CHOLESKY, QR),
    ),
    Family(
        QR,
        torch=(*("qr", "linalg.qr", "geqrf", "orgqr", "ormqr", "linalg.householder_product"),),
        operators=("qr", "linalg_qr", "geqrf", "orgqr", "ormqr", "linalg_householder_product"),
        numpy=("linalg.qr",),
        scipy=("linalg.qr", "linalg.rq", "linalg.qr_multiply", "linalg.orth"),
        others=("jax.lax.linalg.qr", "jax.lax.linalg.householder_product", "jax.lax.linalg.geqrf"),
        libraries=("cusolver",),
        can_do=(SOLVING, CHOLESKY, PRODUCTS),
    ),
    Family(
        SVD,
        torch=(
            *("svd", "linalg.svd", "linalg.svdvals", "svd_lowrank", "pca_lowrank"),
            *("linalg.matrix_rank", "linalg.cond"),
        ),
        operators=("svd", "_linalg_svd", "linalg_svd", "linalg_svdvals"),
        numpy=("linalg.svd", "linalg.svdvals", "linalg.matrix_rank", "linalg.cond"),
        scipy=("linalg.svd", "linalg.svdvals", "linalg.null_space", "linalg.polar"),
        others=("jax.lax.linalg.svd",),
        libraries=("cusolver",),
        can_do=(SOLVING, EIGEN, QR),
    ),
    Family(
        EIGEN,
        torch=(*("linalg.eig", "linalg.eigvals", "linalg.eigh", "linalg.eigvalsh", "lobpcg"),),
        operators=("linalg_eig", "linalg_eigvals", "_linalg_eigh", "linalg_eigh"),
        numpy=("linalg.eig", "linalg.eigh", "linalg.eigvals", "linalg.eigvalsh", "roots"),
        scipy=(
            *("linalg.eig", "linalg.eigh", "linalg.eigvals", "linalg.eigvalsh", "linalg.schur"),
            *("linalg.eig_banded", "linalg.eigh_tridiagonal", "linalg.hessenberg"),
        ),
        others=("jax.lax.linalg.eig", "jax.lax.linalg.eigh", "jax.lax.linalg.schur"),
        libraries=("cusolver",),
        can_do=(SVD,),
    ),
    Family(
        "Fourier transforms",
        torch=(*(f"fft.{name}" for name in (*_FFTS, *_HERMITIAN_FFTS)), "stft", "istft"),
        operators=("_fft_r2c", "_fft_c2c", "_fft_c2r", "stft", "istft"),
        numpy=tuple(f"fft.{name}" for name in _FFTS),
        scipy=(
            *(f"fft.{name}" for name in (*_FFTS, *_HERMITIAN_FFTS, *_COSINES, "fht", "ifht")),
            *(f"fftpack.{name}" for name in (*_FFTS, *_COSINES)),
            *("signal.stft", "signal.istft", "signal.ShortTimeFFT"),
        ),
        others=("jax.lax.fft", "nvmath.fft"),
        libraries=("cufft",),
        can_do=(CONVOLUTIONS,),
    ),
    Family(
        "recurrent and transformer layers",
        torch=(
            *_CELLS,
            *(f"{name}_cell" for name in _CELLS),
            *(f"nn.{name}{kind}" for name in ("RNN", "LSTM", "GRU") for kind in ("", "Cell")),
            *("nn.Transformer", "nn.TransformerEncoder", "nn.TransformerEncoderLayer"),
            *("nn.TransformerDecoder", "nn.TransformerDecoderLayer"),
        ),
        operators=(
            *_CELLS,
            *("mkldnn_rnn_layer", "_cudnn_rnn", "miopen_rnn", "_thnn_fused_lstm_cell"),
            *("_thnn_fused_gru_cell", "_transformer_encoder_layer_fwd"),
        ),
        libraries=("cudnn",),
        can_do=(PRODUCTS,),
    ),
    Family(
        "distances, covariances and weighted sums",
        torch=(
            *("cdist", "cov", "corrcoef", "nn.functional.embedding_bag", "embedding_bag"),
            "nn.EmbeddingBag",
        ),
        operators=(
            *("cdist", "_cdist_forward", "_euclidean_dist", "cov", "corrcoef", "embedding_bag"),
            *("_embedding_bag", "_embedding_bag_forward_only"),
        ),
        numpy=("cov", "corrcoef"),
        scipy=("spatial.distance",),
        can_do=(PRODUCTS,),
    ),
)
