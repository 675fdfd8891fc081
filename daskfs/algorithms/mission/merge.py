"""One memory from those that several lanes reached from a common one, each as if its rows stood for those of all.

The sketch is linear: the mean of the sketches is the common one plus the mean of what was learned. A table's weights
are out of the sketch, so a feature that some tables hold and others do not has parts in both: its weight is the mean
of the exact ones, plus what the merged sketch says it holds for the others, taken out of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from daskfs.algorithms.mission.memory import Shape, memory_of
from daskfs.algorithms.mission.memory_kernels import Rule, mean_into, unite
from daskfs.protocol import State

_MEANS = ("sketch", "tail", "bias", "bias_sum")


def merged_memories(shape: Shape, rule: Rule, states: Sequence[State], is_exact: bool) -> State:
    """The arrays of the merged memory; those of the states stay as they are."""
    memories = [memory_of(state) for state in states]
    merged = {name: array for name, array in shape.empty().items() if name not in _MEANS}
    lanes = np.array([state["merged_lanes"] for state in states])  # some may be merged already: a tree has branches
    shares = (lanes / lanes.sum()).astype(np.float32)
    for name in _MEANS:
        merged[name] = shares[0] * states[0][name]
        for share, state in zip(shares[1:], states[1:], strict=True):
            mean_into(merged[name], state[name], share)
    merged["tally"] += sum(state["tally"] for state in states)
    merged["merged_lanes"] = int(lanes.sum())
    into = memory_of(merged)
    for t in range(shape.n_tables):
        keys = np.concatenate([memory.keys[t] for memory in memories])
        taken = np.flatnonzero(keys)
        order = taken[np.argsort(keys[taken], kind="stable")]
        weights, sums, parents = (
            np.concatenate([getattr(memory, name)[t] for memory in memories]) for name in ("weights", "sums", "parents")
        )
        parents = parents[order] if shape.has_pairs else parents
        share = np.repeat(shares, shape.capacity)[order]
        unite(keys[order], weights[order], sums[order], parents, share, into, rule, t, is_exact)
    return merged
