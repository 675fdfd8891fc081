"""python pipelines/gallery/dna.py FOLDER: made-up stretches of DNA, FOLDER/promoter.fna and FOLDER/background.fna.

Each has 3,000 sequences of 120 bases, drawn from the same Markov chain. Nine of ten promoters have TATAAA somewhere,
and nine of ten have CCAAT somewhere; one of eight of these motifs has a base changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

SEQUENCES, LENGTH = 3000, 120
MOTIFS = ("TATAAA", "CCAAT")


def background(steps: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return sequences in which a base depends on the base before it, as bytes."""
    codes = np.zeros((SEQUENCES, LENGTH), np.intp)
    codes[:, 0] = rng.integers(0, 4, SEQUENCES)
    for at in range(1, LENGTH):
        draws = rng.random((SEQUENCES, 1))
        codes[:, at] = np.minimum((draws > steps[codes[:, at - 1]]).sum(axis=1), 3)
    return np.frombuffer(b"ACGT", np.uint8)[codes]


def plant(sequences: np.ndarray, motif: str, rng: np.random.Generator) -> None:
    """Write a motif into nine of ten sequences, at a random place, with a base changed in one of eight."""
    for sequence in sequences:
        if rng.random() < 0.9:
            letters = np.frombuffer(motif.encode(), np.uint8).copy()
            if rng.random() < 1 / 8:
                letters[rng.integers(len(letters))] = rng.choice(np.frombuffer(b"ACGT", np.uint8))
            at = rng.integers(0, LENGTH - len(letters))
            sequence[at : at + len(letters)] = letters


def main(folder: str) -> None:
    rng = np.random.default_rng(0)
    steps = rng.dirichlet(np.full(4, 8.0), size=4).cumsum(axis=1)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, motifs in {"background": (), "promoter": MOTIFS}.items():
        sequences = background(steps, rng)
        for motif in motifs:
            plant(sequences, motif, rng)
        records = [f">{name}{number}\n{sequence.tobytes().decode()}\n" for number, sequence in enumerate(sequences)]
        Path(folder, f"{name}.fna").write_text("".join(records), encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1])
