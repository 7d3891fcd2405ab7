"""Two kinds of pictures, as SVG: bars of ratios on a logarithmic scale, and curves of ratios over what grows."""

import math
from html import escape

GREY, RED = "#555", "#c00"
COLOURS = {
    "native": "#9aa0a6",
    "overlayfs": "#7fb3a5",
    "fuse-overlayfs": "#d9a066",
    "bindfs": "#c98b8b",
    "fence": "#2b5fa8",
    "fence-live": "#5a86c4",
    "fence-passthrough": "#8aa9d6",
}
WHEEL = ["#2b5fa8", "#d9822b", "#3d8f5f", "#a8385d", "#7a5ea8", "#8a6d3b", "#2f8f9d", "#b0a030", "#5c5c5c", "#d06fa0", "#5fa8d9", "#91b86b"]


def head(width, height, title):
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="20" y="20" font-size="15">{escape(title)}</text>',
    ]


def ticks(low, high):
    """1, 2 and 5 of each power of ten."""
    found = []
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        found += [m * 10.0**power for m in (1, 2, 5) if low <= m * 10.0**power <= high]
    return found


def bars(title, kinds, rows, foot, low=0.1):
    """rows: (name, {kind: ratio}, target or None). The target is a short red line across the bars of its row."""
    high = max([2.0] + [r for _, ratios, _ in rows for k, r in ratios.items() if k in kinds]) * 1.2
    left, top, bar, gap, width = 150, 60, 9, 10, 640
    row_height = bar * len(kinds) + gap
    height = top + row_height * len(rows) + 50

    def x(ratio):
        return left + width * (math.log10(max(ratio, low)) - math.log10(low)) / (math.log10(high) - math.log10(low))

    out = head(left + width + 60, height, title)
    for i, kind in enumerate(kinds):
        at = left + i * 125
        out.append(f'<rect x="{at}" y="32" width="11" height="11" fill="{COLOURS[kind]}"/><text x="{at + 16}" y="42">{kind}</text>')
    for tick in ticks(low, high):
        colour = "#888" if tick == 1 else "#e4e4e4"
        out.append(f'<line x1="{x(tick):.1f}" y1="{top}" x2="{x(tick):.1f}" y2="{height - 40}" stroke="{colour}"/>')
        out.append(f'<text x="{x(tick):.1f}" y="{height - 24}" text-anchor="middle" fill="{GREY}">{tick:g}</text>')
    for i, (name, ratios, target) in enumerate(rows):
        y = top + i * row_height + gap / 2
        out.append(f'<text x="{left - 8}" y="{y + row_height / 2}" text-anchor="end">{escape(name)}</text>')
        for j, kind in enumerate(kinds):
            if kind not in ratios:
                continue
            end = x(ratios[kind])
            out.append(
                f'<rect x="{left}" y="{y + j * bar:.1f}" width="{max(1.0, end - left):.1f}" height="{bar - 1}" fill="{COLOURS[kind]}">'
                f"<title>{kind}: {ratios[kind]:.2f}</title></rect>"
            )
            out.append(f'<text x="{end + 3:.1f}" y="{y + j * bar + bar - 1.5:.1f}" font-size="8" fill="#333">{ratios[kind]:.2f}</text>')
        if target:
            out.append(
                f'<line x1="{x(target):.1f}" y1="{y - 2}" x2="{x(target):.1f}" y2="{y + bar * len(kinds) + 1}" stroke="{RED}" '
                'stroke-width="1.5"/>'
            )
    out.append(f'<text x="{left}" y="{height - 6}" fill="{GREY}">{escape(foot)}</text></svg>')
    return "\n".join(out) + "\n"


def curves(title, points, series, across, limit=None):
    """series: (name, [ratio or None at each point]). Points stand at equal distances: they are a factor apart. The limit is a red line."""
    left, top, width, high_px = 60, 40, 430, 240
    side, bottom = left + width + 24, top + high_px
    every = [r for _, ratios in series for r in ratios if r is not None]
    most = max([1.5, *every, limit or 0]) * 1.1
    least = min([0.5, *every]) * 0.9
    height = max(bottom + 50, top + 18 * len(series) + 20)

    def x(i):
        return left + width * (i + 0.5) / len(points)

    def y(ratio):
        return bottom - high_px * (math.log10(ratio) - math.log10(least)) / (math.log10(most) - math.log10(least))

    out = head(side + 350, height, title)
    for tick in ticks(least, most):
        colour = "#888" if tick == 1 else "#e4e4e4"
        out.append(f'<line x1="{left}" y1="{y(tick):.1f}" x2="{left + width}" y2="{y(tick):.1f}" stroke="{colour}"/>')
        out.append(f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="{GREY}">{tick:g}</text>')
    for i, point in enumerate(points):
        out.append(f'<text x="{x(i):.1f}" y="{bottom + 18}" text-anchor="middle" fill="{GREY}">{point:,}</text>')
    if limit:
        out.append(
            f'<line x1="{left}" y1="{y(limit):.1f}" x2="{left + width}" y2="{y(limit):.1f}" stroke="{RED}" stroke-dasharray="5 4"/>'
        )
    for j, (name, ratios) in enumerate(series):
        colour = WHEEL[j % len(WHEEL)]
        dots = [(x(i), y(r), r) for i, r in enumerate(ratios) if r is not None]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b, _ in dots)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        for a, b, r in dots:
            out.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.6" fill="{colour}"><title>{escape(name)}: {r:.2f}</title></circle>')
        row = top + 8 + 18 * j
        out.append(f'<rect x="{side}" y="{row - 9}" width="11" height="11" fill="{colour}"/>')
        out.append(f'<text x="{side + 16}" y="{row + 1}">{escape(name)}</text>')
    out.append(f'<text x="{left + width / 2}" y="{bottom + 38}" text-anchor="middle" fill="{GREY}">{escape(across)}</text></svg>')
    return "\n".join(out) + "\n"
