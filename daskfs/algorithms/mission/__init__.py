"""MISSION: selection of the k features with the largest weights among billions, from a count-sketch.

A. Aghazadeh, R. Spring, D. LeJeune, G. Dasarathy, A. Shrivastava, R. Baraniuk, *MISSION: Ultra Large-Scale Feature
Selection using Count-Sketches*, ICML 2018.

MISSION minimises Σ loss(w·x + b, y) over weights w of which at most k are not zero, by stochastic gradient descent.

Rows stream by, and each row is scored with the k largest weights. The gradient of the row's loss goes into a
count-sketch for *all* features of the row. Weights on whose sign many rows agree grow above the noise of the sketch,
even if the feature is rare, and the k largest weights are read back.

Memory is that of the sketch and a table of the largest weights, whatever the number of features and rows.

============= ================================================== =====================================================
method        where weights are                                   steps
============= ================================================== =====================================================
``active``    the largest in a table, exact; all others in        smaller for features that were seen often (AdaGrad),
              shared cells, one for each feature                  and implicit, so that they do not overshoot
``paper``     all in the sketch; a table lists the largest        plain, as published
``hashing``   all in one row of cells, and all of them count      plain: feature hashing, the baseline
``iht``       the largest after every row; nothing else           plain: iterative hard thresholding, the baseline
``batch-iht`` the same, after as many features as the sketch has  plain
              cells
============= ================================================== =====================================================

An exact table beside the sketch is the idea of the Active-Set Weight-Median Sketch (K. S. Tai, V. Sharan, P. Bailis, G.
Valiant, *Sketching Linear Classifiers over Data Streams*, SIGMOD 2018).

Several shards learn side by side and merge now and then, as `learn._merge_memories` describes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.error_control import check_limits
from daskfs.algorithms.keep import kept_features
from daskfs.algorithms.losses import RowLoss, check_target, encode_classes, encode_target, loss_for, positive_target
from daskfs.algorithms.mission.calibration import (
    FEW_ROWS,
    are_few,
    count_first_rows,
    rate_of,
    remark_on,
    target_sums,
)
from daskfs.algorithms.mission.common import common_features
from daskfs.algorithms.mission.feature_kernels import compile_scaling
from daskfs.algorithms.mission.fit import load_scipy
from daskfs.algorithms.mission.halves import (
    N_LEARNERS,
    HalvesState,
    check_halves,
    check_order,
    group_features,
    with_error_control,
)
from daskfs.algorithms.mission.learn import (
    calibrate,
    judge_halves,
    keep_selected,
    learn,
    learn_halves,
    merge_learned,
    scaled_rows,
    without_groups,
)
from daskfs.algorithms.mission.memory_kernels import ROWS, TARGETS, Rule, SparseRows
from daskfs.algorithms.mission.refit import RefitState, fits_in_memory, held_back_share, is_held_back, only_selected
from daskfs.algorithms.mission.rows import (
    NO_ROWS,
    RowCounts,
    are_all_usable,
    check_interactions,
    count_rows,
    idf_of,
    ignore_rows,
    join_rows,
    name_spaces_of,
    read_only,
    rows_of,
    slice_rows,
    take_rows,
    unusable_value,
    windows,
)
from daskfs.algorithms.mission.scaling import Scaling, target_unit_of, units_of
from daskfs.algorithms.mission.sketch_kernels import MAX_DEPTH
from daskfs.algorithms.mission.state import (
    HISTORY,
    MissionState,
    count_bytes,
    count_scores,
    count_slots,
    empty_memory,
    has_sketch,
    is_scaled,
    make_room,
    preview_of,
    resize_tables,
    result_of,
    room_of,
    rule_of,
)
from daskfs.algorithms.parameters import check_fields
from daskfs.errors import OptionError
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
    copy_state,
)

MissionLoss = Literal["auto", "logistic", "squared", "squared_hinge", "softmax"]
MissionMethod = Literal["active", "paper", "hashing", "iht", "batch-iht"]
MissionStage = Literal["count", "learn", "refit"]
SIGHTINGS = 30.0
_PASSES = 3  # over few rows
_MAX_BITS = 30  # three rows of 2^30 cells are 12 GB; kernels count cells in 32 bits


@dataclass(frozen=True)
class Mission(Algorithm):
    """Choose `n_select` features for a linear model from rows of any number of features.

    Parameters
    ----------
    n_select
        How many features to choose: all there are, with a warning, if they are fewer.
    loss
        "logistic" or "squared_hinge" for two classes, "softmax" for more, "squared" for numbers or two classes. "auto"
        is "squared" for numbers, "logistic" for two classes, "softmax" for more.
    passes
        How many times to read the data and learn. "auto" is three times for at most 8,192 rows, and once for more:
        several passes over many rows choose worse features.
    width
        Cells in a row of the sketch, a power of two. With "active", the sketch is one row of twice as many cells.
    depth
        With "paper", rows of the sketch, an odd number.
    learning_rate
        The learning rate for rows of unit norm, which is divided by the mean squared norm of the first rows. "auto"
        tries several learning rates on the first rows.
    method
        "active", the default and the best; "paper", as published; "hashing", "iht" and "batch-iht", its baselines.
    per_class
        With softmax, choose `n_select` features for every class, as published, and not for all classes together.
    intercept
        Whether to fit a constant.
    keep
        Names of features that are always in the model and are not counted in `n_select`, such as age or site. A name
        stands for a feature, or for all features of a name space or of a column of categories.
    scale
        With "active", learn from values that do not depend on the units of features: values of features that are in
        many rows are standardised by their moments in the first rows, and others are divided by a typical value. The
        weights of a result are for the values as they are in the data.
    sightings
        With "active", the number of rows with a feature after which steps for the feature begin to get smaller.
    refit
        How many more times to read the data in the end, for better weights of the selected features. Some rows are held
        back from all passes, at most a sixteenth and 4,096; without a smaller loss on these rows the weights stay.
        "auto" reads once, keeps rows with their selected features in memory, up to 2^20 values, and fits these rows by
        a ridge regression, with a ridge chosen on rows left out. No rows are held back if all rows can be kept. Common
        features take the place of rare ones with larger weights if that clearly lowers the loss of rows left out.
    idf
        Read the data once more at first, and count the rows of every feature, so that rare features weigh more.
    interactions
        "all" for pairs of features of a row, or two name spaces such as "user,ad" for pairs between them.
    fading
        The paper's γ: weights in the sketch, other than the largest, are scaled again and again, by 1 at first and by 1
        − `fading` in the end.
    error_control
        "halves" also learns from ten random pairs of halves of the rows, once for the target and once for a permuted
        target, in the same passes. It says how many halves chose each feature, and how many are expected to be false.
        The work is that of 20 more learners, and the memory that of 40.
    max_fdr
        With error control: of the `n_select` features only those with at most this q-value are reported, such as 0.1.
    max_false
        With error control: only as many features are reported that at most so many of them are expected to be false.
    groups
        With error control: the name of the feature or name space that says which rows belong together, such as those of
        a session. Groups are halved and permuted as a whole, and what names them is not selected.
    balanced
        Predict classes as if all of them were equally frequent, for the best balanced accuracy where some are rare. The
        weights, scores and probabilities stay as they are; only the threshold of predictions moves.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 300)) * (rng.random((2000, 300)) < 0.1)
    >>> _ = daskfs.write_dataset("rows.zarr", X, X[:, 7] - 2 * X[:, 200] > 0, layout="rows")
    >>> daskfs.select("rows.zarr", daskfs.Mission(2, width=2**10)).features
    array([200,   7], dtype=uint64)
    """

    axis: ClassVar[Axis] = "rows"
    verb: ClassVar[str] = "sketch"

    n_select: int
    loss: MissionLoss = "auto"
    passes: int | Literal["auto"] = "auto"  # type: ignore[assignment]  # `resolve` leaves a number
    width: int = 2**18
    depth: int = 3
    learning_rate: float | Literal["auto"] = "auto"
    method: MissionMethod = "active"
    per_class: bool = False
    intercept: bool = True
    keep: tuple[str, ...] = ()
    scale: bool = True
    sightings: float = SIGHTINGS
    refit: int | Literal["auto"] = "auto"
    idf: bool = False
    interactions: str | None = None
    fading: float = 0.0
    error_control: Literal["halves"] | None = None
    max_fdr: float | None = None
    max_false: float | None = None
    groups: str | None = None
    balanced: bool = False

    def __post_init__(self) -> None:
        check_fields(Mission, self, may_be_zero=("refit", "fading"))
        if self.width.bit_count() != 1 or not 2 <= self.width <= 1 << _MAX_BITS:
            raise OptionError(f"width={self.width}: must be a power of two, from 2 to 2**{_MAX_BITS}")
        if self.depth % 2 != 1 or not 1 <= self.depth <= MAX_DEPTH:
            raise OptionError(f"depth={self.depth}: must be an odd number from 1 to {MAX_DEPTH}")
        check_interactions(self.interactions)
        if self.per_class and self.loss not in ("auto", "softmax"):
            raise OptionError("per_class: only loss='softmax' has weights for every class")
        if self.fading >= 1:
            raise OptionError(f"fading={self.fading!r:.40}: must be a number from 0 up to 1")
        if self.error_control is None and self.groups is not None:
            raise OptionError("groups: needs error_control='halves'")
        is_on = self.error_control is not None
        check_limits(self.max_fdr, self.max_false, "halves", is_on, n_null=1, n_select=self.n_select)

    @property
    def needs_names(self) -> bool:
        return super().needs_names or self.interactions is not None

    @property
    def sharing(self) -> Sharing:
        if not has_sketch(self):
            return Sharing()
        if self.groups is not None:  # of several shards, each would permute the targets of a group in its own way
            return Sharing()
        # Shards drift apart with fewer merges. 16 MB are some 40 ms of learning, four times what a merge takes.
        has_fixed_shards = self.error_control is not None  # q-values are the same on any number of workers
        return Sharing(Schedule.SYNCHRONOUS, 10, min_bytes_per_merge=16 << 20, has_fixed_shards=has_fixed_shards)

    def resolve(self, meta: Meta) -> Mission:
        is_small = self.method == "active" and meta.n_samples <= FEW_ROWS
        passes = (_PASSES if is_small else 1) if self.passes == "auto" else self.passes
        loss = loss_for(meta) if self.loss == "auto" else self.loss
        n_select = self.n_select if self.interactions else min(self.n_select, meta.n_features)  # pairs are many more
        resolved = replace(self, passes=passes, loss=loss, n_select=n_select)
        if self.error_control is not None:
            check_halves(resolved, meta)
        return resolved

    @property
    def row_loss(self) -> RowLoss:
        """The loss; "auto" is the loss for two classes where the target is not known."""
        return "logistic" if self.loss == "auto" else self.loss

    @property
    def n_passes(self) -> int:
        """How often the data are read to learn; "auto" is once where the number of rows is not known."""
        return 1 if self.passes == "auto" else self.passes

    @property
    def n_refits(self) -> int:
        """How often the data are read for a refit."""
        if self.refit == "auto":
            return int(self.method == "active")
        return self.refit

    def _fits_at_once(self, meta: Meta) -> bool:
        return self.refit == "auto" and not self.per_class and fits_in_memory(meta)

    @property
    def _compares_common(self) -> bool:
        """Whether the refit compares the largest weights with common features that contribute more."""
        is_usual = self.error_control is None and self.interactions is None
        return is_usual and self.method == "active" and self.refit == "auto" and not self.per_class

    @property
    def max_reads(self) -> int:
        return len(self._stages)

    @property
    def extra_work(self) -> str:
        if self.error_control is None:
            return ""
        return (
            f"error control learns every row {N_LEARNERS // 2} times more, and has {N_LEARNERS} more sketches in memory"
        )

    @property
    def _stages(self) -> list[MissionStage]:
        """The stage of every pass: "count", "learn" or "refit"."""
        times: dict[MissionStage, int] = {"count": int(self.idf), "learn": self.n_passes, "refit": self.n_refits}
        return [stage for stage, number in times.items() for _ in range(number)]

    def needs_mixed_rows(self, meta: Meta) -> bool:
        return not self._can_mix(meta)

    def _can_mix(self, meta: Meta) -> bool:
        """Return whether all rows fit into the buffer of the first rows, where they are put in random order."""
        return self.method == "active" and meta.n_shards == 1 and are_few(meta)

    def rehearse(self, meta: Meta) -> bool:
        refit: Any = "auto" if self._fits_at_once(meta) else min(self.n_refits, 1)
        plain = replace(self, error_control=None, max_fdr=None, max_false=None, groups=None)
        small = replace(plain, n_select=2, width=16, passes=1, refit=refit, idf=False)
        _run_on_few_rows(replace(small, keep=(), interactions=None))
        compile_scaling()  # which few rows do not need
        load_scipy()
        return True

    def start(self, meta: Meta, seed: int) -> MissionState:
        check_target(self.row_loss, meta)
        check_order(self, meta)
        n_scores, keep = count_scores(self, meta), kept_features(self.keep, meta)
        room = room_of(self, len(keep))
        several = n_scores > 1
        return MissionState(
            memory=empty_memory(self, n_scores, room),
            room=room,
            classes=json.dumps(meta.classes) if several else encode_classes(meta),
            labels=_labels_in_blocks(meta) if several else np.empty(0),
            positive=positive_target(meta),
            n_samples=meta.n_samples,
            n_shards=meta.n_shards,
            seed=seed,
            held_back=held_back_share(meta) if self.n_refits and not self._fits_at_once(meta) else 0.0,
            fits_at_once=self._fits_at_once(meta),
            keep=keep,
            mixes=meta.mixed is False and self._can_mix(meta),
            history=np.full((len(self._stages), len(HISTORY)), np.nan),
            counts=RowCounts.empty(self.width) if self.idf else None,
            name_spaces=name_spaces_of(self.interactions, meta),
            halves=None if self.error_control is None else self._start_halves(n_scores, room, meta),
        )

    def update(self, state: MissionState, block: Block) -> MissionState:
        if not isinstance(block, RowBlock | SparseBlock):
            raise OptionError("MISSION reads rows: write dense data with layout='rows' or 'both'")
        if state.merged_shards > 1:  # from here on this is one shard of several, with a common past
            state.totals_before += state.memory.totals
            state.memory.totals[:], state.merged_shards = 0.0, 1
            if state.counts is not None:
                state.counts.before += state.counts.since
                state.counts.since[:] = 0
        rows, stage = self._rows(state, block), self._stages[state.passes]
        if state.counts is not None:
            count_rows(state.counts, rows.ids)
            state.memory.totals[ROWS] += len(rows.y)
            return state
        if stage == "learn":
            state.memory.totals[TARGETS:] += target_sums(rows.y)
        held = is_held_back(block.first, len(rows.y), state.seed, state.held_back)
        if stage == "refit":
            return self._refit(state, rows, held, block.first)
        return self._learn_or_buffer(state, ignore_rows(rows, held) if state.held_back else rows, block.first)

    def merge(self, states: Sequence[MissionState]) -> MissionState:
        if self._stages[states[0].passes] == "learn":
            states = [state if state.buffer is None else self._learn_buffer(copy_state(state)) for state in states]
            begun = [state for state in states if state.calibration is not None]
            return merge_learned(self, begun) if len(begun) > 1 else copy_state((begun or states)[0])
        shards = [state.merged_shards for state in states]
        merged: MissionState = copy_state(states[0])
        merged.memory.totals[:] = np.sum([state.memory.totals for state in states], axis=0)
        merged.merged_shards = sum(shards)
        if merged.counts is not None:
            counts = [state.counts.since for state in states if state.counts is not None]
            merged.counts.since = np.sum(counts, axis=0, dtype=np.uint32)
        if merged.refit is not None:
            merged.refit = RefitState.merge([state.refit for state in states if state.refit], shards, merged.seed)
        return merged

    def end_pass(self, state: MissionState) -> tuple[MissionState, bool]:
        number, stage = state.passes, self._stages[state.passes]
        is_last = self._stages[number + 1 : number + 2] != [stage]
        if stage == "learn":
            state = self._learn_buffer(state)
            if not has_sketch(self):
                keep_selected(self, state.memory, self._rule(state))
        loss, weight, rows, *targets = state.memory.totals + state.totals_before
        if stage == "learn":
            state.remark = remark_on(np.array(targets), has_classes=bool(state.classes))
        rate = rate_of(self, state.calibration)
        if not np.isfinite(loss):
            raise OptionError(f"learning_rate={rate:g}: weights grew beyond all bounds; take a smaller one")
        record, square = state.history[number], state.target_unit**2  # of losses of scaled targets
        record[:3] = loss / weight * square if weight else np.nan, rows, np.nan if stage == "count" else rate
        if state.counts is not None:
            state.idf, state.counts = idf_of(state.counts, rows), None
        state.memory.totals[:], state.totals_before[:], state.merged_shards = 0.0, 0.0, 1
        if stage == "learn" and is_last:
            judge_halves(self, state)
        if stage == "learn" and is_last and self.n_refits:
            self._start_refit(state)
        elif state.refit is not None and not is_last:
            state.refit.start_pass()
        elif state.refit is not None:
            state.memory, held_back_loss, is_new = state.refit.choose_weights(state.memory, self._rule(state))
            verdict = held_back_loss * square, is_new
            record[3:], state.slopes = verdict, state.refit.slopes(state.memory)
            record[0] = record[0] if weight else verdict[0]
        state.passes += 1
        return state, state.passes < len(self._stages)

    def result(self, state: MissionState) -> Result:
        if state.refit is None:
            state = self._learn_buffer(copy_state(state))
            judge_halves(self, state)
            keep_selected(self, state.memory, self._rule(state))
        chosen = {"loss": self.row_loss, "passes": self.n_passes, "learning_rate": rate_of(self, state.calibration)}
        result = replace(result_of(state, self._rule(state).bias_value), chosen=chosen)
        return result if state.halves is None else with_error_control(self, state.halves, result)

    def nbytes(self, meta: Meta) -> int:
        return count_bytes(self, meta)

    def preview(self, state: MissionState, limit: int) -> Preview:
        return preview_of(state, limit)

    def _rule(self, state: MissionState, n_shards: int = 1) -> Rule:
        return rule_of(self, state.room, state.calibration, n_shards)

    def _rows(self, state: MissionState, block: RowBlock | SparseBlock) -> SparseRows:
        """Return the rows of a block, with the target as the losses use it."""
        if len(state.labels):
            y = np.searchsorted(state.labels, block.y).astype(np.float64)
        else:
            y = encode_target(block.y, state.positive)
        return rows_of(block, y)

    def _windows(self, state: MissionState, rows: SparseRows, first: int) -> Iterator[SparseRows]:
        """Yield windows of rows from row `first` on, with scaled values, idf factors and pairs of features applied."""
        return windows(scaled_rows(state, rows), state.name_spaces, first)

    def _learn_or_buffer(self, state: MissionState, rows: SparseRows, first: int) -> MissionState:
        """Learn rows, or buffer the first rows until there are enough rows to calibrate the step size."""
        if state.calibration is not None and not state.mixes:
            state = self._learn(state, rows, first)
            learn_halves(self, state, rows, first)
            return state
        if not are_all_usable(rows):
            raise unusable_value(rows, first)
        if state.buffer is None:
            state.buffer_start = first
            if not state.mixes and count_first_rows(rows) is not None:
                return self._learn_first(state, rows)
        state.buffer = join_rows([state.buffer or NO_ROWS, rows])  # a copy: the store reuses the memory of blocks
        return state if state.mixes or count_first_rows(state.buffer) is None else self._learn_buffer(state)

    def _learn_buffer(self, state: MissionState) -> MissionState:
        """Calibrate the step size on the rows in the buffer, learn these rows, and return the state."""
        if state.buffer is None:
            return state
        rows, state.buffer = read_only(*state.buffer), None
        return self._learn_first(state, rows)

    def _learn_first(self, state: MissionState, rows: SparseRows) -> MissionState:
        """Calibrate the step size on the first of these rows, learn all of them, and return the state."""
        enough = None if state.mixes else count_first_rows(rows)
        count = enough or len(rows.y)
        first_rows, others = slice_rows(rows, 0, count), slice_rows(rows, count, len(rows.y))
        order = None
        if state.mixes:
            order = np.random.default_rng([state.seed, state.passes]).permutation(count)
            first_rows = take_rows(first_rows, order)
        if state.calibration is None:
            if self.method == "active" and self.row_loss == "squared" and not state.classes:
                state.target_unit = target_unit_of(first_rows.y)
            if is_scaled(self):
                learned = without_groups(state, first_rows)
                state.scaling = Scaling.measure(learned, self.intercept and self.interactions is None)
            scaled, are_all = scaled_rows(state, first_rows), enough is None
            if self._compares_common:
                state.common = common_features(scaled, len(state.memory.bias), self.n_select)
                state.common_units = units_of(state.common, scaled)
            state.calibration = calibrate(self, state, scaled, state.buffer_start, are_all)
        state = self._learn(state, first_rows, state.buffer_start)
        state = self._learn(state, others, state.buffer_start + count)
        learn_halves(self, state, slice_rows(rows, 0, count), state.buffer_start, order)
        learn_halves(self, state, others, state.buffer_start + count)
        return state

    def _learn(self, state: MissionState, rows: SparseRows, first: int) -> MissionState:
        for part in self._windows(state, rows, first):
            make_room(self, state, int(np.diff(part.indptr).max(initial=0)))
            rule = self._rule(state, state.n_shards)
            if learn(self, state, rule, part) < len(part.y):
                raise unusable_value(rows, first)
        return state

    def _start_halves(self, n_scores: int, room: int, meta: Meta) -> HalvesState:
        check_halves(self, meta)
        memories = [empty_memory(self, n_scores, room) for _ in range(N_LEARNERS)]
        return HalvesState(memories, group_ids=group_features(self, meta), row_groups=meta.row_groups())

    def _start_refit(self, state: MissionState) -> None:
        """Keep only the weights of the selected features, in small hash tables, and drop the sketch."""
        keep_selected(self, state.memory, self._rule(state))
        nothing, slots = np.empty(0, np.float32), count_slots(self.n_select + len(state.keep))
        state.memory = resize_tables(state.memory._replace(sketch=nothing, cells=nothing), slots)
        fit_share = 1.0 if self.refit == "auto" and not self.per_class else 0.0
        waits, common = state.n_shards == 1, (state.common, state.common_units)
        state.refit = RefitState.start(state.memory, fit_share, not state.fits_at_once, waits, *common)

    def _refit(self, state: MissionState, rows: SparseRows, held: NDArray[np.bool_], first: int) -> MissionState:
        assert state.refit is not None
        is_first = state.passes == len(self._stages) - self.n_refits
        rule, done = self._rule(state, state.n_shards), 0
        for part in self._windows(state, rows, first):
            if not are_all_usable(part):
                raise unusable_value(rows, first)
            which, part = held[done : done + len(part.y)], only_selected(part, state.refit.keys(state.memory))
            if is_first:
                state.refit.hold_back(part, which, first + done)
                state.refit.keep(state.memory, rule, part, which, first + done, state.seed)
            state.refit.learn(state.memory, rule, ignore_rows(part, which))
            if not state.refit.trials:
                state.memory.totals[ROWS] += len(part.y)
            done += len(part.y)
        return state


def _labels_in_blocks(meta: Meta) -> NDArray[np.float64]:
    """Return the ascending values that stand for the classes in blocks: numbers themselves, and 0, 1, 2, … for text."""
    classes = meta.classes or ("",)
    return np.arange(len(classes), dtype=np.float64) if isinstance(classes[0], str) else np.array(classes)


def _run_on_few_rows(algorithm: Mission, n_shards: int = 1) -> None:
    """Run all passes over a few made-up rows, in one shard or in several shards that are merged."""
    several = algorithm.row_loss == "softmax"
    ids, values, y = np.arange(8, dtype=np.uint64), np.ones(8, np.float32), np.array([0.0, 1.0, 0.0, 1.0 + several])
    block = SparseBlock(0, np.arange(0, 9, 2), ids, values, y)
    meta = Meta("sparse", 4, 8, 8, 7, (0.0, 1.0, 2.0)[: 2 + several], block.nbytes)
    state, go_on = algorithm.start(meta, 0), True
    while go_on:
        shards = [algorithm.update(copy_state(state), block) for _ in range(n_shards)]
        state, go_on = algorithm.end_pass(algorithm.merge(shards) if n_shards > 1 else shards[0])
    algorithm.result(state)


@warms
def _warm_up() -> None:
    for method in get_args(MissionMethod):
        for loss in ("logistic", "softmax"):
            algorithm = Mission(2, loss, method=method, width=16, refit=1)
            _run_on_few_rows(algorithm, n_shards=1 if algorithm.sharing.schedule == Schedule.SERIAL else 2)
