"""Products that need no copy of the rows they read, in C where it could be compiled.

A BLAS multiplies whole matrices. The greedy loop multiplies a changing choice of rows with a
few directions, and copying those rows together costs as much as the product. `multiply` and
`gram` read them where they lie, on as many threads as NumPy's BLAS may use. Without a
compiler at build time `available` is False, and the callers use NumPy.

There is a second reason: idle threads of OpenBLAS spin for about a tenth of a second after each
of its calls and take the processor from everything else. A loop that calls it only for some of
its products runs at half speed.
"""

from isopivot._native.bookkeeping import (
    behind,
    blurred,
    foremost,
    leaders,
    leading_inverse,
    outside,
    panel_pivots,
    ready,
)
from isopivot._native.products import (
    LINE,
    UNIT,
    against,
    all_finite,
    available,
    columns_of,
    combine,
    gram,
    inner,
    multiply,
    norms2,
    orthonormalise,
    pack,
    read_once,
    replace,
    scatter,
    triangular,
)
from isopivot._native.sparse import sparse_available, sparse_products

__all__ = [
    "LINE",
    "UNIT",
    "against",
    "all_finite",
    "available",
    "behind",
    "blurred",
    "columns_of",
    "combine",
    "foremost",
    "gram",
    "inner",
    "leaders",
    "leading_inverse",
    "multiply",
    "norms2",
    "orthonormalise",
    "outside",
    "pack",
    "panel_pivots",
    "read_once",
    "ready",
    "replace",
    "scatter",
    "sparse_available",
    "sparse_products",
    "triangular",
]
