"""Tools that tell where one stands: leaderboards, one's submissions, quotas."""

from warpboard.domain.answers import Leaderboard, Summaries, read
from warpboard.domain.ledgers import left
from warpboard.domain.oversight import Balances
from warpboard.mcp import asks, tells
from warpboard.mcp.hands import Hands
from warpboard.service.reading import Which, gpus

BOARDS_MAX = 16


async def leaderboard(hands: Hands, asked: asks.Leaderboard) -> tells.Boards:
    """A problem's leaderboards, best first. Errors: Refused; Failed."""
    types = await gpus(hands.api, Which(asked.problem, asked.gpu))
    boards, empty, cut = [], [], []
    for gpu in types[:BOARDS_MAX]:
        answer = await hands.api.get("leaderboards", asked.problem, gpu, limit=asked.limit)
        found = read(answer, Leaderboard)
        measured = [one for one in found.baselines if one.score_us is not None]
        if not (found.items or measured or found.milestones):
            empty.append(found.gpu)
            continue
        boards.append(
            tells.Board(
                gpu=found.gpu,
                problem_version=found.problem_version,
                entries=found.items[: asked.limit],
                baselines=measured,
                milestones=found.milestones,
            )
        )
        if answer.get("next_cursor") or len(found.items) > asked.limit:
            cut.append(f"{found.gpu}: entries after the first {asked.limit}")
    cut += [f"GPU types: {', '.join(types[BOARDS_MAX:])}"] if types[BOARDS_MAX:] else []
    return tells.Boards(problem=asked.problem, boards=boards, empty=empty, cut=cut)


async def my_submissions(hands: Hands, asked: asks.MySubmissions) -> tells.Mine:
    """One's own submissions, newest first. Errors: Refused; Failed."""
    said: dict[str, str | float] = {"limit": asked.limit}
    said |= {"problem": asked.problem} if asked.problem else {}
    said |= {"cursor": asked.cursor} if asked.cursor else {}
    answer = await hands.api.get("me", "submissions", **said)
    return tells.Mine(
        submissions=read(answer, Summaries).items, next_cursor=answer.get("next_cursor")
    )


async def quota(hands: Hands, asked: asks.Quota) -> tells.Quotas:
    """What is left of one's quotas. Errors: Refused; Failed."""
    if asked.problem is None:
        found = read(await hands.api.get("quota"), Balances).items
    else:
        types = await gpus(hands.api, Which(asked.problem, asked.gpu))
        answers = [
            read(await hands.api.get("quota", problem=asked.problem, gpu=gpu), Balances)
            for gpu in types[:BOARDS_MAX]
        ]
        found = [one for answer in answers for one in answer.items]
    said = "; ".join(left(one) for one in found[:BOARDS_MAX])
    return tells.Quotas(quotas=found, summary=said or "no limit holds for you")
