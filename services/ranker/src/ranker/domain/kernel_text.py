"""What a kernel's source is about: its words, its operations and the shape of its code.

Python, Triton, CUDA C++ and HIP are read by one lexer, so kernels in different languages compare.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

# A larger source is read up to here.
SOURCE_CHARS_MAX = 64 * 1024
# How many different words of a source are kept, the most frequent first.
TERMS_MAX = 400
TERM_CHARS_MAX = 40
# Values in a signature, and how many tokens in a row are one shingle.
SIGNATURE_LENGTH, SHINGLE = 64, 4
# Signatures that agree in one whole band are candidates; at a similarity of 0.5 most pairs do.
BANDS = 16
BAND_SEED = 0x9E3779B97F4A7C15
BAND_MASK = (1 << 63) - 1
# A word of a title counts as so many of a statement.
TITLE_REPEATS = 2

# One name for what several languages and libraries call differently.
_OPERATIONS = {
    "matmul": "matmul mm bmm addmm dot einsum linear gemm sgemm wmma mma mma_sync baddbmm",
    "softmax": "softmax log_softmax logsumexp",
    "exponential": "exp exp2 expf __expf exp2f expm1",
    "reduction": "sum reduce reduce_add mean block_reduce warp_reduce amax amin aminmax nansum",
    "maximum": "max amax maximum fmaxf argmax fmax",
    "minimum": "min amin minimum fminf argmin fmin",
    "inverse root": "rsqrt rsqrtf sqrt sqrtf",
    "scan": "cumsum cumprod associative_scan scan inclusive_scan exclusive_scan blockscan prefix",
    "sort": "sort argsort radix_sort devicesort msort bitonic sortkeys sort_keys",
    "selection": "topk top_k kthvalue partition argpartition",
    "gather": "gather index_select take take_along_dim index page_table",
    "scatter": "scatter scatter_add index_add index_put scatter_reduce masked_scatter",
    "histogram": "bincount histc histogram atomicadd atomic_add",
    "convolution": "conv2d conv1d conv3d convolution unfold",
    "transpose": "transpose permute trans",
    "attention": "attention scaled_dot_product_attention sdpa flash",
    "activation": "silu sigmoid gelu relu swish tanh swiglu",
    "normalisation": "layer_norm rms_norm layernorm rmsnorm batch_norm normalize var rsqrt_mean",
    "trigonometry": "sin cos sinf cosf sincosf tan rope rotary",
    "quantisation": "quantize quantise quantized float8_e4m3fn fp8 int4 int8 dequantize uint8",
    "compaction": "nonzero masked_select compress compact",
    "comparison": "where select cdist nearest",
}
OPERATION_OF = {word: name for name, words in _OPERATIONS.items() for word in words.split()}
OPERATIONS = tuple(sorted(_OPERATIONS))

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z)|\#(?!\s*(?:include|define|if|ifdef|ifndef|endif|else|elif"""
    r"""|pragma|undef)\b)[^\n]*)"""
    r"""|(?P<text>[rbfuRBFU]{0,2}(?:\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)"""
    r"""|"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?))"""
    r"""|(?P<number>\.?\d[\w.]*)|(?P<word>[^\W\d]\w*)|(?P<space>\s+)|(?P<other>->|::|.)""",
    re.DOTALL,
)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORD = re.compile(r"[^\W\d]\w*")

_KEYWORDS = frozenset(
    [
        *("def", "class", "return", "for", "while", "if", "else", "elif", "in", "not", "and", "or"),
        *("import", "from", "as", "with", "lambda", "yield", "try", "except", "raise", "assert"),
        *("pass", "break", "continue", "is", "None", "True", "False", "void", "int", "float"),
        *(
            "double",
            "half",
            "bool",
            "char",
            "unsigned",
            "long",
            "short",
            "const",
            "constexpr",
            "auto",
        ),
        *(
            "static",
            "inline",
            "struct",
            "template",
            "typename",
            "switch",
            "case",
            "default",
            "sizeof",
        ),
        *("using", "namespace", "new", "delete", "do", "__global__", "__device__", "__shared__"),
        *("__restrict__", "__launch_bounds__", "threadIdx", "blockIdx", "blockDim", "gridDim"),
        *("float2", "float4", "int4", "uint32_t", "int32_t", "int64_t", "uint8_t"),
    ]
)
# What stands before a name that a file defines itself.
_DEFINERS = frozenset(
    [
        *(
            "def",
            "class",
            "struct",
            "void",
            "float",
            "int",
            "double",
            "auto",
            "bool",
            "half",
            "float4",
        ),
    ]
)
# Words of nearly every kernel.
_STOP = frozenset(
    [
        *("def", "return", "for", "if", "else", "in", "import", "from", "as", "self", "the", "a"),
        *("an", "of", "and", "or", "to", "is", "it", "with", "by", "be", "are", "this", "that"),
        *("each", "all", "one", "two", "on", "at", "not", "no", "none", "true", "false", "int"),
        *(
            "float",
            "void",
            "const",
            "custom",
            "kernel",
            "data",
            "output",
            "input",
            "t",
            "x",
            "y",
            "i",
        ),
        *("j", "n", "py", "cpp", "torch"),
    ]
)


@dataclass(frozen=True)
class KernelText:
    """What is compared of a source.

    `terms` counts its words, `operations` are what it computes, and `signature` is a MinHash of
    its code without names, literals, comments and white space; it is empty without code.
    """

    terms: Mapping[str, int]
    operations: frozenset[str]
    signature: tuple[int, ...]

    @property
    def bands(self) -> list[int]:
        """The hashes of the signature's bands, for an index."""
        width = SIGNATURE_LENGTH // BANDS
        parts = [self.signature[at : at + width] for at in range(0, len(self.signature), width)]
        return [_hash_band(index, part) for index, part in enumerate(parts)]


