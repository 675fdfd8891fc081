"""What the scoring of columns and of rows have in common: the encoding of the target, and the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import Floats, decode_classes, encode_classes
from daskfs.algorithms.univariate.fit import FitSums, fit_classes, fit_numbers
from daskfs.algorithms.univariate.moments import Groups, Moments, Score, best_columns, p_values, q_values
from daskfs.errors import ColumnError
from daskfs.protocol import Algorithm, Meta, Result, Schedule, Sharing

SIGNIFICANT = 0.05
"""The q-value up to which the history counts features as significant."""
NEGATIVE = "the value {:g} is negative, and chi2 takes counts from 0 on; use f_classif"


@dataclass(slots=True)
class TargetKind:
    """How the target of a block is read: as a class if there are `labels`, otherwise as a number."""

    labels: Floats  # the values that stand for classes in `block.y`, ascending
    classes: str  # see `losses.encode_classes`

    @property
    def n_groups(self) -> int:
        return max(1, len(self.labels))

    def encode(self, y: Floats) -> tuple[Groups, Floats]:
        """Return the group of every row, and the target of every row; no target if it is a class."""
        if len(self.labels):
            return np.searchsorted(self.labels, y).astype(np.int32), np.empty(0)
        return np.zeros(len(y), np.int32), y

    def columns(self, groups: Groups, y: Floats) -> Floats:
        """Return the targets (rows, targets) of the linear model: numbers, or an indicator 0 or 1 of each class."""
        is_class = groups[:, None] == np.arange(len(self.labels))
        return is_class.astype(np.float64) if len(self.labels) else y[:, None]


@dataclass(frozen=True)
class Scoring(Algorithm):
    """Base class of the two ways to read the data; see `Univariate`.

    Parameters
    ----------
    n_select
        How many features to select.
    score
        The score, where "auto" has been replaced.
    by_class
        Whether the target is a class.
    was_auto
        Whether the user gave "auto" as the score.
    fits
        Whether to fit a linear model of the selected features.
    """

    verb: ClassVar[str] = "score"

    n_select: int
    score: Score
    by_class: bool
    was_auto: bool = False
    fits: bool = True

    @property
    def name(self) -> str:
        return "Univariate"

    @property
    def sharing(self) -> Sharing:
        return Sharing(Schedule.SYNCHRONOUS, min_bytes_per_merge=1 << 20)

    @property
    def n_fitted(self) -> int:
        """The number of features in the linear model."""
        return self.n_select if self.fits else 0

    def _loss(self, target: TargetKind) -> str:
        """Return the loss whose scores those of the linear model are like: log-odds for classes."""
        return "squared" if not self.by_class else "logistic" if len(target.labels) == 2 else "softmax"

    def target_of(self, meta: Meta) -> TargetKind:
        """Return how the target of a dataset is read."""
        classes = meta.classes or ()
        if not self.by_class:
            return TargetKind(np.empty(0), "")
        is_text = isinstance(classes[0], str)
        labels = np.arange(len(classes)) if is_text else np.array(classes)
        return TargetKind(labels.astype(np.float64), encode_classes(meta, several=True))

    def check_values(self, values: NDArray[Any], column_of: Callable[[int], int]) -> None:
        """Raise ColumnError for a negative value if the score is "chi2".

        Parameters
        ----------
        values
            The values of a block in any shape.
        column_of
            Returns the id of the column of a value, given the value's position among all values in C order.
        """
        if self.score == "chi2" and values.size and values.min() < 0:
            at = int(np.argmax(values.ravel() < 0))
            raise ColumnError(column_of(at), NEGATIVE.format(float(values.ravel()[at])))

    def make_result(
        self, ids: NDArray[np.uint64], scores: Floats, target: TargetKind, sums: FitSums, moments: Moments
    ) -> Result:
        """Return the result.

        Parameters
        ----------
        ids, scores
            The ids of all features in ascending order, and their scores.
        target
            How the target is read.
        sums
            The sums of the linear model of the best features.
        moments
            Moments with the number of rows in every class, or of the target of numbers.
        """
        count = moments.count[:, 0]
        p = p_values(self.score, scores, int(count.sum()), int(np.count_nonzero(count)))
        q, best = q_values(p), best_columns(scores, self.n_select)
        statistics = {"score": scores[best]}
        if self.score != "variance":
            statistics |= {"p_value": p[best], "q_value": q[best]}
        finite = np.nan_to_num(scores[best], nan=0.0)
        with np.errstate(over="ignore"):  # a column that separates the classes has the largest score there is
            total = float(finite.sum())
        record = {"objective": total, "significant": float(np.count_nonzero(q <= SIGNIFICANT))}
        weights, intercept = np.zeros(len(best)), np.zeros(1)
        if self.fits and self.by_class:
            weights, intercept = fit_classes(sums, count)
        elif self.fits:
            weights, intercept = fit_numbers(sums, moments.n_rows, moments.target_mean, float(moments.target[2]))
        return Result(
            features=ids[best],
            weights=weights,
            intercept=intercept,
            classes=decode_classes(target.classes) if self.fits else None,
            history=[record] * (2 if self.fits else 1),
            importance=finite,
            chosen={"loss": self._loss(target), **({"score": self.score} if self.was_auto else {})},
            statistics=statistics,
        )
