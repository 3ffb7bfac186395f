"""Every command with arguments that suit it, and what the platform says to it."""

from typing import Any

from tests.cli.answers import ANSWER, PASSED, RECEIVED_AT, WRONG
from tests.cli.stand_in import ReceivedRequest

WHY = ("--reason", "r")
UNCHECKED = ("--unchecked", "r")
MADE = {"event": "Made", "seq": 7}
PROBLEM = {
    "slug": "m",
    "problem_version": 3,
    "title": "Matmul",
    "gpus": ["CPU"],
    "languages": ["python"],
    "statement": "# Multiply\n",
    "templates": {"Python": "template.py"},
    "starts": [{"language": "python", "name": "kernel.py"}],
    "files": [{"name": "reference.py"}, {"name": "template.py"}],
    "rules": {
        "consent": "C.md",
        "licence": {"submissions": "MIT"},
        "cases": {"tests": [{"name": "n=1", "args": {"n": 1}}], "benchmarks": []},
    },
}
ME = {"name": "ada", "scopes": ["submit"], "roles": [], "token": 31}
TOKEN = {"id": 31, "name": "laptop", "prefix": "wb_12345", "created_at": RECEIVED_AT}
MERGE_PREVIEW = {
    "participant_id": "a2",
    "participant": "lovelace",
    "into_id": "a1",
    "into": "ada",
    "undo_until_at": RECEIVED_AT,
}
MILESTONE = {
    "problem": "m",
    "gpu": "CPU",
    "title": "Twice as fast",
    "problem_version": 3,
    "number": 12,
    "reached_at": RECEIVED_AT,
}
BASELINE_RUNS = {"slug": "m", "items": [{"name": "eager", "gpu": "CPU", "is_new": True}]}
BOARD: dict[str, Any] = {"problem": "m", "problem_version": 3, "gpu": "CPU", "items": []}
SET_SCORES = {
    "prefix": "kernelbench-1",
    "gpu": "CPU",
    "problems_count": 4,
    "baselines": ["eager"],
    "items": [
        {"participant": "ada", "correct": 2, "fast": {"eager": {"0": 0.5, "1": 0.25, "2": 0.0}}}
    ],
}
SETTINGS = {
    "slug": "m",
    "title": "Matmul",
    "problem_version": 3,
    "visibility": "closed",
    "deadline_at": RECEIVED_AT,
    "gpus": ["CPU"],
    "gpus_closed": ["H100"],
    "quotas": ["ranked=10/day"],
    "ranking_by": "geom",
    "source_visible": "after_close",
    "publish": "never",
    "licence": {"submissions": "MIT"},
    "consent": "C.md",
}
PRACTICE_BOARD = {
    "problem": "m",
    "title": "Matmul",
    "gpu": "CPU",
    "problem_version": 1,
    "items": [
        {
            "rank": 1,
            "is_tied": False,
            "number": 42,
            "participant_id": "a1",
            "participant": "ada",
            "score_us": 12.5,
            "received_at": "2026-01-02T03:04:05Z",
        }
    ],
    "entries_count": 1,
    "deadline_at": "2026-01-01T00:00:00Z",
    "is_open": True,
    "as_of": 100,
}
CASE_LEADERBOARDS = {
    "problem": "m",
    "title": "Matmul",
    "gpu": "CPU",
    "problem_version": 3,
    "items": [
        {
            "case": "n=1",
            "weight": 2.0,
            "entries_count": 1,
            "items": [
                {
                    "place": 1,
                    "is_tied": False,
                    "rank": 1,
                    "number": 12,
                    "participant_id": "a1",
                    "participant": "ada",
                    "time_us": 4.0,
                }
            ],
        }
    ],
    "as_of": 12,
}
RECORD = {"seq": 9, "number": 12, "score_us": 4.0, "previous_us": 5.0, "at": RECEIVED_AT}
CASE = {"name": "n=1", "a_us": 4.0, "b_us": 2.0, "ratio": 0.5, "ci95": [0.4, 0.6]}
LINEAGE = {
    "items": [
        {"number": 7, "generation": -1, "participant": "eve", "gpu": "CPU", "score_us": 5.0},
        {
            "number": 12,
            "participant": "ada",
            "gpu": "CPU",
            "score_us": 4.0,
            "parents": [{"number": 7, "kind": "detected", "similarity": 0.9375}],
            "speedup": 1.25,
            "speedup_interval": [1.2, 1.3],
            "speedup_over": 7,
        },
    ],
    "is_complete": True,
}
HISTORY = {"participant": "ada", "problem": "m", "gpu": "CPU", "problem_version": 3, "items": []}
REJUDGE = {
    "id": "r1",
    "problem": "m",
    "from_version": 1,
    "to_version": 2,
    "state": "running",
    "count": 2,
    "judged": 1,
}
LETTER = {"consumer": "c", "seq": 9, "reason": "500"}
USE = {
    "participant_id": "a1",
    "participant": "ada",
    "token": "31",
    "gpu": "CPU",
    "evaluations": 2,
    "items": 64,
    "cached": 3,
    "device_s": 12.5,
    "cost": 0.02,
}
EVALUATION = {
    "id": "e1",
    "problem": "m",
    "problem_version": 3,
    "gpu": "CPU",
    "mode": "test",
    "state": "finished",
    "items": 2,
    "ended": 2,
}
EVENT = {"id": 12, "type": "SubmissionReceived", "at": RECEIVED_AT, "version": 1}
HOOK = {"id": "h1", "url": "https://x.org/in", "events": ["submission.ended"], "state": "on"}
TOLD = {"number": 3, "event_id": "e1", "type": "submission.ended", "state": "delivered"}
RECEIPT = {"submissions": [{"number": 12, "gpu": "CPU"}]}

