"""Draws the picture of docs/timing.md: `python -m docs.timing_picture` writes an SVG."""

from html import escape
from pathlib import Path

PICTURE = Path(__file__).parent / "images" / "timing.svg"
WIDTH, HEIGHT = 880, 330
SUBMISSION, YARDSTICK, GREY = "#3b82c4", "#d9822b", "#8a8f98"
STYLE = "font-family: sans-serif; font-size: 14px"
ORDER = "ABBABAAB"


def main() -> None:
    """Draw the order of a run above, and how its ratio becomes a score below."""
    parts = [*_draw_process(), *_draw_call(), *_draw_score()]
    body = "\n".join(parts)
    PICTURE.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'style="{STYLE}">\n<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n'
        f"{body}\n</svg>\n"
    )
    print(f"wrote {PICTURE}")


def _draw_process() -> list[str]:
    """One process: the yardstick alone, pairs of blocks, and the yardstick alone again."""
    parts = [_text(20, 26, "One process of a run, from left to right")]
    blocks = f"B {ORDER[:4]} {ORDER[4:]} B".replace(" ", "  ")
    x = 20
    for name in blocks:
        if name != " ":
            parts.append(_block(x, 40, 56, name))
            x += 60
        else:
            x += 22
    parts.append(_text(20, 112, "yardstick alone", GREY))
    parts.append(_text(180, 112, "pairs of blocks, until the interval is narrow enough", GREY))
    parts.append(_text(x - 128, 112, "and after A's end", GREY))
    parts.append(_block(20, 128, 20, ""))
    parts.append(_text(48, 143, "B: the yardstick, a fixed correct kernel"))
    parts.append(_block(400, 128, 20, "A", is_named=False))
    parts.append(_text(428, 143, "A: the submission. One is frozen while the other runs."))
    return parts


def _draw_call() -> list[str]:
    """One call behind the gate."""
    steps = ("input is drawn", "clock starts", "input is revealed", "kernel runs")
    later = ("answer is copied", "clock stops", "answer is judged")
    return [
        _text(20, 184, "Each call of a block"),
        *_chain(20, 196, (*steps, *later), 117, "#eef0f3"),
    ]


def _draw_score() -> list[str]:
    steps = ("ln(A / B) of each pair", "mean of a process", "mean of all processes = ratio")
    last = ("ratio times fixed time of the yardstick = score",)
    parts = [_text(20, 264, "From blocks to a score")]
    x = 20
    for step, width in zip((*steps, *last), (170, 150, 220, 290), strict=True):
        parts.append(_box(x, 276, width - 8, step, "#e7f1e4"))
        x += width
    return parts


def _chain(x: int, y: int, steps: tuple[str, ...], width: int, fill: str) -> list[str]:
    return [_box(x + width * at, y, width - 6, step, fill) for at, step in enumerate(steps)]


def _block(x: int, y: int, width: int, name: str, *, is_named: bool = True) -> str:
    fill = SUBMISSION if name == "A" else YARDSTICK
    label = _text(x + width // 2 - 5, y + 33, name, "#ffffff") if name and is_named else ""
    height = 52 if width > 20 else 20
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" fill="{fill}"/>{label}'


def _box(x: int, y: int, width: int, text: str, fill: str) -> str:
    middle = x + width / 2
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="34" rx="4" fill="{fill}" '
        f'stroke="{GREY}"/><text x="{middle}" y="{y + 22}" text-anchor="middle" fill="#222222" '
        f'style="font-size: 12px">{escape(text)}</text>'
    )


def _text(x: int, y: int, text: str, fill: str = "#222222") -> str:
    return f'<text x="{x}" y="{y}" fill="{fill}">{escape(text)}</text>'


if __name__ == "__main__":
    main()
