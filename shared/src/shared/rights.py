"""What an agent may do on the bus: the one list that the configuration of every server is made of.

Services have an account of their own, and so has each agent. A server hands nothing from one
account to another but what the first exports and the second imports, answers included. Permissions
of users within one account would not do: they do not hold for the subject that an answer is sent
to, so an agent could have the server itself write into the log (ADR 0071).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shared.subjects import LEASES, STREAM, agent, agent_inbox

SERVICES = "WARPBOARD"
USER = "warpboard"
ANY_AGENT = "*"


class Right(NamedTuple):
    """A subject that an agent may publish on; `is_stream` where it is answered more than once."""

    subject: str
    is_stream: bool = False


class Variable(str):
    """A value that a server reads from its environment, by this name."""

    __slots__ = ()


def agent_rights(agent_id: str) -> Sequence[Right]:
    """All that an agent may publish; with `*` for its id what the services export to agents.

    >>> agent_rights("a1")[0].subject
    'events.report.a1.*'
    """
    consumer = ANY_AGENT
    if agent_id != ANY_AGENT:
        agent(agent_id)
        consumer = agent_inbox(agent_id)
    return (
        Right(f"events.report.{agent_id}.*"),
        Right(f"$KV.{LEASES}.agent.{agent_id}"),
        Right(f"uploads.{agent_id}.small.*"),
        Right(f"uploads.{agent_id}.large.*"),
        Right(f"uploads.{agent_id}.chunk.*.*"),
        Right("progress.*"),
        Right(f"agents.{agent_id}.*"),
        Right(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}", is_stream=True),
        Right(f"$JS.ACK.{STREAM}.{consumer}.>"),
    )


def agent_user(agent_id: str) -> str:
    """The name by which an agent logs in to the bus."""
    return f"agent-{agent_id}"


def services_account(password: str) -> dict[str, object]:
    """The account of the services, which may do everything, and what it exports to agents."""
    return {
        "jetstream": "enabled",
        "users": [{"user": USER, "password": password}],
        "exports": [_export(right) for right in agent_rights(ANY_AGENT)],
    }


def _export(right: Right) -> dict[str, object]:
    how = {"response": "stream"} if right.is_stream else {}
    return {"service": right.subject, **how}


def agent_account(agent_id: str, password: str) -> dict[str, object]:
    """The account of one agent, whose user may publish its own subjects and hear its answers."""
    subjects = [right.subject for right in agent_rights(agent_id)]
    user = agent_user(agent_id)
    permissions = {
        "publish": {"allow": subjects},
        "subscribe": {"allow": [f"_INBOX_{user}.>"]},
    }
    return {
        "users": [{"user": user, "password": password, "permissions": permissions}],
        "imports": [{"service": {"account": SERVICES, "subject": one}} for one in subjects],
    }


def accounts(password: str, agents: Mapping[str, str]) -> dict[str, object]:
    """The accounts of a server, given the services' password and that of each agent."""
    found = {agent_name(one): agent_account(one, secret) for one, secret in agents.items()}
    return {SERVICES: services_account(password), **found}


def agent_name(agent_id: str) -> str:
    """The name of an agent's account."""
    return f"AGENT-{agent_id}"


def render(settings: Mapping[str, object]) -> str:
    """Settings in the form of a nats-server's configuration file, to be read by people."""
    return "".join(f"{key}: {_value(one, '')}\n" for key, one in settings.items())


def _value(value: object, indent: str) -> str:
    if isinstance(value, Variable):
        return f"${value}"
    deeper = f"{indent}  "
    if isinstance(value, Mapping):
        if all(isinstance(one, str) for one in value.values()):
            said = ", ".join(f"{key}: {_value(one, indent)}" for key, one in value.items())
            return f"{{ {said} }}"
        lines = "".join(f"{deeper}{key}: {_value(one, deeper)}\n" for key, one in value.items())
        return f"{{\n{lines}{indent}}}"
    if isinstance(value, list):
        lines = "".join(f"{deeper}{_value(one, deeper)}\n" for one in value)
        return f"[\n{lines}{indent}]"
    return f'"{value}"'
