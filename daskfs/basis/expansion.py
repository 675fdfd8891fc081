from __future__ import annotations
import math
from dataclasses import dataclass
from typing import Literal, get_args
import numpy as np
from numpy.typing import NDArray
from daskfs.basis.expansion_kernels import CAUCHY, NORMAL, SPHERE, cosines, draw, signs
Kernel = Literal["gaussian", "laplacian", "perceptron"]
KERNELS = get_args(Kernel)
TILE_ROWS = 512

@dataclass(frozen=True)
class Drawn:
    kernel: Kernel
    W: NDArray[np.float32]
    b: NDArray[np.float32]
    def expand(self, X):
        out = np.empty((len(X), len(self.W)), np.float32)
        activate = signs if self.kernel == "perceptron" else cosines
        for start in range(0, len(X), TILE_ROWS):
            tile = out[start : start + TILE_ROWS]
            np.matmul(X[start : start + TILE_ROWS], self.W.T, out=tile)
            activate(tile, self.b)
        return out

@dataclass(frozen=True)
class Basis:
    kernel: Kernel
    gamma: float
    seed: int
    d: int
    def drawn(self, ids):
        W, b = np.empty((len(ids), self.d), np.float32), np.empty(len(ids), np.float32)
        gamma = self.gamma
        if self.kernel == "gaussian":
            law, scale, spread = NORMAL, math.sqrt(2 * gamma) / (2 * math.pi), 1.0
        elif self.kernel == "laplacian":
            law, scale, spread = CAUCHY, gamma / (2 * math.pi), 1.0
        else:
            law, scale, spread = SPHERE, 1.0, 2 / gamma
        ids = ids.view(); ids.flags.writeable = False
        draw(ids, np.uint64(self.seed % 2**64), law, scale, spread, W, b)
        return Drawn(self.kernel, W, b)
