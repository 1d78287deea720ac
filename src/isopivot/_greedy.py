"""The greedy loop (Algorithms 1 and 2 of the paper, Eq. pi), in panels.

Plain greedy looks at all data for every pivot. Residuals only ever shrink, so a stale one
is an upper bound, and a few rows with the largest bounds (the *panel*) decide many pivots:
one is the true argmax as long as nothing outside the panel can exceed it. That gives the
pivots of plain greedy from matrix products alone. The loop works on either arithmetic of
`_factors` and only ever compares residuals; see docs/architecture.md for the proof.

Legend: residual2 = squared residuals, upper2 = their upper bounds (stale or blurred),
stop2 = squared residual at which the dictionary suffices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from isopivot import _native
from isopivot._arrays import Rows, Vector
from isopivot._cholesky import Cholesky
from isopivot._factors import Orthonormal
from isopivot.certificate import StoppedBy

TIES = 64.0  # squared residuals within this many eps of the maximum are equal
BLUR = 4.0  # errors of a Gram matrix that a squared residual may have, per pivot
DEPTH = 1.0 / 16.0  # a panel ends when its largest squared residual fell by this factor
PANEL = 256  # most rows in a panel; fewer where they would be a large part of the data
GROUP = 8  # pivots that are multiplied together: many are cut to whole groups
YIELD = 8  # rows in a panel per pivot that the last one gave


@dataclass(frozen=True)
class Panel:
    """Rows that may be pivots now, and what is known of all others."""

    rows: Rows
    bound2: float  # no other row has a larger squared residual
    fence: int  # no other row below this index has one within the tie window of bound2
    refreshed: int = 0  # rows that had to be brought up to date for it


class Finished(Protocol):
    """What the loop has extended."""

    residual2: Vector

    @property
    def s(self) -> int: ...


def greedy(
    factor: Orthonormal | Cholesky,
    *,
    mu: float | None,
    n_components: int | None,
    limit: int,
    relaxation: float,
    eps: float,
    progress: Callable[[int, int], object] | None = None,
) -> StoppedBy:
    """Extend `factor` until every residual is at most mu; return what ended it.

    Parameters
    ----------
    factor : Orthonormal or Cholesky
        Extended in place; every point is up to date when this returns.
    mu : float or None
        Residual that suffices; None and 0 mean the accuracy floor.
    n_components, limit : int or None, int
        Pivots asked for, and the most there can be.
    relaxation : float in (0, 1]
        Panel pivots are accepted down to this part of the bound on all other rows.
    eps : float
        Machine epsilon of the data, which sets the tie window.
    progress : callable or None
        Called with (pivots so far, most there can be) after every panel; returns True to
        end the loop there.
    """
    target = limit if n_components is None else n_components
    refreshed, size = 0, PANEL // 2
    while factor.s < target:
        stop2 = _stop2(mu, factor.floor)
        panel = next_panel(factor, size, stop2, eps, refreshed // 2)
        refreshed = panel.refreshed
        if len(panel.rows) == 0:
            break
        order = _chosen(factor, panel, stop2, target - factor.s, relaxation, eps)
        if len(order) == 0:
            continue
        if len(order) >= 2 * GROUP:
            order = order[: len(order) // GROUP * GROUP]
        factor.extend(panel.rows[order], stop2)
        size = max(PANEL // 3, min(PANEL, YIELD * len(order)))
        if progress is not None and progress(factor.s, target) is True:
            target = n_components = factor.s
    factor.finish(_stop2(mu, factor.floor))
    return reason(factor, mu, n_components)


def reason(factor: Finished, mu: float | None, n_components: int | None) -> StoppedBy:
    """Return what ended the loop."""
    if mu and np.sqrt(factor.residual2.max()) <= mu:
        return "mu"
    return "n_components" if factor.s == n_components else "rank"


def _chosen(
    factor: Orthonormal | Cholesky,
    panel: Panel,
    stop2: float,
    room: int,
    relaxation: float,
    eps: float,
) -> Rows:
    """Return the positions in the panel that greedy takes.

    None if measuring its residuals made them so much smaller that others lead now.
    """
    G, blur2 = factor.gram(panel.rows)
    if np.diagonal(G).max() < relaxation**2 * panel.bound2:
        now = leaders(factor, len(panel.rows), stop2, eps)
        if not np.array_equal(now, panel.rows):
            return np.empty(0, dtype=np.intp)
    how = (room, relaxation, eps)
    order = panel_pivots(G, panel, stop2, *how, blur2=blur2)
    if len(order) == 0:  # too close to tell
        order = panel_pivots(factor.gram(panel.rows, exact=True)[0], panel, stop2, *how)
    return order


def most_rows(n: int) -> int:
    """Return how many rows a panel of n has at most."""
    return min(PANEL, max(64, n // 25))


def _stop2(mu: float | None, floor: float) -> float:
    return min(max(mu or 0.0, floor), 1e150) ** 2


def next_panel(
    factor: Orthonormal | Cholesky, size: int, stop2: float, eps: float, batch: int = 0
) -> Panel:
    """Return the `size` rows of largest residual, all of them up to date.

    Rows are refreshed from the largest bound downwards, in growing batches, until the
    leaders are up to date, and told well: rows whose stale bound is below theirs cannot matter.
    When many would have to be, all are. The first batch is as large as the last panel suggests.
    """
    size = min(size, most_rows(factor.n))
    batch, refreshed = max(batch, size), 0
    if batch > size:  # the leaders among so many are stale, whoever they are
        refreshed = _refresh(factor, _late(factor, batch, stop2), 0, stop2)
        batch *= 4
    while True:
        rows = leaders(factor, size, stop2, eps)
        some = factor.behind(rows)
        if len(some):
            late = _late(factor, batch, stop2) if refreshed else some
            refreshed = _refresh(factor, late, refreshed, stop2)
            batch *= 4
        elif not factor.settle(rows, stop2):
            break
    bound2, fence = _outside(factor, rows, 2.0 * TIES * eps)
    return Panel(rows, bound2, fence, refreshed)


def _refresh(factor: Orthonormal | Cholesky, late: Rows | None, before: int, stop2: float) -> int:
    """Refresh some rows, or all if that is better; return how many it were, and before that."""
    refreshed = before + (factor.n if late is None else len(late))
    if late is None or factor.prefers_all(refreshed):
        factor.refresh_all(stop2)
    elif len(late):
        factor.refresh(late, stop2)
    return refreshed


def _outside(factor: Orthonormal | Cholesky, rows: Rows, window: float) -> tuple[float, int]:
    """Return the largest bound of all other rows, and the first of them within the window."""
    if _native.ready():
        return _native.outside(factor.residual2, factor.slack2, rows, window)
    others = factor.upper2
    others[rows] = 0.0
    bound2 = float(others.max())
    return bound2, int(np.argmax(others >= bound2 * (1.0 - window)))


def leaders(factor: Orthonormal | Cholesky, count: int, stop2: float, eps: float) -> Rows:
    """Return the `count` rows with the largest bound above stop2, ties by lowest index."""
    if _native.ready():
        return _native.leaders(factor.residual2, factor.slack2, count, stop2, TIES * eps)
    upper2 = factor.upper2
    rows = np.flatnonzero(upper2 > max(stop2, _sieve(upper2, count)))
    if len(rows) < count:
        rows = np.flatnonzero(upper2 > stop2)
    if len(rows) <= count:
        return rows
    values = upper2[rows]
    cut = np.partition(values, len(rows) - count)[len(rows) - count]
    above = rows[values > cut * (1.0 + TIES * eps)]
    tied = rows[(values <= cut * (1.0 + TIES * eps)) & (values >= cut * (1.0 - TIES * eps))]
    return np.sort(np.concatenate([above, tied[: count - len(above)]]))


def _late(factor: Orthonormal | Cholesky, count: int, stop2: float) -> Rows | None:
    """Return which of about `count` rows with the largest bounds above stop2 are not up to date.

    None where there are so many that all rows should be refreshed.
    """
    most = max(count, int(factor.listed * factor.n))
    if _native.ready():
        rows = _native.foremost(factor.residual2, factor.slack2, count, stop2, most)
    else:
        upper2 = factor.upper2
        limit = min(_sieve(upper2, count // 2), np.nextafter(upper2.max(), 0.0))
        rows = np.flatnonzero(upper2 > max(stop2, limit))  # never fewer than one
    return None if rows is None or len(rows) > most else factor.behind(rows)


def _sieve(upper2: Vector, count: int) -> float:
    """Return a value that somewhat more than `count` bounds exceed, guessed from a sample."""
    sample = upper2[:: max(1, len(upper2) // 4096)]
    share = int(np.ceil(2.0 * count * len(sample) / len(upper2))) + 16
    if share >= len(sample):
        return 0.0
    return float(np.partition(sample, len(sample) - share)[len(sample) - share])


def panel_pivots(
    G: Vector,
    panel: Panel,
    stop2: float,
    room: int,
    relaxation: float,
    eps: float,
    *,
    blur2: float = 0.0,
) -> Rows:
    """Return the positions in the panel that greedy takes, in order: a pivoted Cholesky.

    The first is always taken: it is the largest of all rows, or tied with it and first.
    A further one is taken while no row outside could be preferred to it. If G is wrong by as
    much as `blur2`, one is taken only if none comes so near that this could change the choice:
    not even the first, perhaps.
    """
    bound2, window = relaxation**2 * panel.bound2, TIES * eps
    if _native.ready():
        limits = (bound2, stop2, DEPTH, window, BLUR * blur2)
        return _native.panel_pivots(G, panel.rows, panel.fence, room, *limits)
    residual2 = np.diagonal(G).copy()
    start2 = residual2.max()
    enough2 = max(stop2, DEPTH * start2)
    L = np.empty((min(room, len(G)), len(G)))
    order: list[int] = []
    while len(order) < len(L):
        best2, k = residual2.max(), len(order)
        j = int(np.argmax(residual2 >= best2 * (1.0 - window)))
        tied_but_first = best2 >= bound2 * (1.0 - window) and panel.rows[j] < panel.fence
        wins = best2 > bound2 * (1.0 + window) or tied_but_first
        if k and (best2 <= enough2 or not wins):
            break
        margin2 = BLUR * (k + 1) * blur2  # errors add up from pivot to pivot
        rivals2 = max(np.delete(residual2, j).max(initial=0.0), bound2)
        if blur2 and best2 - margin2 <= rivals2 * (1.0 + window):
            break
        L[k] = (G[j] - L[:k, j] @ L[:k]) / np.sqrt(residual2[j])
        residual2 -= L[k] ** 2
        residual2[j] = 0.0
        order.append(j)
    return np.asarray(order, dtype=np.intp)
