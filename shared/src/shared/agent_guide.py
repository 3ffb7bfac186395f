"""The guide for programs that write kernels, which `/llms.txt` and `AGENTS.md` have in common."""

from importlib.resources import files
from string import Template


def render_agent_guide(
    url: str, *, slug: str = "PROBLEM", kernel: str = "kernel.py", gpu: str = "GPU"
) -> str:
    """Return the guide in Markdown for a platform, and for a problem if its values are given."""
    text = (files("shared") / "agent_guide.md").read_text(encoding="utf-8")
    return Template(text).substitute(url=url, slug=slug, kernel=kernel, gpu=gpu)
