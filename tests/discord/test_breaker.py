"""What Discord keeps refusing is left off, and it is asked again in time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from discord_edge.bot.discord_py import ALL_MAX, FREE, INVALID, ROUTE_MAX, WINDOW_S, CircuitBreaker
from discord_sim.simulator import Simulator

ROUTES = ("GET /channels/1", "PATCH /channels/1", "POST /channels/2/messages")


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(ROUTES), st.floats(0, 20)), max_size=600))
def test_discord_never_counts_more_than_the_bound(asked: list[tuple[str, float]]) -> None:
    breaker, at, refused = CircuitBreaker(), 0.0, list[tuple[str, float]]()
    for where, pause_s in asked:
        at += pause_s / 20
        if not breaker.is_open(where, at):
            breaker.record(where, 403, at)
            refused.append((where, at))
    for where, since in refused:
        later = [one for one in refused if one[0] == where and 0 <= one[1] - since <= WINDOW_S]
        assert len(later) <= ROUTE_MAX
    assert not any(breaker.is_open(where, at + WINDOW_S + 1) for where in ROUTES)


def test_a_refused_route_is_stopped_and_others_continue() -> None:
    breaker = CircuitBreaker()
    told = [breaker.record(ROUTES[0], 403, 0.0) for _ in range(ROUTE_MAX)]
    assert told == [False] * (ROUTE_MAX - 1) + [True]
    assert breaker.is_open(ROUTES[0], 1.0)
    assert not breaker.is_open(ROUTES[1], 1.0)
    assert not any(breaker.record(ROUTES[1], status, 1.0) for status in (200, 400, 404, 500))


def test_too_much_of_everything_leaves_answers_to_people() -> None:
    breaker = CircuitBreaker()
    for number in range(ALL_MAX):
        breaker.record(f"GET /channels/{number}", sorted(INVALID)[number % 3], 0.0)
    assert breaker.is_open(ROUTES[0], 1.0)
    assert not breaker.is_open(f"{FREE}/1/*/callback", 1.0)


async def test_repeatedly_refused_requests_are_no_longer_sent() -> None:
    # Imported here, for every worker collects this.
    import discord

    from discord_edge.bot.discord_py import (
        trace_with_breaker,
        translate_discord_errors,
        use_discord_url,
    )
    from shared.errors import Failed, Refused

    async with Simulator() as sim:
        sim.limits.global_max = 10**6
        base, gateway = discord.http.Route.BASE, discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY
        use_discord_url(sim.url)
        client = discord.Client(
            intents=discord.Intents.none(), http_trace=trace_with_breaker(CircuitBreaker())
        )
        try:
            await client.login(sim.token)
            sim.faults.fail("get_channel", 403, 50001, times=10**6)
            seen = list[type]()
            for _ in range(ROUTE_MAX + 20):
                try:
                    with translate_discord_errors():
                        await client.fetch_channel(int(sim.guild.id))
                except (Failed, Refused) as trouble:
                    seen.append(type(trouble))
        finally:
            await client.close()
            discord.http.Route.BASE = base
            discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = gateway
        # Refused is for good; what was not asked may go better later.
        assert seen == [Refused] * ROUTE_MAX + [Failed] * 20
        assert len(sim.record.of("get_channel")) == ROUTE_MAX


def test_a_lost_connection_is_retried_every_half_minute() -> None:
    from discord_edge.bot.discord_py import RECONNECT_S_MAX, CappedBackoff

    pauses = CappedBackoff()
    assert max(pauses.delay() for _ in range(200)) == RECONNECT_S_MAX
