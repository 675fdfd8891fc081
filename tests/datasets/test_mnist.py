"""MNIST: the idx files, and each kind of feature against a plain loop over pixels."""

from __future__ import annotations

import gzip
import itertools
import math

import numpy as np
import pytest

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (12, 28, 28)).astype(np.uint8)
LABELS = np.array([4, 9, 1, 4, 9, 9, 0, 4, 1, 2, 9, 4], np.uint8)
FOURS_AND_NINES = [0, 1, 3, 4, 5, 7, 10, 11]


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return gzip.compress(header + array.tobytes())


@pytest.fixture
def folder(tmp_path):
    for part, images, labels in [("train", IMAGES, LABELS), ("t10k", IMAGES[::-1], LABELS[::-1])]:
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(images))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx(labels))
    return tmp_path


@pytest.mark.parametrize(
    ("part", "images", "labels"), [("train", IMAGES, LABELS), ("test", IMAGES[::-1], LABELS[::-1])]
)
def test_pixels(write, folder, part, images, labels):
    written = write("mnist", "--from", folder, "--part", part)
    X, y = written.dense()
    assert np.allclose(X, images.reshape(12, 784) / 255, atol=1e-7)
    assert np.array_equal(y, labels)
    assert written.dataset.classes == (0, 1, 2, 4, 9)
    assert written.names[3 * 28 + 17] == "pixel(3,17)"


def test_digits_and_rows(write, folder):
    written = write("mnist", "--from", folder, "--digits", "4,9", "--rows", 5)
    X, y = written.dense()
    assert y.tolist() == [4, 9, 4, 9, 9]
    assert np.allclose(X, IMAGES[FOURS_AND_NINES[:5]].reshape(5, 784) / 255, atol=1e-7)


def value_of(name, image):
    """A pixel or a product of pixels by its name."""
    values = []
    for factor in name.split("*"):
        r, c = map(int, factor.removeprefix("pixel(").removesuffix(")").split(","))
        values.append(image[r, c] / 255)
    return math.prod(values)


def test_pixels_and_near_products(write, folder):
    written = write("mnist", "--from", folder, "--digits", "4,9", "--features", "pixels,products")
    X, _ = written.dense()
    names = written.names
    assert X.shape == (8, 784 + 2970)
    assert len(set(names)) == len(names)
    for row, number in enumerate(FOURS_AND_NINES[:2]):
        expected = [value_of(name, IMAGES[number]) for name in names]
        assert np.allclose(X[row], expected, atol=1e-6)


@pytest.mark.parametrize(("height", "width", "radius"), [(5, 4, 1), (6, 7, 2), (3, 3, 5)])
def test_near_pairs_are_all_of_them(recipe, height, width, radius):
    found = {tuple(pair) for pair in recipe("_image_features").near_pairs(height, width, radius).tolist()}
    places = list(itertools.product(range(height), range(width)))
    expected = {
        (i, j)
        for (i, a), (j, b) in itertools.combinations(enumerate(places), 2)
        if abs(a[0] - b[0]) <= radius and abs(a[1] - b[1]) <= radius
    }
    assert found == expected
    assert len(recipe("_image_features").near_pairs(height, width, radius)) == len(expected)


def test_random_products(write, folder):
    options = "--from", folder, "--features", "products", "--pairs", "random:300"
    first, second, other = (write("mnist", *options, "--seed", s, out=f"{i}") for i, s in enumerate([0, 0, 1]))
    X, _ = first.dense()
    assert X.shape == (12, 300)
    assert len(set(first.names)) == 300
    assert np.allclose(X[0], [value_of(name, IMAGES[0]) for name in first.names], atol=1e-6)
    assert first.dataset.digest == second.dataset.digest != other.dataset.digest


def test_gradients(write, folder):
    written = write("mnist", "--from", folder, "--features", "gradients", "--rows", 2)
    X, _ = written.dense()
    by_name = dict(zip(written.names, X[1], strict=True))
    image = IMAGES[1] / 255
    assert len(by_name) == 2 * 784
    assert by_name["dy(3,17)"] == pytest.approx((image[4, 17] - image[2, 17]) / 2, abs=1e-6)
    assert by_name["dx(3,17)"] == pytest.approx((image[3, 18] - image[3, 16]) / 2, abs=1e-6)
    assert by_name["dx(3,0)"] == pytest.approx(image[3, 1] - image[3, 0], abs=1e-6)


def plain_hog(image):
    """HOG of one image, pixel by pixel: features by name."""
    histograms = np.zeros((7, 7, 9))
    dy, dx = np.gradient(image)
    for r, c in itertools.product(range(28), range(28)):
        angle = math.degrees(math.atan2(dy[r, c], dx[r, c])) % 180
        lower = int(angle // 20)
        share = angle / 20 - lower
        length = math.hypot(dy[r, c], dx[r, c])
        histograms[r // 4, c // 4, lower % 9] += (1 - share) * length
        histograms[r // 4, c // 4, (lower + 1) % 9] += share * length
    features = {}
    for r, c in itertools.product(range(6), range(6)):
        norm = math.sqrt((histograms[r : r + 2, c : c + 2] ** 2).sum() + 1e-6)
        for i, j, bin in itertools.product(range(2), range(2), range(9)):
            features[f"hog(block {r},{c} cell {i},{j}; {20 * bin}°)"] = histograms[r + i, c + j, bin] / norm
    return features


def test_hog_is_that_of_a_plain_loop(write, folder):
    written = write("mnist", "--from", folder, "--features", "hog", "--rows", 3)
    X, _ = written.dense()
    expected = plain_hog(IMAGES[2] / 255)
    assert written.names == list(expected)
    assert X[2] == pytest.approx(list(expected.values()), abs=1e-4)


def test_hog_of_edges_points_across_them(recipe):
    upright, level = np.zeros((2, 28, 28), np.float32)
    upright[:, 14:] = 1  # light to the right of an upright edge: the gradient points across, 0°
    level[14:, :] = 1
    X, names = recipe("_image_features").hog(np.stack([upright, level]))
    degrees = np.array([int(name.split()[-1].removesuffix("°)")) for name in names])
    assert set(degrees[X[0] > 0.1].tolist()) == {0}
    assert set(degrees[X[1] > 0.1].tolist()) <= {80, 100}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--features", "edges"], "edges"),
        (["--features", "products", "--pairs", "far:2"], "near:R"),
        (["--features", "products", "--pairs", "random:400000"], "306,936"),
        (["--digits", "7"], "no such images"),
        (["--digits", "seven"], "whole numbers"),
    ],
)
def test_wrong_options(invoke, folder, tmp_path, options, message):
    result = invoke("mnist", tmp_path / "out.zarr", "--from", folder, *options)
    assert result.exit_code == 2
    assert message in result.output


def test_a_file_cut_short(invoke, folder, tmp_path):
    path = tmp_path / "train-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-1]))
    result = invoke("mnist", tmp_path / "out.zarr", "--from", folder)
    assert result.exit_code == 2
    assert "train-labels" in result.output
