"""Draws the README's terminal: `COMMAND | python -m docs.picture "COMMAND"` writes an SVG."""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parent / "images" / "leaderboard.svg"


def main() -> None:
    """Draw what is piped in, below the command that printed it."""
    text = f"$ {sys.argv[1]}\n{sys.stdin.read().rstrip()}"
    width = max(map(len, text.splitlines()))
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(Text.from_ansi(text))
    picture = console.export_svg(title="Warpboard")
    # Whoever looks at the page loads no fonts from another site.
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL))
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
