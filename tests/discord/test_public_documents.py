"""What the public documents promise holds for a participant, a creator and an admin on Discord.

The documents are those of the platform that users come from, and not part of the repository. The
tables at the end name the check of each of their commands and sentences, by digest.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.discord.channel_users import message_text
from tests.discord.page_users import PageUser, read_until, upload
from tests.support.examples import clean_report
from tests.support.people import Person
from tests.support.platform import ROOT, Running
from tests.support.public_documents import VARIABLE, commands, digest, documents, folder, sentences

LIVE = [pytest.mark.platform, pytest.mark.server, pytest.mark.long, pytest.mark.timeout(600)]

# The two leaderboards: one reference in each public style.
NEWER, OLDER = "identity_py", "identity_list"
GPUS = ("CPU", "T4")
REFERENCES = {
    NEWER: """\
import torch
from task import input_t, output_t

def check_implementation(input: input_t, custom_output: output_t) -> str:
    expected = ref_kernel(input)
    return "" if torch.equal(custom_output, expected) else "the values differ"

def generate_input(size: int = 4096, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    return torch.randn(size, generator=generator, device="cuda")

def ref_kernel(input: torch.Tensor) -> torch.Tensor:
    return input.clone()
""",
    OLDER: """\
from typing import List
import torch

def check_implementation(custom_output: List[torch.Tensor], ref_output: List[torch.Tensor]) -> bool:
    return all(torch.allclose(a, b) for a, b in zip(custom_output, ref_output))

def generate_input() -> List[torch.Tensor]:
    return [torch.randn(1024) for _ in range(2)]

def ref_kernel(xs: List[torch.Tensor]) -> List[torch.Tensor]:
    return xs
""",
}
HEADING = f"#!POPCORN leaderboard {NEWER}\n"
TYPED = """\
from task import input_t, output_t

def custom_kernel(input: input_t) -> output_t:
    return input
"""
LISTS = """\
from typing import List
import torch

def custom_kernel(input: List[torch.Tensor]) -> List[torch.Tensor]:
    return input
"""
WRONG = TYPED.replace("return input", "return 2 * input")
SCRIPT, WITHOUT_HEADING = (
    upload("submission.py", (head + TYPED).encode()) for head in (HEADING, "")
)
EVAL_S = 100


@dataclass(frozen=True)
class Town:
    """A platform with a simulated Discord, and the three persons."""

    running: Running
    http: httpx.Client
    participant: PageUser
    creator: PageUser
    admin: PageUser

    def files(self, message: Any) -> dict[str, bytes]:
        """Return the attachments of a message by name."""
        return {
            file["filename"]: self.http.get(file["url"]).content for file in message["attachments"]
        }

    def channel(self, name: str) -> str:
        """Return the id of a channel."""
        channels = self.http.get(f"/sim/people/{self.participant.id}/channels").json()
        return next(str(it["id"]) for it in channels if it["name"] == name)

    def threads(self, user: PageUser, channel: str) -> list[dict[str, Any]]:
        """Return the threads of a channel that a user sees."""
        channels = self.http.get(f"/sim/people/{user.id}/channels").json()
        return [it for it in channels if it.get("parent_id") == channel]

    def submission(self, message: Any) -> dict[str, Any]:
        """Return the submission that an answer names, once it has ended."""
        number = int(re.findall(r"#(\d+)", message_text(message))[0])
        with Person(self.running.url, "ada", self.running.operator) as reader:
            return reader.end(number)

    def choose(self, user: PageUser, message: Any, gpus: list[str]) -> None:
        """Choose GPU types in the menu of a message."""
        [menu] = [part for row in message["components"] for part in row["components"]]
        assert {option["value"] for option in menu["options"]} == set(GPUS)
        # As many as there are.
        assert menu["max_values"] == len(GPUS)
        user.send("select", message=message["id"], custom_id=menu["custom_id"], values=gpus)


def create(town: Town, slug: str) -> None:
    """Publish a leaderboard from its only file."""
    files = {"reference.py": REFERENCES[slug].encode()}
    answer = httpx.post(
        f"{town.running.url}/v1/problems",
        data={"slug": slug, "gpu": list(GPUS), "report": clean_report(slug, files, GPUS)},
        files=[("files", (name, data)) for name, data in files.items()],
        headers=town.running.operator,
        timeout=30,
    )
    assert answer.is_success, answer.text


@pytest.fixture(scope="module")
def town(simulated_platform: Running) -> Iterator[Town]:
    """The platform with the three persons, of whom two have the server's roles, and no others."""
    running = simulated_platform
    rows = {row["name"]: row["address"] for row in running.state["processes"]}
    url = rows["discord-sim"].removesuffix("/sim/")
    with httpx.Client(base_url=url, timeout=60) as http:
        state = read_until(http, "/sim/state", lambda it: it["commands"] and it["is_connected"])
        roles = {role["name"]: role["id"] for role in state["roles"]}
        ids = {
            name: http.post(
                "/sim/people", json={"name": name, "roles": [roles[role]] if role else []}
            ).json()["id"]
            for name, role in (
                ("pia", ""),
                ("lea", "Leaderboard Creator"),
                ("leo", "Leaderboard Admin"),
            )
        }
        channels = http.get(f"/sim/people/{ids['pia']}/channels").json()
        [lobby] = [it["id"] for it in channels if it["name"] == "lobby"]
        town = Town(running, http, *(PageUser(http, identity, lobby) for identity in ids.values()))
        for slug in REFERENCES:
            create(town, slug)
            town.participant.wait_until_offered(slug)
        yield town
        state = http.get("/sim/state").json()
        assert (state["violations"], state["own_faults"]) == ([], [])


@pytest.fixture(scope="module")
def entry(town: Town) -> dict[str, Any]:
    """The submission of a participant who chose a GPU in the menu, in the documents' channel."""
    user = replace(town.participant, channel=town.channel("submissions"))
    message = user.use_command("leaderboard submit ranked", "Where should", script=SCRIPT)
    town.choose(user, message, ["CPU"])
    return town.submission(user.wait_for(message["id"], "#"))


class TestParticipant:
    """A participant follows the documents from the first command to the ranking."""

    pytestmark = LIVE

    def test_the_task_is_the_reference_its_types_and_the_evaluation(self, town: Town) -> None:
        message = town.participant.use_command("leaderboard task", "Define", leaderboard_name=NEWER)
        files = town.files(message)
        assert {"reference.py", "task.py", "eval.py"} <= files.keys()
        names = {
            node.name for node in ast.parse(files["reference.py"]).body if hasattr(node, "name")
        }
        assert names == {"check_implementation", "generate_input", "ref_kernel"}
        assert b"input_t = torch.Tensor\noutput_t = torch.Tensor\n" in files["task.py"]
        message = town.participant.use_command("leaderboard task", "Define", leaderboard_name=OLDER)
        assert b"input_t = list[torch.Tensor]\n" in town.files(message)["task.py"]

    def test_the_reference_is_one_file(self, town: Town) -> None:
        for slug, text in REFERENCES.items():
            message = town.participant.use_command(
                "leaderboard reference-code", "The reference", leaderboard_name=slug
            )
            assert town.files(message) == {"reference.py": text.encode()}

    def test_a_template_is_there_in_each_language_and_begins_with_the_heading(
        self, town: Town
    ) -> None:
        message = town.participant.use_command(
            "leaderboard template", "Start", leaderboard_name=NEWER
        )
        [(name, text)] = town.files(message).items()
        assert name == f"{NEWER}.py"
        assert text.startswith(HEADING.encode())
        assert b"from task import input_t, output_t\n" in text
        assert b"def custom_kernel(input: input_t) -> output_t:" in text
        for language, suffix in (("python", ".py"), ("cuda", ".cu")):
            message = town.participant.use_command(
                "leaderboard template", "Start", leaderboard_name=NEWER, lang=language
            )
            assert [*town.files(message)] == [NEWER + suffix]

    def test_a_ranked_submission_asks_for_the_gpu_and_has_two_threads(
        self, town: Town, entry: dict[str, Any]
    ) -> None:
        assert (entry["verdict"], entry["gpu"]) == ("passed", "CPU")
        assert entry["ranking"]["status"] == "ranked"
        # A private thread has the report with the runtime; a public line has a thread, too.
        channel, name = town.channel("submissions"), f"#{entry['number']}"
        [thread] = [it for it in town.threads(town.participant, channel) if name in it["name"]]
        path = f"/sim/people/{town.participant.id}/channels/{thread['id']}"
        read_until(town.http, path, lambda said: any("µs" in message_text(it) for it in said))
        assert thread["id"] not in [it["id"] for it in town.threads(town.creator, channel)]
        line = f"/sim/people/{town.creator.id}/channels/{channel}"
        read_until(
            town.http,
            line,
            lambda said: any(name in message_text(it) and it.get("thread") for it in said),
        )

    def test_several_gpus_are_a_submission_to_each(self, town: Town) -> None:
        user = town.participant
        message = user.use_command("leaderboard submit test", "Where should", script=SCRIPT)
        town.choose(user, message, ["CPU", "T4"])
        # Nobody runs T4 here, and the bot asks before it lets a submission wait.
        message = user.wait_for(message["id"], "agent")
        assert "No agent with T4 is alive" in message_text(message)
        [_, cancel] = [part for row in message["components"] for part in row["components"]]
        user.send("click", message=message["id"], custom_id=cancel["custom_id"])

    def test_the_leaderboard_may_be_an_option_instead_of_the_heading(self, town: Town) -> None:
        for slug, source in ((NEWER, TYPED), (OLDER, LISTS)):
            message = town.participant.use_command(
                "leaderboard submit ranked",
                "#",
                script=upload("submission.py", source.encode()),
                leaderboard_name=slug,
                gpu="CPU",
            )
            submission = town.submission(message)
            assert (submission["problem"], submission["verdict"]) == (slug, "passed")

    @pytest.mark.parametrize("mode", ["test", "benchmark"])
    def test_the_modes_test_and_benchmark_are_no_entries(self, town: Town, mode: str) -> None:
        user, path = town.participant, f"leaderboard submit {mode}"
        # By the heading and the menu, and by options.
        first = user.use_command(path, "Where should", script=SCRIPT)
        town.choose(user, first, ["CPU"])
        board = {"leaderboard_name": NEWER, "gpu": "CPU"}
        second = user.use_command(path, "#", script=WITHOUT_HEADING, **board)
        for message in (user.wait_for(first["id"], "#"), second):
            submission = town.submission(message)
            assert (submission["mode"], submission["verdict"]) == (mode, "passed")
            assert submission["ranking"] is None or submission["ranking"]["status"] != "ranked"
            address = f"{town.running.url}/v1/submissions/{submission['number']}/cases"
            cases = httpx.get(address, headers=town.running.operator).json()
            timed = [case for case in cases if case["estimate"] is not None]
            assert bool(timed) == (mode == "benchmark")

    def test_a_wrong_answer_fails_in_either_style(self, town: Town) -> None:
        lists = LISTS.replace("return input", "return [2 * x for x in input]")
        for slug, source in ((NEWER, WRONG), (OLDER, lists)):
            message = town.participant.use_command(
                "leaderboard submit test",
                "#",
                script=upload("submission.py", source.encode()),
                leaderboard_name=slug,
                gpu="CPU",
            )
            assert town.submission(message)["verdict"] == "wrong_answer"

    def test_the_launchers_of_both_names_run_a_ranked_submission(self, town: Town) -> None:
        user = town.participant
        script = upload("submission.py", LISTS.encode())
        for runner in ("modal", "github"):
            message = user.use_command(
                f"leaderboard submit {runner}",
                "Where should",
                leaderboard_name=OLDER,
                script=script,
            )
            town.choose(user, message, ["CPU"])
            submission = town.submission(user.wait_for(message["id"], "#"))
            assert submission["ranking"]["status"] == "ranked"
            assert submission["agent"] == f"{runner}-stand-in"

    def test_the_ranking_is_shown_for_each_gpu_that_a_menu_offers(
        self, town: Town, entry: dict[str, Any]
    ) -> None:
        user = town.participant
        message = user.use_command("leaderboard show", "Which GPU types", leaderboard_name=NEWER)
        town.choose(user, message, ["CPU", "T4"])
        text = message_text(user.wait_for(message["id"], "**T4**"))
        # Each GPU type has a ranking of its own.
        assert "pia" in text.partition("**T4**")[0]
        assert "Nothing here yet" in text.partition("**T4**")[2]
        message = user.use_command(
            "leaderboard show-personal", "µs", leaderboard_name=NEWER, gpu="CPU"
        )
        assert f"#{entry['number']}" in message_text(message)

    def test_the_list_has_every_leaderboard_with_its_gpus(self, town: Town) -> None:
        text = message_text(town.participant.use_command("leaderboard list", "CPU"))
        for slug in REFERENCES:
            name = re.escape(slug.replace("_", r"\_"))
            assert re.search(rf"\*\*{name}\*\* · open · CPU[^\n]*, T4", text), text

    def test_the_evaluation_is_one_short_file_that_runs(self, town: Town, tmp_path: Path) -> None:
        for language, name in (("python", "eval.py"), ("cuda", "eval.cu")):
            message = town.participant.use_command(
                "leaderboard eval-code", "the procedure", language=language
            )
            assert len(town.files(message)[name].splitlines()) <= 200
            # The exact harness is a link.
            assert "([download](http" in message_text(message)
        message = town.participant.use_command("leaderboard task", "Define", leaderboard_name=OLDER)
        for name, data in town.files(message).items():
            (tmp_path / name).write_bytes(data)
        (tmp_path / "submission.py").write_text(LISTS)
        command = [sys.executable, "eval.py", "--test"]
        ended = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=EVAL_S, check=False
        )
        assert ended.stdout.startswith("check: passed, "), ended


