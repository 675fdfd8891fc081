"""Gaussian designs: the OS paper's regression and classification, and MISSION's simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest


def paper_n(p, s):
    return round(1.2 * s * math.log2(p))


class TestRegression:
    def test_is_the_papers_design(self, write):
        written = write("os_regression", "--p", 700, "--s", 20)
        X, y = written.dense()
        n = paper_n(700, 20)
        ids, weights = written.truth
        assert X.shape == (n, 700)
        assert written.dataset.classes is None
        assert len(ids) == len(set(ids.tolist())) == 20
        assert abs(X.mean()) < 5 / math.sqrt(X.size)
        assert np.linalg.norm(X, axis=0) / math.sqrt(n) == pytest.approx(1, abs=5 / math.sqrt(2 * n))
        assert abs(np.corrcoef(X[:, 250:262], rowvar=False) - np.eye(12)).max() < 5 / math.sqrt(n)
        noise = y - X[:, ids].astype(float) @ weights
        assert noise.std() == pytest.approx(0.1, rel=5 / math.sqrt(2 * n))
        assert abs(noise.mean()) < 0.5 / math.sqrt(n)

    def test_weights_and_places_are_random(self, write):
        written = write("os_regression", "--p", 2000, "--s", 1000, "--n", 10)
        ids, weights = written.truth
        assert weights.mean() == pytest.approx(0, abs=5 / math.sqrt(1000))
        assert weights.std() == pytest.approx(1, abs=5 / math.sqrt(2000))
        assert np.bincount(ids.astype(int) // 500) == pytest.approx(250, abs=5 * math.sqrt(125))

    def test_without_noise_the_truth_is_exact(self, write):
        written = write("os_regression", "--p", 300, "--s", 5, "--noise", 0)
        X, y = written.dense()
        ids, weights = written.truth
        assert y == pytest.approx(X[:, ids].astype(float) @ weights, abs=1e-5)
        found = np.linalg.lstsq(X[:, ids].astype(float), y, rcond=None)[0]
        assert found == pytest.approx(weights, rel=1e-4)

    @pytest.mark.parametrize("scales", ["unit", "lognormal"])
    def test_scales_change_the_columns_but_not_the_target(self, write, scales):
        arguments = "--p", 600, "--s", 10, "--n", 80
        plain = write("os_regression", *arguments, out="plain")
        scaled = write("os_regression", *arguments, "--scales", scales, out="scaled")
        (X, y), (Z, target) = plain.dense(), scaled.dense()
        assert target == pytest.approx(y, abs=1e-4)
        factors = np.linalg.norm(Z, axis=0) / np.linalg.norm(X, axis=0)
        assert np.allclose(Z, X * factors, rtol=1e-4, atol=1e-6)
        assert scaled.truth[1] == pytest.approx(plain.truth[1] / factors[plain.truth[0]], rel=1e-4)
        logs = np.log(np.linalg.norm(Z, axis=0)) if scales == "unit" else np.log(factors)
        expected = 0 if scales == "unit" else 1
        assert logs.std() == pytest.approx(expected, abs=5 / math.sqrt(2 * 600) * expected + 1e-5)
        assert logs.mean() == pytest.approx(0, abs=5 / math.sqrt(600) * expected + 1e-5)

    def test_correlation_falls_off_with_the_distance(self, write):
        X, _ = write("os_regression", "--p", 512, "--s", 5, "--n", 400, "--correlation", 0.7).dense()
        C = np.corrcoef(X, rowvar=False)
        for distance in (1, 2, 3):
            along = np.array([C[j, j + distance] for j in range(256 - distance)])
            assert along.mean() == pytest.approx(0.7**distance, abs=0.02)
        assert abs(C[255, 256]) < 5 / math.sqrt(400)  # a new run begins
        assert X.std(axis=0) == pytest.approx(1, abs=5 / math.sqrt(800))

    def test_same_seed_same_dataset(self, write):
        digests = [
            write("os_regression", "--p", 300, "--s", 5, "--seed", seed, out=f"{i}").dataset.digest
            for i, seed in enumerate([1, 1, 2])
        ]
        assert digests[0] == digests[1] != digests[2]

    def test_more_informative_features_than_features(self, invoke, tmp_path):
        assert invoke("os_regression", tmp_path / "out.zarr", "--p", 10, "--s", 11).exit_code == 2


class TestClassification:
    def test_labels_are_signs_in_both_sets(self, write, open_written):
        train = write("os_classification", "--p", 500, "--s", 10)
        ids, weights = train.truth
        rows = []
        for written in (train, open_written("out.test")):
            X, y = written.dense()
            assert X.shape == (paper_n(500, 10), 500)
            assert written.dataset.classes == (-1, 1)
            assert np.array_equal(y, np.sign(X[:, ids] @ weights))
            rows.append(X)
        assert not np.intersect1d(rows[0], rows[1]).size > 0.001 * rows[0].size  # other rows, not the same

    def test_number_of_samples_can_be_given(self, write):
        assert write("os_classification", "--p", 300, "--s", 5, "--n", 33).dataset.n_samples == 33


class TestLaggingGradient:
    def test_only_the_support_is_attenuated(self, write):
        plain = write("mission_lagging_gradient", "--n", 60, "--p", 40, "--k", 4, out="plain")
        weak = write("mission_lagging_gradient", "--n", 60, "--p", 40, "--k", 4, "--alpha", 2.5, out="weak")
        X, y = plain.sparse()
        Z, target = weak.sparse()
        ids, weights = weak.truth
        assert np.array_equal(ids, plain.truth[0])
        assert weights.tolist() == [1, 1, 1, 1]
        factors = np.ones(40)
        factors[ids] = 2.5
        assert np.allclose(Z.toarray() * factors, X.toarray(), rtol=1e-6)
        assert target == pytest.approx(Z.toarray()[:, ids].astype(float).sum(axis=1), abs=1e-5)
        assert y == pytest.approx(2.5 * target, abs=1e-5)

    def test_is_standard_normal_without_attenuation(self, write):
        X, _ = write("mission_lagging_gradient", "--n", 200, "--p", 100, "--k", 7).sparse()
        assert X.nnz == 20_000
        assert X.data.std() == pytest.approx(1, abs=5 / math.sqrt(40_000))

    def test_coefficients_can_be_drawn(self, write):
        written = write("mission_lagging_gradient", "--n", 20, "--p", 400, "--k", 400, "--coefficients", "normal")
        assert written.truth[1].std() == pytest.approx(1, abs=5 / math.sqrt(800))

    def test_support_larger_than_the_features(self, invoke, tmp_path):
        result = invoke("mission_lagging_gradient", tmp_path / "out.zarr", "--p", 3, "--k", 4)
        assert result.exit_code == 2