PREFERENCES = {
    "overtaken": "dm",
    "run_finished": "off",
    "deadline_near": "off",
    "ranked_line": "on",
    "threads": "default",
    "licence": "default",
}

CONTEST_PHASE = {
    "phase": "main",
    "phase_ends_at": RECEIVED_AT,
    "next_phase": "review",
    "next_phase_at": RECEIVED_AT,
}
MOVED = {"name": "phases.main.ends", "from_at": RECEIVED_AT, "to_at": None}
CONTEST_STANDING = {
    "contest": "cup",
    "title": "Cup",
    "round": "main",
    "state": "live",
    "is_hidden": False,
    "until_at": None,
    "divisions": [
        {
            "division": "open",
            "title": "Open",
            "rows": [
                {"rank": 1, "is_tied": False, "points": 25.0, "contestant": "a1", "name": "ada"}
            ],
        }
    ],
    "as_of": 9,
}
CONTEST_CHECK = {
    "item": "rerun",
    "evidence": "m: confirmed by 1 of 2 agents (a2); no other agent of CPU can repeat it",
    "is_doubtful": True,
    "is_passed": None,
}
CONTEST_RESULTS = {
    "contest": "cup",
    "title": "Cup",
    "state": "provisional",
    "announced_at": RECEIVED_AT,
    "appeals_until_at": RECEIVED_AT,
    "results_as_of": 9,
    "outdated": "ada had place 1 and has place 2 now: announce the results again",
    "confirm_agents": 2,
    "prizes": "A GPU.",
    "places": [
        {
            "contestant": "a1",
            "name": "ada",
            "division": "open",
            "place": 1,
            "points": 25.0,
            "repetitions": "incomplete",
            "checks": [CONTEST_CHECK],
            "entries": [],
        }
    ],
    "finalists": [{"contestant": "a1", "name": "ada"}],
    "as_of": 9,
}
CONTESTANT = {
    "contestant": "a1",
    "name": "ada",
    "members": [{"participant_id": "a1", "participant": "ada"}],
    "is_team": False,
    "captain": None,
    "division": "open",
    "is_disqualified": False,
    "declaration": {"model": "m-1"},
    "doubt": "which model?",
    "disqualified": "",
}
CONTEST_DETAILS = CONTEST_PHASE | {
    "contest": {
        "slug": "cup",
        "title": "Cup",
        "terms": "Be fair.",
        "organisers": ["a2"],
        "divisions": [{"slug": "open", "title": "Open", "declare": ["model"]}],
        "phases": [{"kind": "main", "starts_at": RECEIVED_AT, "modes": ["ranked"]}],
        "problems": [
            {"slug": "m", "round": "main", "starts_at": RECEIVED_AT, "ends_at": RECEIVED_AT}
        ],
        "register_until_at": RECEIVED_AT,
    },
    "number": 2,
    "terms_digest": "d" * 64,
    "organisers": [{"participant_id": "a2", "participant": "olga"}],
    "is_registration_open": True,
    "people_count": 3,
    "contestants_count": 3,
    "is_organiser": False,
    "own": CONTESTANT,
    "accepted_terms": "e" * 64,
}
ANSWERS: dict[str, Any] = {
    "GET /v1/me": ME,
    "GET /v1/me/milestones": {"items": [MILESTONE]},
    "GET /v1/me/preferences": PREFERENCES,
    "PUT /v1/me/preferences": PREFERENCES,
    "POST /v1/admin/participants/ada/password-reset": {
        "participant_id": "a1",
        "url": "https://x.org/reset/s",
        "expires_at": RECEIVED_AT,
    },
    "GET /v1/tokens": {"items": [TOKEN]},
    "POST /v1/tokens": TOKEN | {"token": "wb_secret"},
    "DELETE /v1/tokens/31": MADE,
    "GET /v1/webhooks": {"items": [HOOK]},
    "POST /v1/webhooks": HOOK | {"secret": "wbhook_x"},
    "GET /v1/webhooks/h1": HOOK | {"notice": "it answered 500"},
    "DELETE /v1/webhooks/h1": MADE,
    "POST /v1/webhooks/h1/test": {"id": "h1", "event_id": "e1"},
    "GET /v1/webhooks/h1/deliveries": {"items": [TOLD], "next_cursor": "3"},
    "POST /user/join": {"leaderboards": ["m"]},
    "GET /v1/contests": {
        "items": [
            CONTEST_PHASE | {"slug": "cup", "title": "Cup", "people_count": 3, "problems": ["m"]}
        ]
    },
    "POST /v1/contests": {"slug": "cup", "number": 2, "is_new": True, "moved": [MOVED]},
    "GET /v1/contests/cup": CONTEST_DETAILS,
    "GET /v1/contests/cup/contestants": {"items": [CONTESTANT]},
    "GET /v1/contests/cup/standing": CONTEST_STANDING,
    "POST /v1/contests/cup/registration": MADE,
    "DELETE /v1/contests/cup/registration": MADE,
    "PUT /v1/contests/cup/declaration": MADE,
    "POST /v1/contests/cup/team": {"code": "abc", "team": "t1"},
    "POST /v1/contests/cup/team/code": {"code": "abc", "team": "t1"},
    "POST /v1/contests/cup/team/join": MADE,
    "POST /v1/contests/cup/team/leave": MADE,
    "PUT /v1/contests/cup/team/captain": MADE,
    "POST /v1/contests/cup/invites": {"code": "abc", "team": ""},
    "GET /v1/contests/cup/results": CONTEST_RESULTS,
    "POST /v1/contests/cup/results": MADE,
    "POST /v1/contests/cup/results/confirm": MADE,
    "POST /v1/contests/cup/finalists": MADE,
    "POST /v1/contests/cup/reviews": MADE,
    "POST /v1/contests/cup/contestants/question": MADE,
    "POST /v1/contests/cup/contestants/accept": MADE,
    "POST /v1/contests/cup/contestants/disqualify": MADE,
    "POST /v1/contests/cup/contestants/restore": MADE,
    "GET /v1/problems": {"items": [PROBLEM]},
    "GET /v1/problems/m": PROBLEM,
    "GET /v1/problems/kernelbench-1-1-add": PROBLEM,
    "GET /v1/problems/matmul": PROBLEM
    | {"slug": "matmul", "files": [{"name": "definition.json"}, {"name": "workloads.jsonl"}]},
    "GET /v1/problems/matmul/files/definition.json": b'{"name": "matmul"}',
    "GET /v1/problems/matmul/files/workloads.jsonl": b'{"workload": {"uuid": "u"}}',
    "GET /v1/problems/m/consent": {
        "is_asked": True,
        "file": "C.md",
        "digest": "d" * 64,
        "text": "t",
    },
    "GET /v1/problems/m/files/reference.py": b"def generate_input(n, seed): ...\n",
    "GET /v1/problems/m/files/template.py": b"def custom_kernel(data):\n    return data\n",
    "GET /v1/problems/m/templates/python": b"def custom_kernel(data):\n    return data\n",
    "POST /v1/problems": {"slug": "m", "problem_version": 3, "is_new": True},
    "POST /v1/checks": {"id": "c1", "slug": "m", "state": "clean", "text": "checked"},
    "POST /v1/checks/c1/publish": {"slug": "m", "problem_version": 3, "is_new": True},
    "GET /v1/submissions": {"items": [ANSWER]},
    "GET /v1/me/submissions": {"items": [ANSWER]},
    "POST /v1/submissions": RECEIPT,
    "GET /v1/submissions/12": PASSED
    | {"source_files": [{"name": "kernel.py", "text": "import torch\n"}]},
    "GET /v1/submissions/13": WRONG,
    "GET /v1/submissions/12/events": [EVENT],
    "DELETE /v1/submissions/12": MADE,
    "POST /v1/submissions/12/cancel": MADE,
    "POST /v1/submissions/12/appeal": MADE,
    "GET /v1/evaluations": {"items": [EVALUATION]},
    "GET /v1/evaluations/e1": EVALUATION,
    "GET /v1/evaluations/e1/results": b'{"number":1,"item":1,"id":"b","outcome":"completed",'
    b'"verdict":"passed","speedup":1.8,"interval":[1.7,1.9]}\n',
    "POST /v1/archive/search": {"items": [], "next_cursor": None, "is_complete": True, "as_of": 12},
    "POST /v1/evaluations/e1/cancel": MADE,
    "POST /v1/evaluations/e1/items/best/submit": RECEIPT,
    "POST /v1/me/appeal": MADE,
    "DELETE /v1/me/identities/i1": MADE,
    "DELETE /v1/me/merges/lovelace": MADE,
    "GET /v1/submissions/12/lineage": LINEAGE,
    "GET /v1/compare": {"diff": "-a\n+b\n", "cases": [CASE]},
    "GET /v1/leaderboards": {"items": []},
    "GET /v1/leaderboards/m": SETTINGS,
    "GET /v1/leaderboards/m/CPU": BOARD,
    "GET /v1/leaderboards/m/CPU/best-times": CASE_LEADERBOARDS,
    "GET /v1/leaderboards/m/CPU/practice": PRACTICE_BOARD,
    "GET /v1/leaderboards/m/CPU/records": {"items": [RECORD]},
    "GET /v1/participants/ada/history": HISTORY,
    "GET /v1/sets/kernelbench-1/CPU": SET_SCORES,
    "GET /v1/quota": {"items": []},
    "GET /v1/queue": {"items": [], "pools": []},
    "GET /v1/agents": {"items": []},
    "GET /v1/intake": {"paused": None},
    "GET /v1/audit/scrub": {
        "began_at": "2026-11-28T10:00:00Z",
        "seq": 30_834,
        "ended_at": "2026-11-28T10:12:00Z",
        "ended_seq": 30_834,
        "damaged_events": 1,
        "damaged": [{"first": 6, "last": 6}],
        "archive_damaged": [{"first": 9, "last": 12}],
    },
    "GET /v1/moderation": {"items": []},
    "GET /v1/rejudges": {"items": [REJUDGE]},
    "GET /v1/rejudges/r1": REJUDGE,
    "GET /v1/admin/deadletters": {"items": [LETTER]},
    "GET /v1/admin/labels": {
        "items": [],
        "next_before": None,
        "version": 1,
        "is_complete": True,
        "as_of": 12,
    },
    "GET /v1/rating": {
        "items": [],
        "total": 0,
        "next_after": None,
        "at": RECEIVED_AT,
        "as_of": 12,
    },
    "GET /v1/admin/labels/12": {"number": 12, "labels": [], "version": 1, "as_of": 12},
    "GET /v1/admin/evaluations": {"since": RECEIVED_AT, "items": [USE], "as_of": 12},
    "GET /v1/admin/participants": {"items": [], "next_after": None},
    "GET /v1/admin/participants/ada": ME | {"participant_id": "a1", "tokens": [TOKEN]},
    "POST /v1/admin/rejudges": {"id": "r1", "count": 2, "from_version": 1, "to_version": 2},
    "POST /v1/admin/problems/m/baselines": BASELINE_RUNS,
    "POST /v1/me/merges/preview": MERGE_PREVIEW,
    "POST /v1/me/merges": MERGE_PREVIEW | {"reason": ""},
    "POST /v1/admin/tokens": TOKEN | {"token": "wb_secret"},
    "POST /v1/admin/invites": {"leaderboards": ["m"], "codes": ["abc"]},
    "GET /v1/admin/leaderboards/m/invites": {"items": [{"code": "abc"}]},
}