class TestCreatorAndAdmin:
    """The roles of the server decide who creates leaderboards."""

    pytestmark = LIVE

    def test_a_participant_without_a_role_creates_nothing(self, town: Town) -> None:
        text = message_text(_ask_to_create(town.participant, "role_missing"))
        assert "`Leaderboard Creator` or `Leaderboard Admin`" in text

    def test_a_creators_and_an_admins_role_are_enough_to_be_heard(self, town: Town) -> None:
        for person in (town.creator, town.admin):
            assert "role_missing" not in message_text(_ask_to_create(person, "."))

    def test_one_file_becomes_a_leaderboard_once_it_is_checked_and_published(
        self, town: Town
    ) -> None:
        for person, slug in ((town.creator, "created_py"), (town.admin, "created_too")):
            message = _ask_to_create(person, "Which GPU types", slug)
            [menu] = [part for row in message["components"] for part in row["components"]]
            where = {"message": message["id"], "custom_id": menu["custom_id"]}
            person.send("select", **where, values=["CPU"])
            message = person.wait_for(message["id"], "Publish this?")
            [publish, _] = [part for row in message["components"] for part in row["components"]]
            person.send("click", message=message["id"], custom_id=publish["custom_id"])
            person.wait_for(message["id"], "version 1 published")
            town.participant.wait_until_offered(slug)
            message = town.participant.use_command(
                "leaderboard submit ranked", "#", script=WITHOUT_HEADING, leaderboard_name=slug
            )
            assert town.submission(message)["ranking"]["status"] == "ranked"


