"""The loss functions L(u, y) of a score u and a target y, with the kinds of targets that every loss accepts.

============== ========================== ============ ==============================
loss           L(u, y)                    curvature ≤  target
============== ========================== ============ ==============================
squared        ½ (u − y)²                 1            a number, or two classes
squared_hinge  ½ max(0, 1 − y·u)²         1            two classes
logistic       log(1 + exp(−y·u))         ¼            two classes
softmax        log Σ_c exp(u_c) − u_y    ½            classes, with a score for each
============== ========================== ============ ==============================

Two classes become y = −1 and y = +1, in the order of `Meta.classes`. Of more classes, each has a score and a target of
its own, which is +1 in the rows of the class and −1 in the others.
"""

from __future__ import annotations

import json
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError
from daskfs.protocol import Label, Meta

Floats = NDArray[np.float64]
Loss = Literal["squared", "squared_hinge", "logistic"]
RowLoss = Literal["logistic", "squared", "squared_hinge", "softmax"]

_MOST_NUMBERED_CLASSES = 32
_ROWS_PER_CLASS = 3
_FEW_CLASSES = 20
LARGEST_TARGET = 1e120  # its square is far from the largest float64
_ROUNDING = 1e-12  # a target is constant if its deviation is a smaller share of its mean

CODE: dict[str, int] = {"squared": 0, "squared_hinge": 1, "logistic": 2, "softmax": 3}
NAMES = {code: name for name, code in CODE.items()}
CURVATURE: dict[str, float] = {"squared": 1.0, "squared_hinge": 1.0, "logistic": 0.25, "softmax": 0.5}


