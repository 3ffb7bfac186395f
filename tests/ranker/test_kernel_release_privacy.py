"""What people write of themselves is in no file of a release."""

import asyncio
import gzip
import json
from pathlib import Path

import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from ranker.releases.builder import Dataset, build_release
from shared import events, subjects
from shared.redaction import Redactor
from tests.support.lives import problem, say
from tests.support.memory import MemoryBlobStore, MemoryLog
from tests.support.planted import PLANTED, planted_texts
from tests.support.populated import ACCOUNTS, Population, populate

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=12)
HEX = st.text("0123456789abcdef", min_size=32, max_size=32)
KEY = b"k" * 32
DEFINITION = Path("tests/problems/flashinfer/definitions/norm/ragged_norm_h8.json")


@st.composite
def secrets(draw: st.DrawFn) -> dict[str, str]:
    """One of each kind of what nobody may find, none of which is a word of ours."""
    word, other, digits = draw(WORDS), draw(WORDS), draw(HEX)
    name, host = f"{word}zq", f"{other}qz"
    number = str(int(digits[:14], 16) + 10**17)[:18]
    identity = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return {
        "name": name,
        "identity": identity,
        "number": number,
        "address": f"{name}@{host}.example.org",
        "host": f"https://{host}.example.org/{name}?q={digits[:6]}",
        "ip": ".".join(str(int(digits[place : place + 2], 16)) for place in (0, 2, 4, 6)),
        "mention": f"@{name}",
        "discord": f"<@{number}>",
        "path": f"/home/{name}/{host}/kernel.py",
        "windows": f"C:\\Users\\{name}\\{host}.cu",
        "token": f"wb_{digits}{digits[:11]}",
        "github": f"ghp_{digits}abcd",
    }


async def publish_definition(log: MemoryLog, blobs: MemoryBlobStore, texts: list[str]) -> None:
    """Publish a problem that was made of a definition, with these texts wherever one can be."""
    document = json.loads(await asyncio.to_thread(DEFINITION.read_text))
    document |= {
        "description": texts[0],
        "op_type": texts[1],
        "tags": texts,
        "constraints": texts,
        "hf_id": texts[7],
    }
    document["reference"] += "".join(f"\n# {text}" for text in texts)
    for kind in ("axes", "inputs", "outputs"):
        for number, value in enumerate(document[kind].values()):
            value["description"] = texts[number]
    blob = await blobs.put(json.dumps(document).encode())
    version = structs.replace(problem(), title=texts[2], files={"definition.json": blob})
    await say(log, subjects.problem("ragged-norm"), version)


def file_texts(path: Path) -> str:
    """Everything that a reader of a file can see."""
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
        return f"{table.to_pylist()} {table.schema}"
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


@pytest.mark.feature("D3")
@example(PLANTED)
@given(secrets())
@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_no_file_has_what_people_wrote_of_themselves(
    tmp_path_factory: pytest.TempPathFactory, found: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("release")
    log, blobs = MemoryLog(), MemoryBlobStore()
    population = Population(["softmax"], 40, planted_texts(found))
    await populate(log, blobs, population)
    await publish_definition(log, blobs, planted_texts(found))
    act = events.OperatorActed(command="export", target=found["name"], reason=found["address"])
    await say(log, subjects.audit("operators"), act)
    names = [found["name"], found["number"]]
    release = await build_release(log, blobs, Dataset(folder, KEY, "MIT", names))
    assert release.tables["sources"].rows
    assert list((folder / "exchange/flashinfer/definitions").rglob("*.json"))
    hidden = {found["name"], *(text for kind, text in found.items() if kind != "mention")}
    accounts = {population.account(number) for number in range(ACCOUNTS)}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        text = file_texts(path).lower() + path.name
        assert not [secret for secret in hidden | accounts if secret.lower() in text], path
        assert "gpu-11111111" not in text
        assert "secret by" not in text


def test_code_still_runs_and_reads_after_redaction() -> None:
    source = (
        "import torch\n\n\n@torch.no_grad()\ndef custom_kernel(data):\n"
        '    """By Ada, ada@x.org: see /home/ada/notes.txt."""\n'
        "    ada, b, T = data  # @ada wrote this for Grace\n"
        '    print(f"size: {b}\\n", "10.0.0.1")\n'
        "    return ada@b.T + ~b/2\n"
    )
    redacted = Redactor(["ada", "grace"]).source(source, "python")
    assert redacted.text == (
        "import torch\n\n\n@torch.no_grad()\ndef custom_kernel(data):\n"
        '    """By [name], [address]: see [path]"""\n'
        "    ada, b, T = data  # [mention] wrote this for [name]\n"
        '    print(f"size: {b}\\n", "[address]")\n'
        "    return ada@b.T + ~b/2\n"
    )
    assert redacted.replaced == 6
    compile(redacted.text, "kernel.py", "exec")
    cuda = '#include "/home/ada/x.cuh"\n__global__ void ada() {} // ada\n'
    expected = '#include "[path]"\n__global__ void ada() {} // [name]\n'
    assert Redactor(["ada"]).source(cuda, "cuda").text == expected
