"""The registration of Sparse Random Features: its name, its texts for the report, and its estimators."""

from __future__ import annotations

from daskfs.algorithms.random_features import SparseRandomFeatures
from daskfs.algorithms.registry import Estimator, Registration
from daskfs.protocol import Words

REGISTRATION = Registration(
    name="random-features",
    algorithm=SparseRandomFeatures,
    words=Words(title="Sparse Random Features", columns={"features": "features"}),
    estimators=(
        Estimator(
            role="transformer",
            summary="Compute random features that serve a target: a supervised `RBFSampler` of fewer columns",
            omits=("balanced",),
            loss="auto",
            example="""
>>> X = np.random.default_rng(0).uniform(size=(500, 3))
>>> SparseRandomFeaturesTransformer(n_select=20, rounds=2).fit_transform(X, np.sin(6 * X[:, 1])).shape
(500, 20)""",
        ),
        Estimator(
            role="classifier",
            summary="Tell classes apart that no straight line does, by few columns",
            loss="logistic",
            example="""
>>> X = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
>>> inside = SparseRandomFeaturesClassifier(rounds=3, per_round=50).fit(X, np.hypot(*X.T) < 0.8)
>>> inside.score(X, np.hypot(*X.T) < 0.8) > 0.95
True""",
        ),
        Estimator(
            role="regressor",
            summary="Predict a number that is no linear function of few columns",
            omits=("balanced",),
            example="""
>>> X = np.random.default_rng(0).uniform(size=(500, 3))
>>> waves = SparseRandomFeaturesRegressor(penalty=0.1, rounds=5).fit(X, np.sin(6 * X[:, 1]))
>>> waves.score(X, np.sin(6 * X[:, 1])) > 0.99
True""",
        ),
    ),
    text_for_losses=("squared",),
)
