"""The guide to three machines says what its files do."""

import re

from tests.docs.transcripts import ROOT

FOLDER = ROOT / "deploy" / "three-machines"
ROW = re.compile(r"^\| ([a-zA-Z, ]+) \| ([abc, ]+) \| ([0-9, to]+) \|", re.MULTILINE)
RULE = re.compile(r"(?:ip saddr (\S+) )?tcp dport (\{[^}]+\}|\S+) accept")
SOURCES = {
    "admin": "@operators",
    "everywhere": "",
    "a, b, c": "@machines",
    "GPU hosts": "@agents",
    "a, b": "@services",
    "c": "$ADDRESS_C",
}


def read_ports(text: str) -> set[str]:
    """Return the ports of a row or a rule."""
    return set(re.findall(r"\d+(?:-\d+)?", text.replace(" to ", "-")))


def test_the_table_of_the_firewall_is_what_the_rules_allow() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    rules = (FOLDER / "files/all/etc/nftables.conf").read_text(encoding="utf-8")
    rows = {SOURCES[source]: read_ports(ports) for source, _, ports in ROW.findall(page)}
    allowed = {source: read_ports(ports) for source, ports in RULE.findall(rules)}
    assert rows == allowed
    assert "policy drop" in rules
