"""Selection: the features that an algorithm selected, with names and weights, and the linear model over them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfs.errors import OptionError, SelectionError, public_url
from daskfs.protocol import ErrorControl, Label, Result
from daskfs.selection.baselines import FeatureSample
from daskfs.selection.column_slices import ColumnSlices, as_dataset
from daskfs.selection.evaluation import (
    CountProgress,
    Evaluation,
    Scores,
    Truth,
    evaluate,
    ignore_progress,
    linear_scores,
    score,
)
from daskfs.selection.inputs import Inputs, expand_columns, inputs_from_record
from daskfs.selection.metrics import against_the_rest, log_odds, predicted_classes
from daskfs.selection.predictions import Predictions, check_place
from daskfs.selection.products import Products, parent_records, products_from_records, slice_features
from daskfs.selection.records import without_nan
from daskfs.selection.run_folder import SOURCE, read_selection, resolve_run, write_selection
from daskfs.store.ingest.gaps import Fills
from daskfs.store.places.location import Location

if TYPE_CHECKING:
    import xarray

LOG_ODDS = ("logistic", "softmax")
"""Losses whose scores are log-odds, so that they give probabilities."""


@dataclass(frozen=True, eq=False)
class KeptFeatures:
    """Features that are in the model because the user asked for them, not because they were selected.

    Parameters
    ----------
    features
        The ids of the features.
    names
        The names of the features.
    weights
        The weights of the features: ``(n,)``, ``(n, classes)`` of more than two classes, or ``(n, targets)``.
    """

    features: NDArray[np.uint64]
    names: list[str]
    weights: NDArray[np.float64]

    def records(self) -> list[dict[str, Any]]:
        """Return a record of id, name and weight for every feature, for JSON."""
        columns = zip(self.features.tolist(), self.names, self.weights.tolist(), strict=True)
        return [{"id": feature, "name": name, "weight": weight} for feature, name, weight in columns]

    @classmethod
    def from_records(cls, records: Sequence[Mapping[str, Any]], shape: tuple[int, ...]) -> KeptFeatures:
        """Return the kept features of records; `shape` is that of one weight, such as ``()`` or ``(classes,)``."""
        weights = np.array([record["weight"] for record in records], np.float64).reshape(-1, *shape)
        return cls(np.array([record["id"] for record in records], np.uint64), [r["name"] for r in records], weights)


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Selected features in order of importance, and the linear model over these features.

    An argument X is an array (numpy, scipy.sparse, dask, xarray) with the columns of the dataset that the features were
    selected from, or a dataset, or the path or URL of a dataset, whose features are identified by their ids; data with
    other names for these ids are refused. X may also be a DataFrame (pandas, polars, Dask), whose columns are found by
    name: in any order, with or without columns that were not selected, and with texts and dates as in the original
    table. Datasets are read block by block, and of datasets laid out in columns only the selected columns are read.

    Parameters
    ----------
    features
        Feature ids, most important first.
    names
        The names of the features.
    weights
        The weights of the features: ``(k,)``, ``(k, classes)`` of more than two classes, or ``(k, targets)`` of several
        targets.
    intercept
        The intercept of the scores: ``(1,)``, ``(classes,)`` or ``(targets,)``.
    classes
        The labels that scores tell apart, texts or whole numbers; None where the target is a real number.
    steps
        The columns of `history`, by name.
    algorithm
        The name of the algorithm and its fields.
    source
        The dataset: "url", "digest", "n_samples", "n_features".
    seed
        The seed of the run.
    products
        The parents of features that are products of two columns; None if none is.
    inputs
        The columns that random features are computed from; None if features are columns.
    importance
        The share of each feature in the sum of what all of `features` contribute to the model. `features` are in this
        order, so that the first of them are a good set by themselves. The contribution is the algorithm's own measure.
        For `OnlineSubstitution` it is the fall of the objective when the feature joins those before it and all weights
        are fitted anew; the next feature is the one with the largest fall, and its fall may exceed the one before where
        two features serve together. For `Mission` it is the covariance of the feature's term of the scores with the
        target, and for `SparseRandomFeatures` the standard deviation of this term. With error control of
        `OnlineSubstitution` it is t², and for `Univariate` the score.
    kept
        Features that are in the model because the parameter `keep` asked for them; None if there are none.
    chosen
        Values that the data decided for parameters of the algorithm such as ``loss="auto"``.
    fills
        How gaps of the dataset were filled, by name of the feature; missing values of X are filled in the same way.
    targets
        The names of several targets, which are real numbers; None for one target and for classes.
    statistics
        Numbers for each of `features` by name, where the algorithm computes any: "score", "p_value" and "q_value" of
        `Univariate`; "t_value" or "times_chosen", "expected_false" and "q_value" with
        error control.
    date_formats
        How the dates of columns are written that are texts of another form than ISO 8601, and since which day seconds
        are counted if not since 2000, by name of the column.
    error_control
        How many of `features` are expected to be false, with error control: `sentence` says it in words.
    threshold
        What `predict` subtracts from scores before it compares them, in the shape of `intercept`; None for nothing.
        With ``balanced=True`` these are the scores that rows would have without any features, so that all classes are
        predicted as if they were equally frequent. `decision_function` subtracts nothing.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 5))
    >>> _ = daskfs.write_dataset("small.zarr", X, X[:, 3] > 0, feature_names=["a", "b", "c", "d", "e"])
    >>> sel = daskfs.select(daskfs.open_dataset("small.zarr"), daskfs.OnlineSubstitution(1))
    >>> sel.names, sel.transform(X).shape
    (['d'], (50, 1))
    >>> sel.save("run")
    >>> daskfs.load_selection("run").score("small.zarr") == sel.score(X, X[:, 3] > 0)
    True
    """

    features: NDArray[np.uint64]
    names: list[str]
    weights: NDArray[np.float64]
    intercept: NDArray[np.float64]
    classes: tuple[Label, ...] | None
    steps: dict[str, NDArray[np.float64]]
    algorithm: dict[str, Any]
    source: dict[str, Any]
    seed: int
    products: Products | None = None
    inputs: Inputs | None = None
    importance: NDArray[np.float64] = None  # type: ignore[assignment]  # by default from the weights
    kept: KeptFeatures | None = None
    chosen: dict[str, Any] = field(default_factory=dict)
    fills: Fills | None = None
    targets: tuple[str, ...] | None = None
    statistics: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    date_formats: dict[str, str] = field(default_factory=dict)
    error_control: ErrorControl | None = None
    threshold: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if self.classes is not None:
            object.__setattr__(self, "classes", _whole_numbers(self.classes))
        if self.importance is None:
            object.__setattr__(self, "importance", _shares(self.weights))
        count, shape = len(self.features), self.weights.shape
        n_classes = None if self.classes is None else len(self.classes)
        if not count == len(self.names) == len(self.weights) == len(self.importance):
            raise OptionError(
                f"{count} features, {len(self.names)} names, {len(self.weights)} weights and "
                f"{len(self.importance)} importances"
            )
        kept = () if self.kept is None else self.kept.features.tolist()
        if len({*self.features.tolist(), *kept}) != count + len(kept):
            raise OptionError("a feature is there twice")
        if self.targets is not None:
            if n_classes is not None or shape[1:] != (len(self.targets),):
                raise OptionError(f"weights of shape {shape} do not predict {len(self.targets)} targets")
        elif (n_classes not in (None, 2)) if len(shape) == 1 else shape[1:] != (n_classes,):
            raise OptionError(f"weights of shape {shape} do not tell {n_classes} classes apart")
        if self.intercept.shape != (shape[1:] or (1,)):
            raise OptionError(f"an intercept of shape {self.intercept.shape} beside weights of shape {shape}")
        if self.threshold is not None and (self.classes is None or self.threshold.shape != self.intercept.shape):
            raise OptionError(f"a threshold of shape {self.threshold.shape} for {n_classes} classes")
        if self.inputs is not None and not self.inputs.has_columns_of(self.features):
            raise OptionError("a linear term is of no column of the inputs")
        if any(numbers.shape != (count,) for numbers in self.statistics.values()):
            raise OptionError(f"statistics of another number of features than {count}")
        if self.error_control is not None and self.error_control.n_reported != count:
            raise OptionError(f"error control of another number of features than {count}")
        if "objective" not in self.steps:
            raise OptionError("the history has no objective")
        if not all(np.isfinite(numbers).all() for numbers in (self.weights, self.intercept, self.importance)):
            raise OptionError("a weight or an importance is not finite")
        if self.threshold is not None and not np.isfinite(self.threshold).all():
            raise OptionError("a threshold is not finite")

    @classmethod
    def from_result(
        cls,
        result: Result,
        names: list[str],
        algorithm: Mapping[str, Any],
        source: Mapping[str, Any],
        seed: int,
        products: Products | None = None,
        inputs: Inputs | None = None,
        fills: Fills | None = None,
        targets: tuple[str, ...] | None = None,
        date_formats: Mapping[str, str] | None = None,
    ) -> Selection:
        """Return the selection for an algorithm's result, without any secrets in the URL of the source."""
        k = len(result.features) - result.n_kept
        used = _columns_used(names, products, inputs)
        with_dates = {name.rpartition(":")[0] for name in used} | used  # such as time of the feature time:hour
        kept = KeptFeatures(result.features[k:], list(names[k:]), result.weights[k:]) if result.n_kept else None
        importance = {} if result.importance is None else {"importance": _shares(result.importance[:k])}
        keys = dict.fromkeys(["objective", *(key for record in result.history for key in record)])
        steps = {key: np.array([record.get(key, np.nan) for record in result.history], np.float64) for key in keys}
        origin = {key: source[key] for key in SOURCE} | {"url": public_url(str(source["url"]))}
        return cls(
            features=np.array(result.features[:k], np.uint64),
            names=list(names[:k]),
            weights=np.array(result.weights[:k], np.float64),
            intercept=np.array(result.intercept, np.float64),
            classes=result.classes,
            steps=steps,
            algorithm=_through_json(algorithm),
            source=_through_json(origin),
            seed=int(seed),
            products=None if products is None else products.first(k),
            inputs=inputs,
            kept=kept,
            chosen=_through_json(result.chosen),
            fills=None if fills is None else fills.of(used),
            targets=targets,
            statistics={name: np.array(numbers[:k], np.float64) for name, numbers in sorted(result.statistics.items())},
            date_formats={name: text for name, text in (date_formats or {}).items() if name in with_dates},
            error_control=result.error_control,
            **importance,
        )

    @cached_property
    def history(self) -> xarray.Dataset:
        """One row per pass or round along the dimension "step": "objective" and other columns."""
        import xarray  # here, since it takes half a second with pandas, and a selection that is only saved does without

        count = len(self.steps["objective"])
        columns = {name: ("step", column) for name, column in self.steps.items()}
        return xarray.Dataset(columns, coords={"step": np.arange(1, count + 1)})

    @property
    def model(self) -> Selection:
        """The selection with the kept features before the selected features, as predictions use them."""
        kept = self.kept
        if kept is None:
            return self
        weights = np.concatenate([kept.weights, self.weights])
        return replace(
            self,
            features=np.concatenate([kept.features, self.features]),
            names=[*kept.names, *self.names],
            weights=weights,
            importance=np.concatenate([np.zeros(len(kept.features)), self.importance]),
            statistics={},
            error_control=None,
            products=None if self.products is None else self.products.after_columns(len(kept.features)),
            kept=None,
        )

    @property
    def loss(self) -> str | None:
        """The loss that the algorithm minimised, which for ``loss="auto"`` the data decided; None if unknown."""
        return self.chosen.get("loss", self.algorithm.get("loss"))

    def __repr__(self) -> str:
        shown = [name[:40] if name[:40].isprintable() else ascii(name[:40])[1:-1] for name in self.names[:3]]
        names = ", ".join([*shown, "…"] if len(self.names) > 3 else shown)
        of = (
            f"random features of {len(self.inputs.names):,} columns"
            if self.inputs
            else f"of {self.source['n_features']:,} features"
        )
        size = f"{len(self.features):,} {of}"
        return f"<daskfs.Selection {self.source['url']}: {size}, {names}>"

    def scores(self, X: Any) -> Scores:
        """Yield slices of rows with their scores, one score a row or one for every class or target.

        Arrays, and datasets laid out in rows, are scored block by block. For datasets laid out in columns, the scores
        of all rows are yielded at once and held in memory.

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(50, 5))
        >>> _ = daskfs.write_dataset("small.zarr", X, X[:, 3] > 0, layout="both", chunk_bytes=1000)
        >>> sel = daskfs.select("small.zarr", daskfs.OnlineSubstitution(1))
        >>> [rows for rows, scores in sel.scores(X)]
        [slice(0, 50, None)]
        """
        return self.model._scores_of(X)[1]

    def _scores_of(self, X: Any, sample: FeatureSample | None = None) -> tuple[int, Scores]:
        """Return the number of rows of X, and the scores of the rows, slice by slice; kept features are left out."""
        columns = self.column_slices(X)
        if sample is not None:
            columns = sample.collect(columns)
        return columns.shape[0], linear_scores(columns, self.weights, self.intercept)

    def column_slices(self, X: Any) -> ColumnSlices:
        """Return the selected features of X, slice by slice: columns, products of columns, or random features."""
        if self.inputs is not None:
            return expand_columns(X, self.features, self.inputs, self.fills, self.date_formats)
        return slice_features(X, self.features, self.names, self.products, self.fills, self.date_formats)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of the rows of X: one score a row, or one for every class or target."""
        count, blocks = self.model._scores_of(X)
        scores = np.empty((count, *self.weights.shape[1:]))
        for rows, block in blocks:
            if len(block) == len(scores):
                return block
            scores[rows] = block
        return scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted values of a real target, ``(rows, targets)`` of several, or the labels of classes."""
        return self._predictions(self.decision_function(X))

    def write_predictions(
        self,
        X: Any,
        url: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        progress: CountProgress | None = None,
    ) -> None:
        """Write predictions and scores, block by block, as a Zarr group that xarray opens.

        The Zarr group that is written has the variables "prediction" and "score", and opens only when it is complete.
        Writing needs as much memory as `scores`. After an error nothing is left behind.

        Parameters
        ----------
        X
            A dataset (or its path or URL), or an array.
        url
            The path or URL to write to, as for `open_dataset`.
        overwrite
            Replace predictions that are there already.
        storage_options
            Options of fsspec or obstore for the store; by default it is configured by environment variables.
        progress
            Called now and then with the number of rows done and the total number.

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(50, 5))
        >>> _ = daskfs.write_dataset("small.zarr", X, np.where(X[:, 3] > 0, "spam", "ham"))
        >>> sel = daskfs.select("small.zarr", daskfs.OnlineSubstitution(1))
        >>> sel.write_predictions("small.zarr", "predicted.zarr")
        >>> import xarray
        >>> bool((xarray.open_zarr("predicted.zarr").prediction == sel.predict(X)).all())
        True
        """
        dataset, location = as_dataset(X), Location(url, storage_options)
        check_place(location, overwrite, None if dataset is None else dataset.location)
        count, blocks = self.model._scores_of(X if dataset is None else dataset)
        if count == 0:
            raise OptionError("there are no rows to predict")
        source = {} if dataset is None else {"url": public_url(dataset.url), "digest": dataset.digest}
        Predictions(
            shape=(count, *self.weights.shape[1:]),
            scores=(block for _, block in blocks),
            predict=self._predictions,
            classes=self.classes,
            targets=self.targets,
            origin={
                "by": "write_predictions",
                "algorithm": self.algorithm,
                "trained_on": self.source,
                "source": source,
            },
        ).write(location, overwrite, progress or ignore_progress)

    def class_numbers(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the numbers among `classes` of the classes that are predicted from scores."""
        return predicted_classes(self._above_threshold(scores))

    def _above_threshold(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return scores if self.threshold is None else scores - self.threshold

    def _predictions(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        return scores if self.classes is None else np.array(self.classes)[self.class_numbers(scores)]

    def transform(self, X: Any) -> Any:
        """Return the selected features of X, in the order of `features`: a float array, or CSR if X is sparse."""
        return self.column_slices(X).to_array()

    @property
    def input_importance(self) -> xarray.DataArray:
        """The importance of every input of random features, largest first, with sum 1, by the name of the input.

        An input's importance is the mean squared change of training scores if the input has another row's value.

        Examples
        --------
        >>> X = np.random.default_rng(0).uniform(size=(500, 3))
        >>> _ = daskfs.write_dataset("wave.zarr", X, np.cos(9 * X[:, 2]), layout="rows")
        >>> daskfs.select("wave.zarr", daskfs.SparseRandomFeatures(rounds=3)).input_importance.input.values[0]
        'x2'
        """
        if self.inputs is None:
            raise OptionError("features are columns here; only random features have inputs, see importance")
        effects = self.inputs.expansion.importance
        order = np.argsort(-effects, kind="stable")
        names = np.array(self.inputs.names, object)[order]
        import xarray

        return xarray.DataArray(effects[order], {"input": names}, ("input",), "importance")

    def score(self, X: Any, y: ArrayLike | None = None) -> float:
        """Return the balanced accuracy of classes, or R² of a real target, without regard to weights of rows.

        R² of several targets is the mean of each target's.

        Parameters
        ----------
        X
            A dataset (or its path or URL), or an array.
        y
            The target of the rows of an array, ``(rows, targets)`` of several; a dataset has its own.
        """
        truth, scores = self._beside_truth(X, y)
        judged = ((rows, self._above_threshold(block)) for rows, block in scores)
        return score(judged, truth, self.classes, self.targets)

    def evaluate(self, X: Any, y: ArrayLike | None = None, *, progress: CountProgress | None = None) -> Evaluation:
        """Return all metrics, overall and for each class or target, with weighted rows (see `Evaluation`).

        A temporary file (``TMPDIR``) grows by 12 bytes for every row and class. Memory does not grow with the number of
        rows, except for the scores of a dataset laid out in columns.

        Parameters
        ----------
        X, y
            As for `score`.
        progress
            Called now and then with the amount done and the total amount.

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(50, 5))
        >>> _ = daskfs.write_dataset("small.zarr", X, X[:, 3] > 0, layout="both")
        >>> evaluation = daskfs.select("small.zarr", daskfs.OnlineSubstitution(1)).evaluate("small.zarr")
        >>> evaluation.rows, evaluation.metrics["roc_auc"], evaluation.per_class.sizes["class"]
        (50, 1.0, 2)
        """
        sample = FeatureSample(self) if self.inputs is None else None
        truth, scores = self._beside_truth(X, y, sample)
        result = evaluate(
            *(scores, truth, self.classes, self.targets, sample, progress or ignore_progress),
            predict=self.class_numbers,
            odds_of=self._log_odds,
        )
        if self.loss not in LOG_ODDS:
            result.curves.pop("calibration", None)
        return result

    def _log_odds(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-odds of classes, (rows, classes), for scores."""
        is_one_vs_rest = self.loss == "logistic" and self.weights.ndim == 2
        return log_odds(against_the_rest(scores) if is_one_vs_rest else scores)

    def _beside_truth(self, X: Any, y: ArrayLike | None, sample: FeatureSample | None = None) -> tuple[Truth, Scores]:
        dataset = as_dataset(X)
        if (y is None) == (dataset is None):
            raise OptionError("score a dataset, which brings its labels, or an array together with y")
        count, scores = self.model._scores_of(X if dataset is None else dataset, sample)
        return Truth(np.asarray(y) if dataset is None else dataset, self.classes, count, self.targets), scores

    def to_xarray(self) -> xarray.Dataset:
        """Return features, names, weights, intercept and history as labelled arrays."""
        several = self.weights.shape[1:] != ()
        dim = "class" if self.targets is None else "target"
        dims = (dim,) if several else ()
        coords: dict[str, Any] = {"feature": self.features, "name": ("feature", np.array(self.names, object))}
        if several:
            coords[dim] = np.array(self.classes if self.targets is None else self.targets)
        variables = {
            "weights": (("feature", *dims), self.weights),
            "importance": ("feature", self.importance),
            "intercept": (dims, self.intercept if several else self.intercept[0]),
            **{name: ("feature", numbers) for name, numbers in self.statistics.items()},
        }
        attributes = {"algorithm": json.dumps(self.algorithm), "source": json.dumps(self.source), "seed": self.seed}
        return self.history.assign(variables).assign_coords(coords).assign_attrs(attributes)

    def to_sklearn(self) -> Any:
        """Return the same model as a fitted scikit-learn estimator, which can be pickled and used without daskfs.

        If features are columns, the estimator is a linear model of the selected columns in the order of `features`
        (after the columns of `kept`): give it ``X[sel.names]`` of a DataFrame or ``X[:, sel.features]`` of an array.
        For random features, the estimator is a pipeline that takes all input columns. The pipeline's scores equal those
        of `decision_function` to 1e-5 of their size, since scikit-learn computes features in float64 and daskfs in
        float32. A `threshold` is in the intercept of the estimator, so that predictions are the same and scores are
        lower by the threshold.

        Returns
        -------
        A fitted `LogisticRegression` (logistic loss, softmax), `LinearSVC` (squared hinge), `SGDClassifier` (squared
        loss of classes; several classes by logistic loss, one against the rest) or `LinearRegression`; behind a scaler
        and an `RBFSampler` for random features.

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(50, 5))
        >>> _ = daskfs.write_dataset("small.zarr", X, X[:, 3] > X[:, 1])
        >>> sel = daskfs.select("small.zarr", daskfs.OnlineSubstitution(2, loss="logistic"))
        >>> model = sel.to_sklearn()
        >>> model, bool((model.predict(X[:, sel.features]) == sel.predict(X)).all())
        (LogisticRegression(), True)
        """
        from daskfs.selection.export import to_sklearn  # scikit-learn takes a second to import

        return to_sklearn(self)

    def save(self, url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> None:
        """Write the selection into a folder, as JSON and Zarr, and replace an earlier selection in the folder.

        Parameters
        ----------
        url
            A local path or a URL, as for `open_dataset`.
        storage_options
            Options of fsspec or obstore for the store; by default it is configured by environment variables.
        """
        write_selection(Location(url, storage_options), self.record(), self.steps)

    def record(self) -> dict[str, Any]:
        """Return all fields but the history for JSON, with a list of records of the features in order of rank."""
        parents_of = [{}] * len(self.features) if self.products is None else parent_records(self.products)
        shares = self.importance.tolist()
        ranked = zip(self.features.tolist(), self.names, self.weights.tolist(), shares, parents_of, strict=True)
        random = {} if self.inputs is None else {"random_features": self.inputs.record()}
        kept = {} if self.kept is None else {"kept": self.kept.records()}
        fills = {} if self.fills is None else {"missing": self.fills.record()}
        targets = {} if self.targets is None else {"targets": list(self.targets)}
        dates = {"date_formats": self.date_formats} if self.date_formats else {}
        largest = np.finfo(np.float64).max  # in place of infinity, for which JSON has no number
        numbers = {name: np.minimum(values, largest) for name, values in self.statistics.items()}
        statistics = {"statistics": without_nan(numbers)} if numbers else {}
        threshold = {} if self.threshold is None else {"threshold": self.threshold.tolist()}
        control = {} if self.error_control is None else {"error_control": self.error_control.record()}
        return {
            **random,
            **kept,
            **fills,
            **targets,
            **statistics,
            **control,
            **dates,
            **threshold,
            "algorithm": self.algorithm,
            "chosen": self.chosen,
            "classes": None if self.classes is None else list(self.classes),
            "features": [
                {"rank": rank, "id": feature, "name": name, "weight": weight, "importance": share, **parents}
                for rank, (feature, name, weight, share, parents) in enumerate(ranked, 1)
            ],
            "intercept": self.intercept.tolist() if self.weights.ndim == 2 else float(self.intercept[0]),
            "seed": self.seed,
            "source": self.source,
        }


def load_selection(url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Selection:
    """Return a selection that `Selection.save`, ``daskfs select`` or ``daskfs run`` wrote, without executing any of it.

    Parameters
    ----------
    url
        The path or URL of the folder of a run, or of a job, for its published run.
    storage_options
        Options of fsspec or obstore for the store; by default it is configured by environment variables.
    """
    location = resolve_run(Location(url, storage_options))
    record, history = read_selection(location)
    features, labels, intercept = record["features"], record.get("classes"), np.array(record["intercept"], np.float64)
    try:
        return Selection(
            features=np.array([feature["id"] for feature in features], np.uint64),
            names=[feature["name"] for feature in features],
            weights=np.array([feature["weight"] for feature in features], np.float64).reshape(-1, *intercept.shape),
            intercept=intercept.reshape(-1),
            classes=labels and tuple(label if isinstance(label, str) else float(label) for label in labels),
            steps=dict(history),
            algorithm=record["algorithm"],
            source=record["source"],
            seed=record["seed"],
            products=products_from_records(features),
            inputs=inputs_from_record(record["random_features"]) if "random_features" in record else None,
            kept=KeptFeatures.from_records(record["kept"], intercept.shape) if "kept" in record else None,
            chosen=record["chosen"],
            fills=Fills.from_record(record.get("missing")),
            targets=tuple(record["targets"]) if "targets" in record else None,
            statistics={name: np.array(numbers, np.float64) for name, numbers in record.get("statistics", {}).items()},
            date_formats=record.get("date_formats", {}),
            error_control=ErrorControl.from_record(record["error_control"]) if "error_control" in record else None,
            threshold=np.array(record["threshold"], np.float64) if "threshold" in record else None,
            importance=np.array([feature["importance"] for feature in features], np.float64),
        )
    except ValueError as error:
        raise SelectionError(f"{location.url}: {error}; the selection is damaged, make it again") from error


def _whole_numbers(classes: Sequence[Label]) -> tuple[Label, ...]:
    """Return labels with integers in place of floats, if all of the labels are whole numbers that a float can count.

    >>> _whole_numbers([0.0, 1.0]), _whole_numbers(["no", "yes"])
    ((0, 1), ('no', 'yes'))
    """
    are_whole = all(isinstance(label, float) and abs(label) < 2**53 and label == int(label) for label in classes)
    return tuple(map(int, classes)) if are_whole else tuple(classes)


def _columns_used(names: list[str], products: Products | None, inputs: Inputs | None) -> set[str]:
    """Return the names of the columns that the features are, or are computed from."""
    parents = () if products is None else (name for pair in products.names for name in pair)
    return {*names, *parents, *(() if inputs is None else inputs.names)}


def _shares(importance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sizes of numbers, or of the rows of a matrix, as shares of their sum; equal shares if all are 0."""
    largest = np.abs(importance).max(initial=0.0)
    if not 0 < largest < np.inf:
        return np.full(len(importance), 1 / max(len(importance), 1))
    relative = np.abs(importance) / largest  # or a square could be too large for a float
    sizes = relative if relative.ndim == 1 else np.linalg.norm(relative, axis=1)
    shares: NDArray[np.float64] = sizes / sizes.sum()
    return shares


def _through_json(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record as read back from JSON, with sorted keys, lists for tuples, and Python's numbers for numpy's."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(record), sort_keys=True, default=lambda number: number.item()))
    return plain
