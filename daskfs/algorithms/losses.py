"""The losses: how a score u is judged against a target y, and which targets each of them takes.

============== ========================== ============ ==============================
loss           L(u, y)                    curvature ≤  target
============== ========================== ============ ==============================
squared        ½ (u − y)²                 1            a number, or two classes
squared_hinge  ½ max(0, 1 − y·u)²         1            two classes
logistic       log(1 + exp(−y·u))         ¼            two classes
softmax        log Σ_c exp(u_c) − u_y                  classes, of rows only
============== ========================== ============ ==============================

Two classes become y = −1 and y = +1, in the order of `Meta.classes`.
"""

from __future__ import annotations

import json
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError
from daskfs.protocol import Label, Meta

Loss = Literal["squared", "squared_hinge", "logistic"]
RowLoss = Literal["logistic", "squared", "squared_hinge", "softmax"]

CODE: dict[Loss, int] = {"squared": 0, "squared_hinge": 1, "logistic": 2}
CURVATURE: dict[Loss, float] = {"squared": 1.0, "squared_hinge": 1.0, "logistic": 0.25}


def check_target(loss: Loss | RowLoss, meta: Meta) -> None:
    """OptionError where the dataset's target does not fit the loss."""
    classes = meta.classes
    if classes is not None and len(classes) == 1:
        raise OptionError(
            f"all {meta.n_samples:,} samples have the label {classes[0]!r}: there is nothing to tell apart"
        )
    if loss == "squared":
        if classes is not None and len(classes) > 2 and isinstance(classes[0], str):
            raise OptionError(
                f"loss='squared' takes numbers or two classes, the target has {len(classes)} classes of text; "
                "keep two of them, or number them"
            )
    elif classes is None:
        raise OptionError(f"loss={loss!r} takes classes, the target is a real number: use loss='squared'")
    elif len(classes) > 2 and loss != "softmax":
        raise OptionError(
            f"loss={loss!r} takes two classes, the target has {len(classes)} ({_some(classes)}): keep two of them"
        )


def labels_told_apart(meta: Meta) -> str:
    """The two classes a score tells apart, as text that fits a state; empty where it is a real value."""
    return json.dumps(meta.classes) if meta.classes is not None and len(meta.classes) == 2 else ""


def labels_written(text: str) -> tuple[Label, ...] | None:
    """What `labels_told_apart` wrote.

    >>> labels_written('["ham", "spam"]')
    ('ham', 'spam')
    """
    return tuple(json.loads(text)) if text else None


def positive_target(meta: Meta) -> float:
    """The target's value for the second of two classes, as blocks carry it; NaN where the target is a number."""
    if meta.classes is None or len(meta.classes) != 2:
        return float("nan")
    return 1.0 if isinstance(meta.classes[1], str) else float(meta.classes[1])


def coded(y: NDArray[np.float64], positive: float) -> NDArray[np.float64]:
    """The target as the losses take it: −1 and +1 for two classes, the number itself otherwise.

    >>> coded(np.array([0.0, 1.0, 1.0]), positive=1.0)
    array([-1.,  1.,  1.])
    >>> coded(np.array([0.5, 3.0]), positive=float("nan"))
    array([0.5, 3. ])
    """
    if np.isnan(positive):
        return y.astype(np.float64)
    return np.where(y == positive, 1.0, -1.0)


def of_mean_one(weight: NDArray[np.float32]) -> NDArray[np.float64]:
    """Importances of rows, so that a ridge means the same whatever they add up to.

    >>> of_mean_one(np.array([100, 300], np.float32))
    array([0.5, 1.5])
    """
    if not weight.any():
        raise OptionError("every row has weight 0: there is nothing to fit")
    normalised: NDArray[np.float64] = weight / weight.mean(dtype=np.float64)
    return normalised


def best_constant(loss: Loss, y: NDArray[np.float64]) -> float:
    """The score that serves all rows best before any feature is known."""
    mean = float(y.mean())
    if loss == "logistic":
        return float(np.log((1 + mean) / (1 - mean)))
    return mean  # also for the squared hinge while every margin is at most 1, which a constant within [−1, 1] grants


def best_constants(
    loss: Loss, sums: NDArray[np.float64], squares: NDArray[np.float64], total: float
) -> tuple[NDArray[np.float64], float]:
    """The best constant for each of several targets, and their losses together.

    Parameters
    ----------
    loss
        Which.
    sums, squares
        Of every target over all rows, weighted.
    total
        The weights of all rows.

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


def _some(classes: tuple[Label, ...]) -> str:
    shown = ", ".join(str(label) for label in classes[:5])
    return shown if len(classes) <= 5 else f"{shown}, …"
