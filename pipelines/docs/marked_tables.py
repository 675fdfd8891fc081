"""Tables of pages that scripts write: each stands between ``<!-- table: NAME -->`` and ``<!-- end -->``."""

from __future__ import annotations

import re
from collections.abc import Mapping


def drawn(page: str, tables: Mapping[str, str]) -> str:
    """Return the page with tables in the place of those of the same names."""

    def draw(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n{tables[found[2]]}\n<!-- end -->"

    return re.sub(r"(<!-- table: (\w+) -->)\n.*?<!-- end -->", draw, page, flags=re.DOTALL)
