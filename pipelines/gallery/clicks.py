"""python pipelines/gallery/clicks.py OUT.vw: 60,000 made-up ad impressions as Vowpal Wabbit text.

A line has a user, one of 20,000, with country, device and hour; an ad, one of 2,000, with its words; and the page. The
click depends on the device, three words, one page, and on a pair: people in France click on wine. Users and ads by
themselves have no effect, but there are many of them, as in real logs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROWS, USERS, ADS = 60_000, 20_000, 2_000
WORDS = [
    *("wine", "shoes", "boots", "hats", "books", "games", "phones", "sofa"),
    *("bike", "travel", "music", "garden", "coffee", "tea", "chess", "maps"),
]


def main(out: str) -> None:
    rng = np.random.default_rng(0)
    country_of = rng.choice(["uk", "fr", "de", "it", "es"], USERS)
    words_of = [rng.choice(WORDS, 3, replace=False) for _ in range(ADS)]
    users, ads = rng.integers(0, USERS, ROWS), rng.zipf(1.3, ROWS) % ADS
    devices = rng.choice(["phone", "desk", "tablet"], ROWS, p=[0.6, 0.3, 0.1])
    pages, hours = rng.integers(0, 300, ROWS), rng.integers(0, 24, ROWS)
    lines = []
    for user, ad, device, page, hour in zip(users, ads, devices, pages, hours, strict=True):
        country, words = country_of[user], words_of[ad]
        score = -3.0 + 0.8 * (device == "phone") + 2.0 * (page == 7)
        score += 1.0 * ("shoes" in words) + 0.8 * ("games" in words) - 1.0 * ("maps" in words)
        score += 2.5 * (country == "fr" and "wine" in words)
        clicked = rng.random() < 1 / (1 + np.exp(-score))
        lines.append(
            f"{1 if clicked else -1} |user id={user} country={country} device={device} hour={hour}"
            f" |ad id={ad} {' '.join(words)} |page p{page}"
        )
    Path(out).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
