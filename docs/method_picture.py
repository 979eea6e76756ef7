#!/usr/bin/env python3
"""Draws docs/method.svg, README.md's picture of the method: docs/method_picture.py >docs/method.svg"""

BLUE, ORANGE, GREY, INK = "#4878b0", "#d98032", "#8a8f98", "#30343b"
PALE = {BLUE: "#dbe6f3", ORANGE: "#fae6d4"}
SIDE = 96  # of a sample


def text(x, y, words, size=14, colour=INK, weight="normal"):
    return (f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" font-weight="{weight}" '
            f'text-anchor="middle">{words}</text>')


def box(x, y, width, height, fill, stroke):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'


def arrow(x0, y0, x1, y1, colour=GREY):
    return f'<path d="M {x0} {y0} L {x1} {y1}" stroke="{colour}" stroke-width="2.5" fill="none" marker-end="url(#head)"/>'


def sample(x, y, cells):
    """A plane of so many cells along each side: a smooth bump with some detail."""
    step = SIDE / cells
    shapes = []
    for row in range(cells):
        for column in range(cells):
            u, v = (column + 0.5) / cells - 0.45, (row + 0.5) / cells - 0.55
            level = int(235 - 150 / (1 + 14 * (u * u + v * v)) - (18 if cells == 16 and (row * 7 + column * 5) % 6 < 2 else 0))
            shapes.append(f'<rect x="{x + column * step:g}" y="{y + row * step:g}" width="{step:g}" height="{step:g}" '
                          f'fill="rgb({level},{level},{level})" stroke="white" stroke-width="0.5"/>')
    return "".join(shapes)


def network(x, y, bottom, top):
    """Four layers; the bottom ones may have another colour than the top ones."""
    shapes = []
    for number, (name, colour) in enumerate((("conv", bottom), ("conv", bottom), ("dense", top), ("outputs", top))):
        shapes.append(box(x + 34 * number, y + 7 * number, 28, SIDE - 14 * number, PALE[colour], colour))
        shapes.append(f'<text x="{x + 34 * number + 18}" y="{y + SIDE / 2}" font-size="11" fill="{INK}" text-anchor="middle" '
                      f'transform="rotate(-90 {x + 34 * number + 18} {y + SIDE / 2})">{name}</text>')
    return "".join(shapes)


def stage(x, cells, bottom, top, title, words):
    y = 64
    return "".join([text(x + 135, 34, title, 16, weight="bold"), sample(x, y, cells), arrow(x + SIDE + 8, y + SIDE / 2, x + SIDE + 30, y + SIDE / 2),
                    network(x + SIDE + 40, y, bottom, top), text(x + 135, y + SIDE + 32, words)])


def picture():
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 240" width="760" height="240" '
             'font-family="Helvetica, Arial, sans-serif">',
             f'<defs><marker id="head" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="6" markerHeight="6" orient="auto">'
             f'<path d="M 0 0 L 10 5 L 0 10 z" fill="{GREY}"/></marker></defs>',
             '<rect width="760" height="240" fill="white"/>',
             stage(30, 8, BLUE, BLUE, "coarse model", "averaged samples: many cheap epochs"),
             arrow(316, 112, 444, 112), text(380, 96, "transfer", 14, weight="bold"), text(380, 136, "of the layers", 13),
             text(380, 153, "that were learned", 13),
             stage(460, 16, BLUE, ORANGE, "full resolution", "original samples: few costly epochs"),
             text(380, 226, "blue: learned at the coarse resolution.  orange: new, interpolated or transferred, as the method says", 12, GREY),
             "</svg>"]
    return "\n".join(parts)


if __name__ == "__main__":
    print(picture())
