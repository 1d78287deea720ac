"""One contestant on one data set, in a process of its own: `python worker.py job.json`.

NumPy's and SciPy's wheels carry an OpenBLAS each, with a thread pool each. Idle threads of one
spin for a while after a call and take the processor from the other, so two contestants in one
process would slow each other down. A fresh process also makes the peak memory meaningful.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import measure
from contestants import CONTESTANTS, Contestant, Outcome

ALL_PAIRS_ROWS = 20_000  # beyond, the search over all pairs takes minutes
SAMPLE_ROWS = 3_000


def run(contestant: Contestant, X: np.ndarray, s: int, repeats: int, limit: float) -> dict:
    """Memory (first call), then time, then quality."""

    def prepare() -> Any:
        return contestant.prepare(X, s)

    _load_libraries(contestant, s)
    result, memory = measure.call_measured(lambda: contestant.call(prepare(), s), limit)
    kept = measure.total_bytes(contestant.kept(result))
    time = measure.clock(prepare, lambda argument: contestant.call(argument, s), repeats)
    # Only now: judging may wake the other thread pool.
    outcome = contestant.judge(X, s, result)
    return {
        "time": time,
        "extra_memory_percent": {
            way: None if peak is None else max(0.0, 100 * (peak - kept) / X.nbytes)
            for way, peak in memory.items()
        },
        "s": outcome.s,
        "pivots": None if outcome.pivots is None else [int(i) for i in outcome.pivots],
        "passes": outcome.passes,
        "certified_bound": None if outcome.bound is None else float(outcome.bound),
        "actual_distortion": distortion(X, outcome),
    }


def _load_libraries(contestant: Contestant, s: int) -> None:
    """Import what the contestant imports and start its threads, so that neither is measured."""
    small = np.random.default_rng(0).standard_normal((64, 32)).astype(contestant.dtype)
    contestant.call(contestant.prepare(small, 4), 4)


def distortion(X: np.ndarray, outcome: Outcome) -> dict | None:
    """The largest change of a distance, over all pairs or over the rows that changed most.

    With more than `ALL_PAIRS_ROWS` rows only those with the largest residuals are searched: the
    largest of a part never exceeds that of the whole, so the value is then a lower estimate.
    """
    if outcome.embedding is None:
        return None
    from isopivot import actual_distortion

    rows = np.arange(len(X))
    if len(X) > ALL_PAIRS_ROWS:
        rows = np.argsort(outcome.residuals)[-SAMPLE_ROWS:]
    residuals = outcome.residuals[rows] if outcome.projection else None
    value = actual_distortion(X[rows], outcome.embedding[rows], residuals)
    return {"value": float(value), "rows": len(rows), "all_pairs": len(rows) == len(X)}


def main(job_path: str) -> None:
    job = json.loads(Path(job_path).read_text())
    contestant = next(c for c in CONTESTANTS if c.name == job["contestant"])
    X = np.load(job["data"]).astype(contestant.dtype, copy=False)
    row = run(contestant, X, job["s"], job["repeats"], job["limit"])
    Path(job["result"]).write_text(json.dumps(row))


if __name__ == "__main__":
    main(sys.argv[1])
