"""Drawings of figures, as SVG."""

import html
import math

COLOURS = ["#1f6f8b", "#99a8b2", "#d9b08c"]
LEFT, WIDTH, BAR, GAP, TOP, BOTTOM = 150, 520, 11, 16, 46, 30


def head(title, series, width, height, size):
    """The begin of a drawing: its title, and names of series beside their colours."""
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="{size}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="18" font-size="14" fill="#222222">{html.escape(title)}</text>',
    ]
    at = 12
    for name, colour in series:
        out.append(f'<rect x="{at}" y="27" width="10" height="10" fill="{colour}"/>')
        out.append(f'<text x="{at + 15}" y="36" fill="#444444">{html.escape(name)}</text>')
        at += 30 + 7 * len(name)
    return out


def bars(title, series, rows, source, text_of):
    """Horizontal bars: of each row, a label and its numbers, one for each of a series."""
    most = max(max(numbers) for _, numbers in rows)
    height = TOP + len(rows) * (len(series) * BAR + GAP) + BOTTOM
    total = LEFT + WIDTH + 70
    out = head(title, zip(series, COLOURS), total, height, 12)
    y = TOP + GAP // 2
    for label, numbers in rows:
        middle = y + len(series) * BAR / 2 + 4
        out.append(
            f'<text x="{LEFT - 8}" y="{middle:.0f}" text-anchor="end" fill="#222222">'
            f"{html.escape(label)}</text>"
        )
        for colour, number in zip(COLOURS, numbers):
            width = WIDTH * number / most
            out.append(
                f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 1}" fill="{colour}"/>'
            )
            out.append(
                f'<text x="{LEFT + width + 4:.1f}" y="{y + 9}" font-size="10" fill="#444444">'
                f"{text_of(number)}</text>"
            )
            y += BAR
        y += GAP
    out.append(
        f'<text x="12" y="{height - 10}" font-size="10" fill="#444444">{html.escape(source)}</text>'
    )
    out.append("</svg>")
    return "\n".join(out) + "\n"


PANEL, PANEL_HEIGHT, MARGIN = 270, 190, 44
LINES = ["#d98c4a", "#1f6f8b", "#7a5aa6", "#222222"]


def panels(title, series, rows, source, size_of):
    """Rows of panels, each with a title and lines over sizes: of every series its points (size, number).
    Sizes have a logarithmic axis, numbers begin at 0; the last series is drawn as points."""
    width = MARGIN + len(rows[0]) * PANEL
    height = TOP + len(rows) * PANEL_HEIGHT + BOTTOM
    out = head(title, zip(series, LINES), width, height, 11)
    for row, some in enumerate(rows):
        for column, (label, lines) in enumerate(some):
            left, top = MARGIN + column * PANEL, TOP + row * PANEL_HEIGHT + 20
            out.extend(panel(label, lines, left, top, size_of))
    out.append(
        f'<text x="12" y="{height - 10}" font-size="10" fill="#444444">{html.escape(source)}</text>'
    )
    out.append("</svg>")
    return "\n".join(out) + "\n"


def panel(label, lines, left, top, size_of):
    """One panel of `panels`."""
    width, height = PANEL - 40, PANEL_HEIGHT - 50
    points = [point for line in lines for point in line]
    sizes = sorted({size for size, _ in points})
    most = max(number for _, number in points)
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])

    def place(size, number):
        x = left + width * (math.log2(size) - low) / max(high - low, 1)
        return x, top + height * (1 - number / most)

    yield f'<text x="{left}" y="{top - 6}" fill="#222222">{html.escape(label)}</text>'
    for share in (0, 0.5, 1):
        y = top + height * (1 - share)
        yield f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#dddddd"/>'
        yield (
            f'<text x="{left - 5}" y="{y + 4:.1f}" text-anchor="end" font-size="10" fill="#444444">'
            f"{most * share:.3g}</text>"
        )
    for size in sizes[::2]:
        x, _ = place(size, 0)
        yield (
            f'<text x="{x:.1f}" y="{top + height + 14}" text-anchor="middle" font-size="10" '
            f'fill="#444444">{size_of(size)}</text>'
        )
    for colour, line in zip(LINES, lines[:-1]):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in sorted(line)))
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
    for point in lines[-1]:
        x, y = place(*point)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{LINES[3]}"/>'
