"""A picture of the ratios: one page of HTML that needs nothing else."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence

from benchmarks.remote.measure import SIDES

__all__ = ["draw"]

Bars = tuple[str, float, Callable[[str], float | None]]
"""A row: its name, its latency in ms, and pylance's time over that of a side."""

LEFT, WIDTH, ROW, BAR = 240, 620, 30, 11
LEAST, MOST = 1 / 8, 64
COLOURS = {SIDES[0]: "#1f6f8b", SIDES[1]: "#99c5d5"}
STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em; color: #222; }
text { font: 12px system-ui, sans-serif; fill: #222; }
.grid { stroke: #ddd; } .one { stroke: #c0392b; }
"""


def draw(rows: Sequence[Bars]) -> str:
    """Return a page with a chart for each latency.

    Bars are on a logarithmic scale; those to the right of the red line are rows in which alance is
    faster than pylance.
    """
    latencies = sorted({latency for _, latency, _ in rows})
    charts = "".join(
        f"<h2>{latency:g} ms added to each request</h2>"
        + _chart([row for row in rows if row[1] == latency])
        for latency in latencies
    )
    key = "".join(
        f'<span style="color:{colour}">&#9632;</span> {html.escape(side)} &nbsp; '
        for side, colour in COLOURS.items()
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>alance and pylance</title>'
        f"<style>{STYLE}</style><h1>Pylance's time over alance's</h1><p>{key}</p>{charts}</html>\n"
    )


def _chart(rows: Sequence[Bars]) -> str:
    height = ROW * len(rows) + 24
    parts = [f'<svg width="{LEFT + WIDTH + 60}" height="{height}" role="img">']
    power = LEAST
    while power <= MOST:
        kind = "one" if power == 1 else "grid"
        x = _x(power)
        parts.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="18" y2="{height}"/>')
        label = f"{power:g}x" if power >= 1 else f"1/{1 / power:g}"
        parts.append(f'<text x="{x}" y="12" text-anchor="middle">{label}</text>')
        power *= 2
    for i, (name, _, ratio) in enumerate(rows):
        top = 24 + i * ROW
        parts.append(f'<text x="8" y="{top + BAR + 4}">{html.escape(name)}</text>')
        for k, (side, colour) in enumerate(COLOURS.items()):
            found = ratio(side)
            if found is not None:
                parts.append(_bar(found, top + k * (BAR + 1), colour))
    return "".join([*parts, "</svg>"])


def _bar(ratio: float, top: float, colour: str) -> str:
    """Bar from 1 to a ratio, and the ratio beside it."""
    one, end = _x(1), _x(ratio)
    return (
        f'<rect x="{min(one, end)}" y="{top}" width="{abs(end - one)}" height="{BAR}"'
        f' fill="{colour}"/><text x="{max(one, end) + 4}" y="{top + BAR - 1}">{ratio:.2f}</text>'
    )


def _x(ratio: float) -> float:
    """Place of a ratio on the scale; what leaves it lies at its end."""
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return round(LEFT + WIDTH * share, 1)
