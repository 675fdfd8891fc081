"""The registration of univariate selection: its name, and its texts for the report."""

from __future__ import annotations

from daskfs.algorithms.registry import Registration
from daskfs.algorithms.univariate import Univariate
from daskfs.protocol import Words

REGISTRATION = Registration(
    name="univariate",
    algorithm=Univariate,
    words=Words(title="univariate scores", columns={"significant": "features with a q-value up to 0.05"}),
)
