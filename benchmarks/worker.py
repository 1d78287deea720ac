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

SAMPLE_ROWS = 3_000


def run(contestant: Contestant, X: np.ndarray, job: dict[str, Any]) -> dict[str, Any]:
    """Memory (first call), then time, then quality."""
    s = job["s"]

    def prepare() -> Any:
        return contestant.prepare(X, s)

    _load_libraries(contestant)
    result, memory = measure.call_measured(lambda: contestant.call(prepare(), s), job["limit"])
    kept = measure.total_bytes(contestant.kept(result))
    time = measure.clock(
        prepare, lambda argument: contestant.call(argument, s), job["repeats"], job["at_least"]
    )
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
        "actual_distortion": distortion(X, outcome, job["all_pairs_rows"]),
    }


def _load_libraries(contestant: Contestant) -> None:
    """Import what the contestant imports and start its threads, so that neither is measured."""
    small = np.random.default_rng(0).standard_normal((64, 32)).astype(contestant.dtype)
    contestant.call(contestant.prepare(small, 4), 4)


def distortion(X: np.ndarray, outcome: Outcome, all_pairs_rows: int) -> dict | None:
    """The largest change of a distance, over all pairs or over the rows that changed most.

    With more than `all_pairs_rows` rows only those with the largest residuals are searched: the
    largest of a part never exceeds that of the whole, so the value is then a lower estimate. The
    search itself is not told the residuals: an audit should not lean on what it audits.
    """
    if outcome.embedding is None:
        return None
    from isopivot import actual_distortion

    rows = slice(None)
    if len(X) > all_pairs_rows:
        rows = np.argsort(outcome.residuals)[-SAMPLE_ROWS:]
    part = X[rows]
    value = actual_distortion(part, outcome.embedding[rows])
    return {"value": float(value), "rows": len(part), "all_pairs": len(part) == len(X)}


def main(job_path: str) -> None:
    job = json.loads(Path(job_path).read_text())
    contestant = next(c for c in CONTESTANTS if c.name == job["contestant"])
    X = np.load(job["data"]).astype(contestant.dtype, copy=False)
    row = run(contestant, X, job)
    Path(job["result"]).write_text(json.dumps(row))


if __name__ == "__main__":
    main(sys.argv[1])