def _ask_to_create(user: PageUser, expected: str, slug: str = "refused_py") -> Any:
    reference = upload("reference_code.py", REFERENCES[NEWER].encode())
    return user.use_command(
        "leaderboard create",
        expected,
        leaderboard_name=slug,
        deadline="2099-01-02",
        reference_code=reference,
    )


FORMS = "tests/problems/test_reference_form.py::"
EVALUATION = "tests/problems/test_evaluation_files.py::"
LANGUAGES = "tests/toolchains/test_examples.py::test_a_language_has_a_correct_and_a_wrong_example"
ROLES = "TestCreatorAndAdmin::test_a_creators_and_an_admins_role_are_enough_to_be_heard"
CREATED = (
    "TestCreatorAndAdmin::test_one_file_becomes_a_leaderboard_once_it_is_checked_and_published"
)
TASK = "TestParticipant::test_the_task_is_the_reference_its_types_and_the_evaluation"
REFERENCE = "TestParticipant::test_the_reference_is_one_file"
TEMPLATE = "TestParticipant::test_a_template_is_there_in_each_language_and_begins_with_the_heading"
RANKED = "TestParticipant::test_a_ranked_submission_asks_for_the_gpu_and_has_two_threads"
SEVERAL = "TestParticipant::test_several_gpus_are_a_submission_to_each"
OPTION = "TestParticipant::test_the_leaderboard_may_be_an_option_instead_of_the_heading"
MODES = "TestParticipant::test_the_modes_test_and_benchmark_are_no_entries"
WRONG_ANSWER = "TestParticipant::test_a_wrong_answer_fails_in_either_style"
LAUNCHERS = "TestParticipant::test_the_launchers_of_both_names_run_a_ranked_submission"
RANKING = "TestParticipant::test_the_ranking_is_shown_for_each_gpu_that_a_menu_offers"
LIST = "TestParticipant::test_the_list_has_every_leaderboard_with_its_gpus"
PROGRAM = "TestParticipant::test_the_evaluation_is_one_short_file_that_runs"
RUN_OF_EACH_FORM = f"{FORMS}test_a_run_of_each_form_takes_right_answers_and_no_others"
BOTH_ORDERS = f"{FORMS}test_names_and_annotations_tell_what_a_check_takes"
TYPES = "tests/problems/test_task_types.py::test_types_are_read_from_the_annotations"
CPP_FILE = "tests/problems/test_single_file.py::test_a_file_in_cpp_is_a_problem"
RIGHT_RUN = f"{EVALUATION}test_a_right_submission_is_checked_timed_and_scored"
WRONG_RUN = f"{EVALUATION}test_a_wrong_submission_is_found_in_every_form"
# What the documents tell about themselves, the reasons for the platform, and headings.
BACKGROUND = "background"