def has_classes(meta: Meta) -> bool:
    """Return whether the target of a dataset is a class, rather than a number.

    Text is a class, and so is either of two values. More whole numbers are classes if there are at most 32 of them,
    each of them in at least three rows on average: 1 … 10 of digits are classes; ages, counts and percentages are not.
    `Dataset.with_real_target` makes numbers of any of them.
    """
    classes = meta.classes
    if classes is None or isinstance(classes[0], str) or len(classes) <= 2:
        return classes is not None
    return len(classes) <= min(_MOST_NUMBERED_CLASSES, meta.n_samples // _ROWS_PER_CLASS)


def loss_for(meta: Meta, several: RowLoss = "softmax") -> RowLoss:
    """Return the loss that ``loss="auto"`` stands for: squared, for two classes logistic, for more of them `several`.

    >>> meta = Meta("dense", 150, 4, 600, 3, ("setosa", "versicolor", "virginica"), 2400)
    >>> loss_for(meta), has_classes(meta)
    ('softmax', True)
    """
    if not has_classes(meta):
        return "squared"
    return "logistic" if len(meta.classes or ()) <= 2 else several


def check_target(loss: RowLoss, meta: Meta, several: bool = False) -> None:
    """Raise OptionError if the dataset's target does not fit the loss.

    `several` says whether more than two classes may have a score each with any loss, and not only with softmax.
    """
    classes = meta.classes
    if classes is not None and len(classes) == 1:
        raise OptionError(
            f"all {meta.n_samples:,} samples have the label {classes[0]!r}: there is nothing to tell apart"
        )
    check_classes(meta)
    if classes is None and loss != "squared":
        target = "the target is a real number" if meta.targets is None else "several targets are real numbers"
        raise OptionError(f"loss={loss!r} takes classes, {target}: use loss='squared'")
    if len(several_labels(loss, meta)) and loss != "softmax" and not several:
        shown = ", ".join(map(str, (classes or ())[:5])) + (", …" if len(classes or ()) > 5 else "")
        takes = "numbers or two classes" if loss == "squared" else "two classes"
        raise OptionError(f"loss={loss!r} takes {takes}, the target has {len(classes or ())} classes ({shown})")


def check_classes(meta: Meta) -> None:
    """Raise OptionError if hardly any two rows have the same label, as in a column of identifiers."""
    classes = meta.classes or ()
    if classes and isinstance(classes[0], str) and len(classes) > max(_FEW_CLASSES, meta.n_samples // 2):
        raise OptionError(
            f"{len(classes):,} different labels, such as {classes[0]!r:.40}, are too many for {meta.n_samples:,} rows: "
            "is this the target?"
        )


def several_labels(loss: str, meta: Meta) -> Floats:
    """Return the values that stand for classes in `block.y` if each class has a score of its own, else no values."""
    classes = meta.classes or ()
    if len(classes) <= 2 or (loss == "squared" and not has_classes(meta)):
        return np.empty(0)
    return np.arange(len(classes), dtype=np.float64) if isinstance(classes[0], str) else np.array(classes, np.float64)


def encode_classes(meta: Meta, several: bool = False) -> str:
    """Return the class labels as JSON text for a state; return "" unless there are two classes, or `several`."""
    return json.dumps(meta.classes) if several or len(meta.classes or ()) == 2 else ""


def decode_classes(text: str) -> tuple[Label, ...] | None:
    """Return the class labels in a text of `encode_classes`; return None for "".

    >>> decode_classes('["ham", "spam"]')
    ('ham', 'spam')
    """
    return tuple(json.loads(text)) if text else None


def positive_target(meta: Meta) -> float:
    """Return the value of `block.y` for the second of two classes; return NaN if there are not exactly two classes."""
    if meta.classes is None or len(meta.classes) != 2:
        return float("nan")
    return 1.0 if isinstance(meta.classes[1], str) else float(meta.classes[1])


def encode_targets(y: Floats, positive: float, labels: Floats) -> Floats:
    """Return an array (scores, rows) of what scores are fitted to: +1 for rows of a class, −1 for all other rows.

    With `labels`, the result has a row for each of these classes; without, one row, in which `positive` is the class of
    +1. A y with several columns holds numeric targets, which become the rows of the result.

    >>> encode_targets(np.array([0.0, 5.0, 7.0]), positive=float("nan"), labels=np.array([0.0, 5.0, 7.0]))
    array([[ 1., -1., -1.],
           [-1.,  1., -1.],
           [-1., -1.,  1.]])
    """
    if y.ndim > 1:
        return np.ascontiguousarray(y.T, np.float64)
    return np.where(y == labels[:, None], 1.0, -1.0) if len(labels) else encode_target(y, positive)[None]


def check_size(y: Floats, most: float = LARGEST_TARGET) -> None:
    """Raise OptionError if the squares of a target are too large to be summed, or too small to differ from 0."""
    largest = float(np.abs(y).max(initial=0.0))
    if largest > most:
        raise OptionError(f"the target has values of {largest:.3g}, of which no squares can be summed: divide it")
    if 0 < largest < 1 / LARGEST_TARGET:
        raise OptionError(f"the target has values of at most {largest:.3g}, whose squares are 0: multiply it")


def target_units(target: Floats, weight: Floats, centred: bool) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of every target (scores, rows), with weights of rows of mean 1.

    Unless `centred`, means are 0 and deviations are those from 0. The deviation of a constant target is given as 1.

    >>> target_units(np.array([[1.0, 3.0], [5.0, 5.0]]), np.ones(2), centred=True)
    (array([2., 5.]), array([1., 1.]))
    """
    mean = np.average(target, axis=1, weights=weight) if centred else np.zeros(len(target))
    apart = target - mean[:, None]
    largest = np.maximum(np.abs(apart).max(axis=1), np.finfo(np.float64).tiny)  # squares of it might overflow
    scale = largest * np.sqrt(np.average((apart / largest[:, None]) ** 2, axis=1, weights=weight))
    is_constant = (scale <= _ROUNDING * np.abs(mean)) | (scale < np.finfo(np.float64).tiny)
    return mean, np.where(is_constant, 1.0, scale)


def encode_target(y: Floats, positive: float) -> Floats:
    """Return the target in the encoding of the losses: −1 and +1 for two classes, otherwise the numbers unchanged.

    >>> encode_target(np.array([0.0, 1.0, 1.0]), positive=1.0)
    array([-1.,  1.,  1.])
    >>> encode_target(np.array([0.5, 3.0]), positive=float("nan"))
    array([0.5, 3. ])
    """
    if np.isnan(positive):
        return y.astype(np.float64)
    return np.where(y == positive, 1.0, -1.0)


def normalise_weights(weight: NDArray[np.float32]) -> Floats:
    """Return row weights scaled to a mean of 1, so that their sum does not change the effect of a ridge penalty.

    >>> normalise_weights(np.array([100, 300], np.float32))
    array([0.5, 1.5])
    """
    if not weight.any():
        raise OptionError("every row has weight 0: there is nothing to fit")
    normalised: Floats = weight / weight.mean(dtype=np.float64)
    return normalised


def row_losses(code: int, u: Floats, y: Floats) -> Floats:
    """Return the loss of every row, summed over its scores, for scores u and targets y of shape (scores, rows)."""
    if code == CODE["squared"]:
        values = (u - y) ** 2 / 2
    elif code == CODE["squared_hinge"]:
        values = np.maximum(0, 1 - y * u) ** 2 / 2
    elif code == CODE["logistic"]:
        values = np.logaddexp(0, -y * u)
    else:
        values = np.logaddexp.reduce(u, axis=0, keepdims=True) - np.where(y > 0, u, 0.0).sum(axis=0)
    total: Floats = values.sum(axis=0)
    return total


def best_constant(loss: str, y: Floats) -> float:
    """Return the constant score with the least total loss over all rows."""
    mean = float(y.mean())
    if loss == "logistic":
        return float(np.log((1 + mean) / (1 - mean)))
    return mean  # for the squared hinge, too: no margin exceeds 1 if the constant lies in [−1, 1]


def best_constants(loss: Loss, sums: Floats, squares: Floats, total: float) -> tuple[Floats, float]:
    """Return the best constant score for each of several targets, and the sum of the losses of these scores.

    Parameters
    ----------
    loss
        The loss function.
    sums, squares
        Σ m·y and Σ m·y² of each target over all rows, with row weights m.
    total
        Σ m, the sum of the row weights.

    Examples
    --------
    >>> best_constants("squared", np.array([4.0]), np.array([10.0]), total=2)
    (array([2.]), 1.0)
    """
    mean = sums / total
    if loss != "logistic":  # the squared hinge is the squared loss as long as all margins are at most 1
        return mean, float((squares - sums * mean).sum() / 2)
    share = np.clip((1 + mean) / 2, 1 / (2 * total), 1 - 1 / (2 * total))  # a class may have no row at all
    return np.log(share / (1 - share)), float(-total * (share * np.log(share) + (1 - share) * np.log(1 - share)).sum())