# FILE, DIR and NEW stand for a kernel, a problem's directory, and what is not there yet.
ASKED: dict[str, tuple[str, ...]] = {
    "login": ("--token", "-"),
    "logout": (),
    "auth status": (),
    "auth unlink": ("i1",),
    "auth merge": ("code", "--yes"),
    "auth unmerge": ("lovelace",),
    "auth token list": (),
    "auth token create": ("laptop",),
    "auth token revoke": ("31",),
    "leaderboard join": ("abc",),
    "notification list": (),
    "notification set": ("overtaken", "dm"),
    "webhook create": ("https://x.org/in",),
    "webhook list": (),
    "webhook show": ("h1",),
    "webhook delete": ("h1",),
    "webhook test": ("h1",),
    "webhook deliveries": ("h1",),
    "init": ("m", "NEW"),
    "contest list": (),
    "contest show": ("cup",),
    "contest standing": ("cup",),
    "contest contestants": ("cup",),
    "contest register": ("cup", "--accept"),
    "contest withdraw": ("cup",),
    "contest declare": ("cup",),
    "contest team create": ("cup", "Duo"),
    "contest team join": ("cup", "abc"),
    "contest team leave": ("cup",),
    "contest team code": ("cup",),
    "contest team captain": ("cup", "ben"),
    "contest publish": ("CONTEST",),
    "contest update": ("CONTEST", *WHY),
    "contest invite": ("cup",),
    "contest finalists": ("cup", "ada"),
    "contest results": ("cup",),
    "contest review": ("cup", "ada", "code", "pass"),
    "contest confirm": ("cup",),
    "contest question": ("cup", "ada", *WHY),
    "contest accept": ("cup", "ada", *WHY),
    "contest disqualify": ("cup", "ada", *WHY),
    "contest restore": ("cup", "ada", *WHY),
    "problem consent": ("m",),
    "submit": ("FILE", "--leaderboard", "m", "--no-wait"),
    "submission cancel": ("12",),
    "submission delete": ("12", "--yes"),
    "submission appeal": ("12", "look"),
    "auth appeal": ("look",),
    "archive search": ("softmax",),
    "evaluation list": (),
    "evaluation show": ("e1",),
    "evaluation cancel": ("e1",),
    "evaluation submit": ("e1",),
    "submission list": (),
    "submission show": ("12",),
    "submission logs": ("12",),
    "submission diff": ("12", "13"),
    "submission lineage": ("12",),
    "submission trace": ("12",),
    "submission flashinfer-trace": ("12",),
    "submission export": (),
    "leaderboard milestones": (),
    "leaderboard fast-p": ("kernelbench-1", "CPU"),
    "problem list": (),
    "leaderboard list": (),
    "leaderboard show": ("m", "CPU"),
    "leaderboard history": ("m",),
    "leaderboard records": ("m", "CPU"),
    "leaderboard cases": ("m", "CPU"),
    "leaderboard practice": ("m", "CPU"),
    "submission queue": (),
    "submission quota": (),
    "problem show": ("m",),
    "leaderboard settings": ("m",),
    "leaderboard edit": ("m", "--visibility", "closed", *WHY),
    "problem create": ("m", "DIR", "--yes"),
    "problem publish": ("DIR", "--slug", "m", *UNCHECKED),
    "problem import-kernelbench": ("LEVELS", "--level", "1", "--gpu", "CPU", *UNCHECKED),
    "problem held": (),
    "problem hold": ("12", "--rule", "x", *WHY),
    "problem release": ("12", *WHY),
    "problem rejudge start": ("m", *WHY),
    "problem rejudge list": (),
    "problem rejudge show": ("r1",),
    "problem rejudge apply": ("r1", *WHY),
    "problem rejudge discard": ("r1", *WHY),
    "problem baseline run": ("m", *WHY),
    "problem baseline list": ("m",),
    "agent list": (),
    "agent cordon": ("a1", *WHY),
    "agent drain": ("a1", *WHY),
    "agent quarantine": ("a1", *WHY),
    "agent release": ("a1", *WHY),
    "agent revoke": ("a1", *WHY),
    "agent enroll": ("a1", "--key", "K=", "--owner", "lab", *WHY),
    "admin account adopt": WHY,
    "admin intake pause": WHY,
    "admin intake resume": WHY,
    "admin pool pause": ("CPU", *WHY),
    "admin pool resume": ("CPU", *WHY),
    "admin submission retry": ("12", *WHY),
    "admin submission duel": ("47", "12", *WHY),
    "admin pool canary": ("CPU", "--submission", "12"),
    "admin pool no-canary": ("CPU", *WHY),
    "admin projection skip": ("ranker", "9", *WHY),
    "admin submission cancel": ("12", *WHY),
    "admin submission hold": ("12", "--rule", "x", *WHY),
    "admin submission release": ("12", *WHY),
    "admin submission disqualify": ("12", "--rule", "x", *WHY),
    "admin submission restore": ("12", *WHY),
    "admin submission decide-appeal": ("12", "accept", *WHY),
    "admin participant merge": ("lovelace", "--into", "ada", *WHY),
    "admin participant unmerge": ("lovelace", *WHY),
    "admin participant ban": ("ada", *WHY),
    "admin participant unban": ("ada", *WHY),
    "admin quota set": ("m.CPU.test", "--limit", "3", *WHY),
    "admin moderation": (),
    "leaderboard rating": (),
    "admin label list": (),
    "admin label show": ("12",),
    "admin evaluations": (),
    "admin participant create": ("ada", *WHY),
    "admin participant invite": ("ROSTER", "--output", "NEW", *WHY),
    "admin participant decide-appeal": ("ada", "accept", *WHY),
    "admin participant rename": ("ada", "lovelace", *WHY),
    "admin participant reset-password": ("ada", *WHY),
    "admin participant show": ("ada",),
    "admin identity link": ("ada", "github", "1", *WHY),
    "admin identity unlink": ("ada", "i1", *WHY),
    "admin token revoke": ("31", *WHY),
    "admin role grant": ("ada", "creator", *WHY),
    "admin role revoke": ("ada", "creator", *WHY),
    "admin token create": ("ada", "--name", "laptop", *WHY),
    "admin leaderboard edit": ("m", "--visibility", "closed", *WHY),
    "admin leaderboard archive": ("m", *WHY),
    "admin invite create": ("m", *WHY),
    "admin invite list": ("m",),
    "admin invite revoke": ("abc", *WHY),
    "admin deadletter list": (),
    "admin deadletter show": ("c", "9"),
    "admin deadletter redrive": ("c", "9", *WHY),
    "submission source": ("12",),
    "submission status": ("12",),
    "status": (),
    "web": (),
}
# These ask no platform at a URL.
HERE: dict[str, tuple[str, ...]] = {
    "run": ("FILE", "--problem", "DIR"),
    "evaluate": ("DIR", "SOURCES", "--out", "NEW"),
    "optimise": ("DIR", "FILE", "--out", "NEW"),
    "duel": ("DIR", "FILE", "FILE"),
    "problem check": ("DIR",),
    "problem new": ("NEW",),
    "contest init": ("NEW", "--problem", "m:CPU", "--organiser", "ada"),
    "contest check": ("CONTEST",),
    "problem eval-code": ("DIR",),
    "agent doctor": (),
    "completion": ("bash",),
    "down": ("--folder", "NEW"),
    "server replay": ("--folder", "NEW"),
    "server audit": ("m", "CPU", "--file", "FILE"),
    "server doctor": ("FILE",),
    "server gc": ("--folder", "NEW"),
    "server keys make": ("--keys", "NEW"),
    "server keys list": ("--keys", "NEW"),
    "server keys add": ("launcher-modal", "--keys", "NEW"),
    "server keys rotate": ("ingest", "--keys", "NEW"),
    "server keys retire": ("ingest", "--keys", "NEW"),
    "server keys revoke": ("ingest", "--keys", "NEW"),
    "server keys certificate": ("bus1", "127.0.0.1", "--keys", "NEW"),
    "server keys deploy": ("--keys", "NEW"),
}
# These start servers or whole platforms; tests/cli/test_books.py, test_mcp.py and tests/system do.
PLATFORMS = (
    *("up", "demo", "mcp"),
    *("server scrub", "server backup", "server restore", "server repair", "archive build"),
    *("server segments list", "server segments seal", "server segments verify"),
    *("server segments repair", "server segments truncate"),
    *("server segments save", "server segments load"),
)


def say(heard: ReceivedRequest) -> tuple[int, Any]:
    """What the platform says; to a deed, which event it made."""
    answer = ANSWERS.get(f"{heard.method} {heard.path.partition('?')[0]}")
    if answer is not None:
        return 200, answer
    if "/admin/" in heard.path and heard.method != "GET":
        return 200, MADE
    return 404, {"detail": f"no answer to {heard.method} {heard.path}", "code": "not_found"}
