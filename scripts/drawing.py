"""Drawings of figures, as SVG."""

import html

COLOURS = ["#1f6f8b", "#99a8b2", "#d9b08c"]
LEFT, WIDTH, BAR, GAP, TOP, BOTTOM = 150, 520, 11, 16, 46, 30


def bars(title, series, rows, source, text_of):
    """Horizontal bars: of each row, a label and its numbers, one for each of a series."""
    most = max(max(numbers) for _, numbers in rows)
    height = TOP + len(rows) * (len(series) * BAR + GAP) + BOTTOM
    total = LEFT + WIDTH + 70
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" width="{total}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{total}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="18" font-size="14" fill="#222222">{html.escape(title)}</text>',
    ]
    at = 12
    for name, colour in zip(series, COLOURS):
        out.append(f'<rect x="{at}" y="27" width="10" height="10" fill="{colour}"/>')
        out.append(f'<text x="{at + 15}" y="36" fill="#444444">{html.escape(name)}</text>')
        at += 30 + 7 * len(name)
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