def read_kernel(source: str) -> KernelText:
    """Read a source; takes about 5 ms of a core for one of 4 KB.

    >>> first = read_kernel("def f(x):\\n    return torch.softmax(x, 1)  # rows")
    >>> second = read_kernel("def g(values):\\n    return torch.softmax(values, 2)")
    >>> similarity(first.signature, second.signature), sorted(first.operations)
    (1.0, ['softmax'])
    """
    tokens = list(_tokenize(source[:SOURCE_CHARS_MAX]))
    words = [word for kind, text in tokens for word in _words_of(kind, text)]
    operations = {OPERATION_OF[word.lower()] for word in words if word.lower() in OPERATION_OF}
    if any(text == "@" for _, text in tokens):
        operations |= _matrix_products(tokens)
    return KernelText(count_terms(words), frozenset(operations), _sign(normalize_tokens(tokens)))


def read_words(text: str) -> KernelText:
    """Read a text that is no source, such as a description."""
    words = _WORD.findall(text[:SOURCE_CHARS_MAX])
    operations = {OPERATION_OF[word.lower()] for word in words if word.lower() in OPERATION_OF}
    operations |= {name for name in OPERATIONS if name in text.lower()}
    return KernelText(count_terms(words), frozenset(operations), ())


def count_terms(words: Sequence[str]) -> Mapping[str, int]:
    """Count words and their parts, in lower case and the singular, without very frequent ones.

    >>> dict(count_terms(["rowSums", "the"]))
    {'rowsum': 1, 'row': 1, 'sum': 1}
    """
    counts: Counter[str] = Counter()
    for word in words:
        parts = [part.lower() for part in _PART.findall(word)]
        names = [word.lower(), *parts] if len(parts) > 1 else parts
        counts.update(_singular(name) for name in names if name not in _STOP and len(name) > 1)
    return {term[:TERM_CHARS_MAX]: count for term, count in counts.most_common(TERMS_MAX)}


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def normalize_tokens(tokens: Sequence[tuple[str, str]]) -> list[str]:
    """Return the tokens of the code, with one name for all variables and one for all literals.

    Names of a library stay: those after a dot, and calls of what the file does not define.
    """
    code = [token for token in tokens if token[0] in ("word", "number", "other", "text")]
    texts = [text for _, text in code]
    defined = {
        name
        for before, (kind, name) in zip(texts, code[1:], strict=False)
        if kind == "word" and before in _DEFINERS
    }
    normal = []
    for at, (kind, text) in enumerate(code):
        if kind == "word":
            before = texts[at - 1] if at else ""
            after = texts[at + 1] if at + 1 < len(texts) else ""
            is_member = before in (".", "::", "->")
            is_call = after == "(" and text not in defined
            normal.append(text if text in _KEYWORDS or is_member or is_call else "name")
        else:
            normal.append({"number": "0", "text": "''"}.get(kind, text))
    return normal


def similarity(first: Sequence[int], second: Sequence[int]) -> float:
    """How much of the code of two signatures is equal, from 0 to 1."""
    if not first or not second:
        return 0.0
    return sum(a == b for a, b in zip(first, second, strict=True)) / len(first)


def _tokenize(source: str) -> Iterator[tuple[str, str]]:
    is_python = bool(re.search(r"^\s*(?:import|from|def|@|class)\b", source, re.MULTILINE))
    text = source.replace("//", "/ /") if is_python else source
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind is not None and kind != "space":
            yield kind, match[0]


def _words_of(kind: str, text: str) -> list[str]:
    if kind == "word":
        return [text]
    return _WORD.findall(text) if kind in ("comment", "text") else []


def _matrix_products(tokens: Sequence[tuple[str, str]]) -> set[str]:
    """A matrix product by its operator; an at sign that begins a line is a decorator."""
    code = [text for kind, text in tokens if kind != "comment"]
    pairs = pairwise(code)
    is_product = any(
        after == "@" and (before in (")", "]") or before.isidentifier()) for before, after in pairs
    )
    return {"matmul"} if is_product else set()


def _sign(tokens: Sequence[str]) -> tuple[int, ...]:
    """The MinHash of the shingles of tokens."""
    from datasketch import MinHash

    if not tokens:
        return ()
    width = min(SHINGLE, len(tokens))
    shingles = {" ".join(tokens[at : at + width]) for at in range(len(tokens) - width + 1)}
    sketch = MinHash(num_perm=SIGNATURE_LENGTH)
    sketch.update_batch([shingle.encode() for shingle in shingles])
    return tuple(int(value) for value in sketch.hashvalues)


def _hash_band(index: int, values: Sequence[int]) -> int:
    value = index
    for part in values:
        value = ((value ^ part) * BAND_SEED) & BAND_MASK
    return value


def read_problem(title: str, statement: str, reference: str) -> KernelText:
    """Read a problem: its title with what describes it in short, its statement and its reference.

    What it computes is what its title and its reference name.
    """
    head, body, code = read_words(title), read_words(statement), read_kernel(reference)
    terms = Counter(body.terms) + Counter(code.terms)
    for word, count in head.terms.items():
        terms[word] += TITLE_REPEATS * count
    return KernelText(dict(terms.most_common(TERMS_MAX)), head.operations | code.operations, ())
