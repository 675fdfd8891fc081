"""What users would otherwise pick: linear models of scikit-learn, in memory, that keep a weight for every feature."""

from __future__ import annotations

import numpy as np
from _contenders import ID, NUMBER, Contender, Model, Setting
from _real import Scores, Task, ids_of, labels_of, matrix_of
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import daskfs

SGD_RATE = 8.0  # for rows of unit norm; not tuned


def exact_sgd(task: Task, setting: Setting) -> Model:
    """Plain steps of logistic regression with a weight of its own for every feature."""
    ids = ids_of(task.train)
    model = SGDClassifier(
        loss="log_loss",
        penalty=None,
        learning_rate="constant",
        eta0=SGD_RATE,
        max_iter=task.passes,
        tol=None,
        random_state=0,
    )
    model.fit(matrix_of(task.train, ids), labels_of(task.train))
    return Model(lambda test: model.decision_function(matrix_of(test, ids)), len(ids) * (ID + NUMBER * task.n_scores))


def linear_svc(cut: bool) -> Contender:
    """A support vector machine on tf-idf; `cut` to the largest weights of each class, as many as are to be selected."""

    def learned(task: Task, setting: Setting) -> Model:
        ids = ids_of(task.train)
        tfidf = TfidfTransformer()
        model = LinearSVC(random_state=0).fit(tfidf.fit_transform(matrix_of(task.train, ids)), labels_of(task.train))
        kept = np.abs(model.coef_) >= _smallest_kept(model.coef_, setting.n_select if cut else len(ids))
        model.coef_ *= kept
        pipeline = make_pipeline(tfidf, model)
        return Model(
            lambda test: pipeline.decision_function(matrix_of(test, ids)),
            int(kept.sum()) * (ID + NUMBER) if cut else len(ids) * (ID + NUMBER + NUMBER * task.n_scores),
        )

    return learned


def _smallest_kept(weights: Scores, count: int) -> Scores:
    """Of each row, the `count`-th largest size."""
    return -np.partition(-np.abs(weights), min(count, weights.shape[1]) - 1, axis=1)[
        :, [min(count, weights.shape[1]) - 1]
    ]


def naive_bayes(counts: Task) -> Contender:
    """Multinomial naive Bayes on the counts of another task with the same rows to judge by."""

    def learned(task: Task, setting: Setting) -> Model:
        ids = ids_of(counts.train)
        model = MultinomialNB().fit(matrix_of(counts.train, ids), labels_of(counts.train))
        of_test = {task.tests[name].url: test for name, test in counts.tests.items()}

        def scores(test: daskfs.Dataset) -> Scores:
            return model.predict_joint_log_proba(matrix_of(of_test[test.url], ids))

        return Model(scores, len(ids) * NUMBER * task.n_scores)

    return learned
