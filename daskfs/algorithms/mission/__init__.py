"""MISSION: the top k of billions of features, from a sketch.

A. Aghazadeh, R. Spring, D. LeJeune, G. Dasarathy, A. Shrivastava, R. Baraniuk: *MISSION: Ultra Large-Scale Feature
Selection using Count-Sketches*, ICML 2018.

Rows stream by. Each is scored with the k largest weights; the gradient of its loss goes into a count-sketch for *all*
its features, so that what many rows agree on grows above the noise, however rare it is in each; the largest are read
back. Memory is the sketch and the table of the largest, whatever the number of features and rows.

============= ================================================== =====================================================
method        where weights are                                   steps
============= ================================================== =====================================================
``active``    of the largest: exact, in a table and out of the    smaller for what has been seen often; no overshooting
              sketch; of all others: in the sketch
``paper``     all in the sketch; a table remembers the largest    plain, as published
``hashing``   all in one row of cells, all of them count          plain: feature hashing, the baseline
``iht``       of the largest after every row; nothing else        plain: iterative hard thresholding, the baseline
``batch-iht`` the same, after as many features as the sketch has  plain
              cells
============= ================================================== =====================================================
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import RowLoss, check_target, encode_classes, positive_target
from daskfs.algorithms.mission.first_rows import enough, nobody, wait, waiting, waiting_nbytes
from daskfs.algorithms.mission.frequency import (
    cells_of,
    count,
    counts_nbytes,
    go_on_counting,
    merged_counts,
    no_counts,
    weigh_by_counts,
)
from daskfs.algorithms.mission.learn import learn, learn_and_fade, only_selected, take_last_step
from daskfs.algorithms.mission.memory import Pace, Shape, make_room, rule_of, shape_of
from daskfs.algorithms.mission.memory_kernels import ROWS, Memory, Rows
from daskfs.algorithms.mission.merge import merged_memories
from daskfs.algorithms.mission.pace import RATES, SIGHTINGS, pace_of, rate_of, settle_pace
from daskfs.algorithms.mission.pairs import check_interactions, name_spaces, pairs_nbytes, windows
from daskfs.algorithms.mission.refit import (
    begin,
    begin_pass,
    held_back_share,
    hold,
    is_held_back,
    keep_the_better,
    merged_refits,
    refit,
    refit_nbytes,
    without,
)
from daskfs.algorithms.mission.result import HISTORY, preview_of, result_of
from daskfs.algorithms.mission.rows import are_usable, first_unusable, numbers_of, part, rows_of
from daskfs.algorithms.mission.sketch_kernels import MAX_DEPTH
from daskfs.errors import OptionError, check_choice, check_positive, check_whole
from daskfs.jit import warms
from daskfs.protocol import (
    Algorithm,
    Axis,
    Block,
    Meta,
    Preview,
    Result,
    RowBlock,
    Schedule,
    Sharing,
    SparseBlock,
    State,
    copy_state,
)

Method = Literal["active", "paper", "hashing", "iht", "batch-iht"]
Stage = Literal["count", "learn", "refit"]
_FAR = 30.0  # spreads from zero: from here on the intercept is not found before the features are chosen
_TELLING = 500  # rows, all of the same class: hardly by chance
_MAX_BITS = 30  # three rows of them are 12 GB; kernels count cells in 32 bits


@dataclass(frozen=True)
class Mission(Algorithm):
    """Choose `n_select` features for a linear model from rows of any number of features.

    Parameters
    ----------
    n_select
        How many features to choose.
    loss
        "logistic" or "squared_hinge" for two classes, "softmax" for more, "squared" for numbers or two classes.
    passes
        How many times to read the data and learn.
    width
        Cells in a row of the sketch, a power of two.
    depth
        Rows of the sketch, an odd number.
    learning_rate
        Of steps, for rows of unit norm: the norm of the rows there are is measured. "auto" tries several on the
        first rows.
    method
        "active", the default and the best; "paper", as published; "hashing", "iht" and "batch-iht", its baselines.
    per_class
        With softmax, choose `n_select` features for every class, as published, and not for all classes together.
    intercept
        Whether to fit a constant.
    sightings
        Of "active": after so many of a feature, steps for it begin to get smaller.
    refit
        How many more times to read the data in the end, for better weights of the selected features. Some rows are
        held back from all passes, at most a sixteenth and 4,096; without a smaller loss on them the weights stay.
    idf
        Read the data once more at first, and count in how many rows a feature is: rare ones then weigh more.
    interactions
        "all" for pairs of features of a row, or two name spaces such as "user,ad" for pairs between them.
    fading
        The paper's γ: what the sketch holds beside the largest is scaled again and again, by 1 at first and by
        1 − `fading` in the end.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 300)) * (rng.random((2000, 300)) < 0.1)
    >>> daskfs.write_dataset("rows.zarr", X, X[:, 7] - 2 * X[:, 200] > 0, layout="rows")
    >>> daskfs.select("rows.zarr", daskfs.Mission(2, width=2**10)).features
    array([200,   7], dtype=uint64)
    """

    axis: ClassVar[Axis] = "rows"
    verb: ClassVar[str] = "sketch"

    n_select: int
    loss: RowLoss = "logistic"
    passes: int = 1
    width: int = 2**18
    depth: int = 3
    learning_rate: float | Literal["auto"] = "auto"
    method: Method = "active"
    per_class: bool = False
    intercept: bool = True
    sightings: float = SIGHTINGS
    refit: int = 0
    idf: bool = False
    interactions: str | None = None
    fading: float = 0.0

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, RowLoss)
        check_choice("method", self.method, Method)
        for name in ("n_select", "passes", "width", "depth"):
            check_whole(name, getattr(self, name), 1)
        if self.width.bit_count() != 1 or not 2 <= self.width <= 1 << _MAX_BITS:
            raise OptionError(f"width={self.width}: must be a power of two, from 2 to 2**{_MAX_BITS}")
        if self.depth % 2 != 1 or not 1 <= self.depth <= MAX_DEPTH:
            raise OptionError(f"depth={self.depth}: must be an odd number from 1 to {MAX_DEPTH}")
        if self.learning_rate != "auto":
            check_positive("learning_rate", self.learning_rate, " or 'auto'")
        check_positive("sightings", self.sightings)
        check_whole("refit", self.refit, 0)
        check_interactions(self.interactions)
        if self.per_class and self.loss != "softmax":
            raise OptionError("per_class: only loss='softmax' has weights for every class")
        if not 0 <= self.fading < 1:
            raise OptionError(f"fading={self.fading!r:.40}: must be a number from 0 up to 1")

    @property
    def sharing(self) -> Sharing:
        if self.method in ("iht", "batch-iht"):
            return Sharing()
        # Shards drift apart with fewer merges. 16 MB are some 40 ms of learning, four times what a merge takes.
        return Sharing(Schedule.SYNCHRONOUS, min_merges_per_pass=10, min_bytes_per_merge=16 << 20)

    @property
    def _stages(self) -> list[Stage]:
        """What each pass is for."""
        times: dict[Stage, int] = {"count": int(self.idf), "learn": self.passes, "refit": self.refit}
        return [stage for stage, number in times.items() for _ in range(number)]

    def start(self, meta: Meta, seed: int) -> State:
        check_target(self.loss, meta)
        shape = Shape.of(self, self._n_scores(meta))
        several = shape.n_scores > 1
        return {
            **shape.empty(),
            "tally_before": np.zeros(3),  # the last merge; the tally is this lane's since then
            "merged_lanes": 1,  # how many this state was merged from, until it learns again
            "labels": numbers_of(meta) if several else np.empty(0),
            "classes": json.dumps(meta.classes) if several else encode_classes(meta),
            "positive": positive_target(meta),
            "lanes": meta.n_shards,
            "n_samples": meta.n_samples,
            "longest_row": 0,  # that tables must have room for
            "size": np.full(2, np.nan),  # of rows and of values, once some have been seen
            "race": np.zeros(len(RATES)),
            "begins_with_one_class": False,  # which a shuffled source hardly does
            "is_far_from_zero": False,  # a real target, seen from its own spread
            "seed": seed,
            "held_back": held_back_share(meta) if self.refit else 0.0,
            "passes": 0,
            "history": np.full((len(self._stages), len(HISTORY)), np.nan),
            **nobody(),
            **no_counts(cells_of(self.width) if self.idf else 0),
            **({} if self.interactions is None else name_spaces(self.interactions, meta)),
        }

    def update(self, state: State, block: Block) -> State:
        if not isinstance(block, RowBlock | SparseBlock):
            raise OptionError("MISSION reads rows: write dense data with layout='rows' or 'both'")
        if state["merged_lanes"] > 1:
            state["tally_before"] += state["tally"]
            state["tally"][:], state["merged_lanes"] = 0.0, 1
            go_on_counting(state)
        rows, stage = rows_of(block, state), self._stages[state["passes"]]
        if stage == "count":
            count(state, rows.ids)
            state["tally"][ROWS] += len(rows.y)
            return state
        if not state["held_back"]:
            return self._learn_or_wait(state, rows, block.first)
        held = is_held_back(block.first, len(rows.y), state["seed"], state["held_back"])
        if stage == "learn":
            return self._learn_or_wait(state, without(rows, held), block.first)
        return self._refit(state, rows, held, block.first)

    def merge(self, states: Sequence[State]) -> State:
        stage = self._stages[states[0]["passes"]]
        if stage == "count":
            return merged_counts(states)
        if stage == "refit":
            return merged_refits(states)
        states = [self._without_waiting(copy_state(state)) if len(state["waiting_y"]) else state for state in states]
        begun = [state for state in states if not np.isnan(state["size"]).any()]
        if len(begun) < 2:
            return copy_state((begun or states)[0])
        merged = copy_state({name: value for name, value in begun[0].items() if name not in Memory._fields})
        lanes = [state["merged_lanes"] for state in begun]
        for name in ("size", "race"):  # means: those that began together have the same, merge after merge
            merged[name] = np.average([state[name] for state in begun], axis=0, weights=lanes)
        shape = shape_of(self, begun[0])
        rule = rule_of(self, shape, self._pace(merged))
        merged.update(merged_memories(shape, rule, begun, self.method == "active"))
        return merged

    def end_pass(self, state: State) -> tuple[State, bool]:
        stage, number = self._stages[state["passes"]], state["passes"]
        last_of_stage = self._stages[number + 1 : number + 2] != [stage]
        if stage == "learn":
            state = self._without_waiting(state)
            take_last_step(self, shape_of(self, state), state)
        loss, weight, rows = state["tally"] + state["tally_before"]
        if not np.isfinite(loss):
            rate = rate_of(self, state["race"])
            raise OptionError(f"learning_rate={rate:g}: weights grew beyond all bounds; take a smaller one")
        record = state["history"][number]
        record[: len(HISTORY) - 2] = loss / weight if weight else np.nan, rows, np.nan
        if stage == "count":
            weigh_by_counts(state, rows)
        else:
            record[HISTORY.index("rate")] = rate_of(self, state["race"])
        state["tally"][:], state["tally_before"][:], state["merged_lanes"] = 0.0, 0.0, 1
        shape = shape_of(self, state)
        if stage == "learn" and last_of_stage and self.refit:
            state = begin(self, shape, only_selected(self, shape, state))
        if stage == "refit" and last_of_stage:
            record[-2:] = keep_the_better(self, shape, self._pace(state), state)
        elif stage == "refit":
            begin_pass(state)
        state["passes"] += 1
        return state, state["passes"] < len(self._stages)

    def result(self, state: State) -> Result:
        if self._stages[: state["passes"]].count("learn") < self.passes or not self.refit:
            state = self._without_waiting(copy_state(state))
            state = only_selected(self, shape_of(self, state), state)
        return result_of(state, self._pace(state).bias_value if self.intercept else 0.0)

    def nbytes(self, meta: Meta) -> int:
        shape = Shape.of(self, self._n_scores(meta), self._longest_row(meta))
        races = self.learning_rate == "auto" and self.method == "active"
        learning = shape.nbytes * (1 + races) + shape.marks_nbytes + waiting_nbytes(meta)
        refitting = shape.nbytes + refit_nbytes(shape, meta) if self.refit else 0
        return max(learning, refitting) + counts_nbytes(self.width) * self.idf + pairs_nbytes(self.interactions, meta)

    def preview(self, state: State, most: int) -> Preview:
        return preview_of(state, most)

    def _n_scores(self, meta: Meta) -> int:
        return len(meta.classes or ()) if self.loss == "softmax" else 1

    def _longest_row(self, meta: Meta) -> int:
        """Entries that a row may have at most, where room for them is needed."""
        return 2 * min(meta.block_nbytes // 4, meta.n_entries) if self.sharing.schedule == Schedule.SERIAL else 0

    def _pace(self, state: State) -> Pace:
        return pace_of(self, rate_of(self, state["race"]), state["size"])

    def _learn_or_wait(self, state: State, rows: Rows, first: int) -> State:
        """Learn rows; the first ones once there are enough of them to know how fast."""
        if not np.isnan(state["size"]).any():
            return self._learn(state, rows, first)
        if not are_usable(rows).all():
            raise first_unusable(rows, first)
        wait(state, rows, first)
        return state if enough(waiting(state)) is None else self._without_waiting(state)

    def _without_waiting(self, state: State) -> State:
        """The state with what waits learned."""
        rows, first = waiting(state), state["waiting_from"]
        if len(rows.y) == 0:
            return state
        state.update(nobody())
        begin = part(rows, 0, enough(rows) or len(rows.y))
        state["begins_with_one_class"] = bool(state["classes"]) and len(begin.y) >= _TELLING and np.ptp(begin.y) == 0
        state["is_far_from_zero"] = not state["classes"] and _is_far_from_zero(begin.y)
        settle_pace(self, shape_of(self, state), state, begin, first)
        return self._learn(state, rows, first)

    def _learn(self, state: State, rows: Rows, first: int) -> State:
        pace = self._pace(state)
        for some in windows(rows, state, first):
            make_room(self, state, int(np.diff(some.indptr).max(initial=0)))
            shape = shape_of(self, state)
            if self.fading:
                learned = learn_and_fade(self, shape, pace, state, some)
            else:
                learned = learn(self, shape, pace, state, some, state["lanes"])
            if learned < len(some.y):
                raise first_unusable(rows, first)
        return state

    def _refit(self, state: State, rows: Rows, held: NDArray[np.bool_], first: int) -> State:
        is_first = state["passes"] == len(self._stages) - self.refit
        shape, pace, done = shape_of(self, state), self._pace(state), 0
        for some in windows(rows, state, first):
            stop = done + len(some.y)
            if is_first:
                hold(state, some, held[done:stop], first + done)
            if refit(self, shape, pace, state, without(some, held[done:stop])) < len(some.y):
                raise first_unusable(rows, first)
            done = stop
        return state


def _is_far_from_zero(y: NDArray[np.float64]) -> bool:
    return bool(abs(y.mean()) > _FAR * y.std() > 0)


@warms
def _warm_up() -> None:
    ids, values = np.arange(8, dtype=np.uint64), np.ones(8, np.float32)
    block = SparseBlock(0, np.arange(0, 9, 2), ids, values, np.array([0.0, 1.0, 0.0, 1.0]))
    meta = Meta("sparse", 4, 8, 8, 7, (0.0, 1.0), block.nbytes)
    for method in get_args(Method):
        for loss in ("logistic", "softmax"):
            algorithm = Mission(2, loss, method=method, width=16, refit=1)
            state = algorithm.start(meta, 0)
            for _ in range(2):  # a pass that learns, and one that refits, each by two lanes
                lanes = [algorithm.update(copy_state(state), block) for _ in range(2)]
                state, _ = algorithm.end_pass(algorithm.merge(lanes))
