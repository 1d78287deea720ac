"""Products that need no copy of the rows they read, in C where it could be compiled.

A BLAS multiplies whole matrices. The greedy loop multiplies a changing choice of rows with a
few directions, and copying those rows together costs as much as the product. `project` and
`product` read them where they lie, on as many threads as NumPy's BLAS may use. Without a
compiler at build time `available` is False, and the callers use NumPy.

There is a second reason: idle threads of OpenBLAS spin for about a tenth of a second after each
of its calls and take the processor from everything else. A loop that calls it only for some of
its products runs at half speed.
"""

from isopivot._native.bookkeeping import downdate, leaders, outside, ready, unsettled
from isopivot._native.products import available, fits, packed, product, project, read_once, scatter

__all__ = [
    "available",
    "downdate",
    "fits",
    "leaders",
    "outside",
    "packed",
    "product",
    "project",
    "read_once",
    "ready",
    "scatter",
    "unsettled",
]
