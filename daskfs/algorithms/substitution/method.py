"""What the three methods of Online Substitution have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from daskfs.algorithms.substitution.columns import AnyColumns
from daskfs.errors import OptionError
from daskfs.protocol import Algorithm, Axis, Block, ColumnBlock, SparseColumnBlock

if TYPE_CHECKING:
    from daskfs.algorithms.substitution import OnlineSubstitution


@dataclass(frozen=True)
class Method(Algorithm):
    """A method of Online Substitution with the parameters it was asked for."""

    axis: ClassVar[Axis] = "columns"
    verb: ClassVar[str] = "score"

    params: OnlineSubstitution

    @property
    def name(self) -> str:
        return self.params.name

    @property
    def n_select(self) -> int:
        return self.params.n_select

    @property
    def passes(self) -> int:
        return self.params.passes


def columns_of(block: Block) -> AnyColumns:
    """Return the block, if it is one of columns."""
    if not isinstance(block, ColumnBlock | SparseColumnBlock):
        raise OptionError("Online Substitution reads columns: write dense data with layout='columns', transpose sparse")
    return block
