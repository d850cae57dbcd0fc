"""Draws lines over steps into a PNG, with nothing but NumPy and zlib."""
import struct
import zlib

import numpy as np

# Digits, a dot, a minus and an e in 3 by 5 points, five rows of three bits each.
GLYPHS = {"0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717",
          "6": "74757", "7": "71122", "8": "75757", "9": "75717", ".": "00002", "-": "00700",
          "e": "07647"}
COLOURS = ((31, 119, 180), (214, 39, 40), (44, 160, 44), (148, 103, 189))
MARGIN = 64


def write_text(image, x, y, text, scale=2):
    """Text whose left upper corner is at x, y."""
    for i, character in enumerate(text):
        rows = GLYPHS.get(character, "00000")
        for r, bits in enumerate(rows):
            for c in range(3):
                if int(bits, 16) >> (2 - c) & 1:
                    left, top = x + (4 * i + c) * scale, y + r * scale
                    image[top:top + scale, left:left + scale] = 60


def draw_line(image, points, colour):
    """Straight lines from point to point."""
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        n = int(max(abs(x1 - x0), abs(y1 - y0), 1)) * 2
        xs = np.linspace(x0, x1, n).round().astype(int)
        ys = np.linspace(y0, y1, n).round().astype(int)
        for down in (0, 1):
            image[np.clip(ys + down, 0, image.shape[0] - 1), xs] = colour


def write_png(path, image):
    """height x width x 3 bytes as a PNG."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))
    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(
            ">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def smoothed(values, width):
    """Means over the last `width` values."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    at = np.arange(1, len(values) + 1)
    start = np.maximum(at - width, 0)
    return (sums[at] - sums[start]) / (at - start)


def draw(path, lines, width=960, height=540):
    """lines: (steps, values) of each; steps to the right, values upward."""
    image = np.full((height, width, 3), 255, np.uint8)
    lines = [(np.asarray(x, float), np.asarray(y, float)) for x, y in lines if len(x)]
    if not lines:
        return write_png(path, image)
    low, high = min(y.min() for _, y in lines), max(y.max() for _, y in lines)
    high = high if high > low else low + 1
    last = max(max(x.max() for x, _ in lines), 1)
    inner = width - 2 * MARGIN, height - 2 * MARGIN
    for i in range(6):
        y = MARGIN + round(inner[1] * i / 5)
        image[y, MARGIN:width - MARGIN] = 225
        write_text(image, 4, y - 5, f"{high - (high - low) * i / 5:.3g}")
        x = MARGIN + round(inner[0] * i / 5)
        image[MARGIN:height - MARGIN, x] = 225
        write_text(image, x - 10, height - MARGIN + 12, f"{last * i / 5:.0f}")
    for (x, y), colour in zip(lines, COLOURS):
        points = list(zip(MARGIN + x / last * inner[0],
                          MARGIN + (high - y) / (high - low) * inner[1]))
        draw_line(image, points, colour)
    write_png(path, image)
