"""The table of docs/arena.md on bands: how often the 95 % band of `auto` holds curves that are known.

Run `python -m bench.band_table`; with `--write` it replaces the table in the page.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import expit

import calibrant
from bench.pages import publish

DRAWS = 150
SIZES = (200, 1_000, 5_000)
AT = np.linspace(-2, 2, 41)  # where the band is looked at; the scores are standard normal

LOGITS = {
    "a line": lambda x: 1.5 * x - 0.5,
    "a steep line": lambda x: 12 * x - 3.6,
    "a smooth bend": lambda x: 3 * np.tanh(0.8 * x) - 0.5,
    "a parabola": lambda x: 1.5 * x + 0.3 * x**2 - 1,
    "a kink upwards": lambda x: np.where(x < 0, 0.3, 3.0) * x - 1,
    "a kink downwards": lambda x: np.where(x < 0, 3.0, 0.3) * x - 1,
    "two kinks": lambda x: np.clip(3 * x, -2.5, 2.5),
    "two jumps": lambda x: np.where(x < -0.5, -2.0, np.where(x < 0.7, 0.0, 2.0)),
}


def measure(logit, size):
    """Return the share of places and draws at which the band holds the curve, and the mean width of the band."""
    rng, held, width = np.random.default_rng(size), [], []
    for _ in range(DRAWS):
        x = rng.normal(size=size)
        low, high = calibrant.fit("auto", x, rng.random(size) < expit(logit(x)), kind="logit").band(AT)
        held.append((low <= expit(logit(AT))) & (expit(logit(AT)) <= high))
        width.append(high - low)
    return np.mean(held), np.mean(width)


def table():
    """Return the measurements as a Markdown table."""
    lines = ["| logit of the truth | " + " | ".join(f"{size:,} rows" for size in SIZES) + " |"]
    lines.append("|---" * (len(SIZES) + 1) + "|")
    for name, logit in LOGITS.items():
        cells = ["{:.3f} ({:.2f})".format(*measure(logit, size)) for size in SIZES]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    """Print the table, or put it into the page."""
    warnings.simplefilter("ignore", UserWarning)
    publish(table(), "arena.md", "bench.band_table")


if __name__ == "__main__":
    main()
