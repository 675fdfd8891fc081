"""Univariate selection: every column is scored by itself against the target, and the k best columns are selected.

============== ================================================================== =================
score          of a column                                                        target
============== ================================================================== =================
f_classif      F of the one-way analysis of variance between the classes          classes
f_regression   F of the straight line through the column                          a number
chi2           χ² of the sums of counts in the classes                            classes
variance       variance, without regard to the target                             any
============== ================================================================== =================

Scores and p-values are those of scikit-learn's functions of the same names. The q-values are those of Y. Benjamini and
Y. Hochberg: *Controlling the False Discovery Rate*, Journal of the Royal Statistical Society B 57, 1995.

Columns are read in one pass, and the selected columns a second time for a linear model (see `fit`). Rows of dense data
are read in two passes, whose sums are merged by the formulas of Chan, Golub and LeVeque (1979).
Memory is 80 bytes for every column of the data and, if the data are read in columns, n·k numbers for n rows and k
selected columns. If they are read in rows, it is about 50 bytes for every column and class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from daskfs.algorithms.losses import check_classes, has_classes
from daskfs.algorithms.parameters import check_fields
from daskfs.algorithms.univariate.columns import ColumnScoring
from daskfs.algorithms.univariate.moments import Score
from daskfs.algorithms.univariate.rows import RowScoring
from daskfs.algorithms.univariate.scoring import Scoring
from daskfs.errors import OptionError
from daskfs.protocol import Algorithm, Axis, Meta

UnivariateScore = Literal["auto", "f_classif", "f_regression", "chi2", "variance"]


@dataclass(frozen=True)
class Univariate(Algorithm):
    """Select the columns with the best scores, each by itself, with exact p-values and q-values.

    A baseline for the other algorithms: a column that repeats another one is as good as that one here, and columns that
    serve only together are not found. The scores and, except for "variance", the p-values and q-values of the selected
    features are in `Selection.statistics`. A linear model of the selected features predicts: ridge least squares for
    numbers, linear discriminant analysis for classes.

    Sparse data must be laid out in columns (``daskfs transpose``), dense data may be laid out in columns or rows. Row
    weights are refused, because the p-values count rows.

    Parameters
    ----------
    n_select
        How many features to select: all there are, with a warning, if they are fewer.
    score
        "auto" is "f_classif" for classes and "f_regression" for numbers; "chi2" is for counts and classes, and
        "variance" does without the target.
    balanced
        Predict classes as if all of them were equally frequent, for the best balanced accuracy where some are rare. The
        weights, scores and probabilities stay as they are; only the threshold of predictions moves.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1000)).astype("float32")
    >>> _ = daskfs.write_dataset("wide.zarr", X, X[:, 7] - 2 * X[:, 500])
    >>> best = daskfs.select("wide.zarr", daskfs.Univariate(2))
    >>> best.features, best.statistics["q_value"] < 0.001
    (array([500,   7], dtype=uint64), array([ True,  True]))
    """

    axis: ClassVar[Axis] = "columns"

    n_select: int
    score: UnivariateScore = "auto"
    balanced: bool = False

    def __post_init__(self) -> None:
        check_fields(Univariate, self)

    @property
    def passes(self) -> int:
        return 2  # at most

    def resolve(self, meta: Meta) -> Scoring:
        if meta.weighted:
            raise OptionError(
                "Univariate counts rows, and those of the dataset have weights: use OnlineSubstitution, or write the "
                "data without weights"
            )
        score = self._score_for(meta)
        by_class = score in ("f_classif", "chi2") or (score == "variance" and self.fits_model and has_classes(meta))
        if by_class:
            check_classes(meta)
        if by_class and len(meta.classes or ()) == 1:
            raise OptionError(f"all {meta.n_samples:,} samples have the same label: there is nothing to tell apart")
        scoring = RowScoring if meta.kind == "dense" and "columns" not in meta.axes else ColumnScoring
        return scoring(min(self.n_select, meta.n_features), score, by_class, self.score == "auto", self.fits_model)

    def _score_for(self, meta: Meta) -> Score:
        """Return the score that "auto" stands for, or the score as given. Raise OptionError if the target is unfit."""
        if self.score == "auto":
            return "f_classif" if has_classes(meta) else "f_regression"
        if self.score in ("f_classif", "chi2") and meta.classes is None:
            raise OptionError(f"score={self.score!r} takes classes, the target is a number: use score='f_regression'")
        if self.score == "f_regression" and meta.classes is not None and isinstance(meta.classes[0], str):
            raise OptionError("score='f_regression' takes numbers, the labels are text: use score='f_classif'")
        return self.score


class UnivariateScores(Univariate):
    """`Univariate` without a linear model, whose weights are 0: it reads the data once."""

    fits_model: ClassVar[bool] = False