# Each command of the documents with its options, and the check that follows it.
COMMANDS = {
    ("leaderboard create", ("leaderboard_name", "deadline", "reference_code")): CREATED,
    ("leaderboard eval-code", ("language",)): PROGRAM,
    ("leaderboard list", ()): LIST,
    ("leaderboard reference-code", ("leaderboard_name",)): REFERENCE,
    ("leaderboard show", ("leaderboard_name",)): RANKING,
    ("leaderboard show-personal", ("leaderboard_name",)): RANKING,
    ("leaderboard submit benchmark", ("gpu", "leaderboard_name", "script")): MODES,
    ("leaderboard submit benchmark", ("script",)): MODES,
    ("leaderboard submit modal", ("leaderboard_name", "script")): LAUNCHERS,
    ("leaderboard submit ranked", ("script",)): RANKED,
    ("leaderboard submit test", ("script",)): MODES,
    ("leaderboard task", ("leaderboard_name",)): TASK,
    ("leaderboard template", ("leaderboard_name",)): TEMPLATE,
}
# Each sentence by the first digits of its SHA-256, and the check that holds it.
SENTENCES = {
    BACKGROUND: """
        4b5addbf93 39dfa225f7 710c4ab762 07a0476ee4 2f42a90149 d0493392d4 496caabf97 7b0cd46bf5
        5671b1db2a 8be8e76cad 5bac3e403d 67e4cf4b8c 8e9aae72b9 9c099360db a7c26ddca0 9221c214b5
        ca1993a5a0 4eb87f881a 8ffd40d041 9e9be20f79 95635e8344 199c32961a 511fcdddb4 ad53a78bcb
        0faf7da3d4 0cb1510215 1bb24def8c ca10c5ddbe aa7afee1d6 43c6067ee4 1ffcd59e73 8dbfc433dd
        a497108179 354460ba22 c21255a280 61edb2e9a0 e8713ba19d 69fa0b5f5c cebb3bb737 9eb112337b
        27fa688ff2 d9db785d39 9da1ae41ad 5cb2926b4f 99c2a3c9d8 1ce478e3d4 bbb75a409b 6969457c71
        7f4f5c2c03 2ef9f38f56 3b57ecfb36 28d7722760 509525664a ebe54f39bd abf4fdcd6a c85fe2bf73
        ff6b48958a 7d57702e1a cd1cf122c7 83f47560e8 3af505b980 f26b46d4b8 10e84344f5 5b4aa2a4df
        177bed709f 2db291b4cd e5342a7ce6 7746f29071 fbade7f912
        """,
    RANKED: """
        327ca738d8 c43c0fde3b 928bef0d83 0a85691ce8 c5b9da08a6 f6474c22c3 aef975ade3 4327ea8999
        ae475e8a84 2ab71cd34f 3a6c0a421c 5aecd1bf8e 9516bdf8ee e8f09fd4b0 c0c78f3a71 864dfce559
        """,
    RANKING: """
        77a0379bc2 1912f03ba9 79c6275ce5 469f2acdbf 733b8feb51 c076dbc90d a72c92366d d05862a80f
        4611302073 f5faf4af02 1c01c08491 a514fb72da be45f563a1
        """,
    ROLES: "5c383ef4d7",
    CREATED: "74f6f68d55 a4c27f2a2a b8a3b82336 11af206e48 6e764c99dc 03416b418d",
    LAUNCHERS: "de00411eaf f7ed31417a 76ecd6ad68 6af74eb1b9",
    MODES: """
        c2cc6b9025 f7661fe891 97599d5156 3a9f4e2f6c ac7fcaa7c9 54351bd1f2 f14ca736ec
        """,
    LANGUAGES: """
        e8795e623b 72345e06ed b7933ed618 45e73be241 e636c973d9 3d95cd82d4 2f4fd1be01 9854c9455a
        855571fb4f
        """,
    TASK: """
        01642db196 2cb67f889a 818ca78836 2724632e0a a64ed8b3b4 f65c7625cd 28f1c407c2 d671ce974f
        ae770e3769 cd6eb97ae2
        """,
    RUN_OF_EACH_FORM: """
        d86ee67420 ab20b87c72 db030143e2 26f8d09c7e 0775c7ae5f 7187f0675e e7ac4f637b 90338bd670
        0807b78492 bfd9d00502 1c8535ae52 1a44aa3e23 2a0b92d023 c3acff7172 7e272a3761 27f43774ab
        """,
    BOTH_ORDERS: "f26bc651e3 7ec879c91d",
    TYPES: """
        c26ec3fe6b 7f2527a630 113ce3e25b 0e419640d7 36e649f0f5 8fd530af7e 0094be22c2 8346c6420f
        beeadb6ee6
        """,
    TEMPLATE: "03fe870a0f f7464b1bf5",
    OPTION: "e4ac0c512c",
    SEVERAL: "5d7490a8c9",
    LIST: "98833b7ab9",
    PROGRAM: "81375b07cf e5f5ee95dc 0841fc0c32 250a25359a",
    REFERENCE: "46e22cf7ce c8890bd39b 99612d4b25",
    RIGHT_RUN: """
        fec365823c 7dd8607b66 151294c338 0777f7b6b1 db40647428 7529a76544 7b81bec510 5c3b1b84f8
        """,
    WRONG_RUN: "6067c17672",
    CPP_FILE: "1cc8d68f5b c90de1721d",
}
# A text about another platform, which only cites the first document.
CITING = "001"

