"""The choice of the algorithm by what the data are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daskfs.algorithms.losses import has_classes, loss_for
from daskfs.algorithms.registry import registrations
from daskfs.protocol import Kind, Meta

LEAST_KMER, MOST_KMER = 4, 12
"""The shortest and the longest k-mers that `choose_kmers` chooses."""
LEAST_REPEATS = 64
"""How often each k-mer of the chosen length occurs at least, if all are equally frequent."""


@dataclass(frozen=True)
class Facts:
    """What the choice of an algorithm depends on: the kind, the size and the target of the data."""

    kind: Kind
    n_samples: int
    n_features: int
    loss: str
    target: str
    """The target in words, such as "two classes"."""
    n_features_is_limit: bool = False
    """Whether `n_features` is only the most that there can be."""

    @classmethod
    def of(cls, meta: Meta, n_features_is_limit: bool) -> Facts:
        """Return the facts about a dataset."""
        if meta.targets is not None:
            target = f"{len(meta.targets)} numeric targets"
        elif not has_classes(meta):
            target = "a numeric target"
        else:
            target = {2: "two classes"}.get(len(meta.classes or ()), f"{len(meta.classes or ())} classes")
        return cls(meta.kind, meta.n_samples, meta.n_features, loss_for(meta), target, n_features_is_limit)

    def __str__(self) -> str:
        up_to = "up to " if self.n_features_is_limit else ""
        return f"{up_to}{self.n_features:,} {self.kind} features, {self.n_samples:,} rows, {self.target}"


def choose_kmers(n_letters: float) -> int:
    """Return a length of k-mers for an amount of sequence, so that a k-mer occurs often enough to be learned from.

    >>> from daskfs.job.choice import choose_kmers
    >>> choose_kmers(5_000), choose_kmers(720_000), choose_kmers(10**10)
    (4, 6, 12)
    """
    return next((k for k in range(MOST_KMER, LEAST_KMER, -1) if n_letters >= LEAST_REPEATS * 4**k), LEAST_KMER)


def choose_algorithm(kind: Kind, n_samples: int, n_features: int, k: int, among: Sequence[str]) -> tuple[str, str]:
    """Return the name of the algorithm that suits the data, one of `among`, and the reason.

    Examples
    --------
    >>> from daskfs.job.choice import choose_algorithm
    >>> choose_algorithm("dense", 5000, 300, 20, ["substitution", "mission"])
    ('substitution', 'for dense columns')
    >>> choose_algorithm("sparse", 10**6, 10**8, 1000, ["substitution", "mission"])[0]
    'mission'
    """
    if len(among) == 1:
        return among[0], "as asked"
    entries = registrations()
    reasons = ((name, entries[name].suits(kind, n_samples, n_features, k)) for name in among)
    return next(((name, reason) for name, reason in reasons if reason), (among[0], "the first with these flags"))