needs_documents = pytest.mark.skipif(
    folder() is None, reason=f"{VARIABLE} names no folder of the public documents"
)


@needs_documents
def test_every_command_of_the_documents_has_its_check() -> None:
    path = folder()
    assert path is not None
    found = set().union(*(commands(text) for text in documents(path).values()))
    assert found == COMMANDS.keys()


@needs_documents
def test_every_sentence_of_the_documents_has_its_check_or_tells_nothing_of_the_platform() -> None:
    path = folder()
    assert path is not None
    known = {name for names in SENTENCES.values() for name in names.split()}
    found = {
        digest(sentence): f"{name}: {sentence}"
        for name, text in documents(path).items()
        if name != CITING
        for sentence in sentences(text)
    }
    assert [text for name, text in found.items() if name not in known] == []
    assert known <= found.keys()


def test_every_check_of_the_tables_exists() -> None:
    checks = {*COMMANDS.values(), *SENTENCES} - {BACKGROUND}
    for check in checks:
        path, _, name = check.rpartition("::")
        file = ROOT / path if path.endswith(".py") else Path(__file__)
        tests = {
            node.name
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef)
        }
        assert name in tests, check


def test_no_sentence_has_two_checks() -> None:
    names = [name for names in SENTENCES.values() for name in names.split()]
    assert len(names) == len(set(names))
