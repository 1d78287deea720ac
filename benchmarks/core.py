"""isopivot's linear core against LAPACK, SciPy and scikit-learn at equal s.

    python benchmarks/core.py            all cases, some tens of minutes on two cores
    python benchmarks/core.py --quick    a small case in seconds: does everything still run?

Prints a Markdown table per case and writes `core.json` and `core.md` into `benchmarks/results`.

Each contestant runs in a fresh process (see `worker.py`), one after the other, on data saved once
per case. No number of BLAS threads is set: everybody gets the default. Times are to be read as the
ratios within one run; compare seconds between machines, or between runs, at your own risk.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import measure
from cases import FULL, QUICK, Case, data
from contestants import BASELINE, CONTESTANTS, FLOOR, Contestant

HERE = Path(__file__).parent
BUSY = 10.0  # percent of the processors taken by other programs, above which a row is marked
COLUMNS = (
    "contestant",
    "median s",
    "min-max s",
    "repeats",
    "time / GEMM",
    "time / dgeqp3rk",
    "memory %, buffers",
    "memory %, resident",
    "s",
    "pivots of dgeqp3rk",
    "passes",
    "actual distortion",
    "certified bound",
)
NOTES = """\
- GEMM: the bare product of X with an m x s matrix, which every method that delivers an embedding
  contains. (NumPy) and (SciPy) say whose OpenBLAS runs; ratios are to GEMM (NumPy) and
  dgeqp3rk (SciPy).
- Memory: peak beyond X and beyond the embedding, basis, dictionary and residuals kept, in percent
  of X. Buffers: NumPy's and Python's allocations. Resident: what the kernel saw, OpenBLAS's own
  buffers included, to within some MB. dgeqp3rk overwrites its input: its copy of X counts.
- dgeqp3rk as shipped works with block size 1, because of a slip in LAPACK's `ilaenv`; the blocked
  row calls its blocked kernel directly (see `lapack.py`) and is what a mended LAPACK would do.
- dgeqp3rk is timed without that copy, and like qr without unpacking and without forming a basis.
- Actual distortion: the largest |distance - embedded distance|. A value after ">=" is that over
  the 3000 rows with the largest residuals, where all pairs would take minutes.
- Certified bound: "-" where a method promises nothing. dgeqp3rk does report its largest residual,
  from which twice that value follows up to rounding errors that it does not bound.
- ICPQR.fit and PCA subtract the mean; icpqr, dgeqp3rk and qr take the data as they are.
- float32 works on half the bytes: its row is information, its memory percent of the float32 X.
- (!n %): other programs took n % of the processors meanwhile; do not trust that row's times.
- Calls slower than 10 s are repeated at most 3 times; see the column.\
"""


def run_case(case: Case, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The chosen contestants on one case, as plain data."""
    path = folder / f"{case.name}.npy"
    np.save(path, data(case))
    job = {
        "data": str(path),
        "s": case.s,
        "repeats": options.repeats,
        "at_least": 0.0 if options.quick else 3.0,  # seconds
        "limit": options.limit,
        "all_pairs_rows": options.all_pairs_rows,
        "result": str(folder / "result.json"),
    }
    rows = {}
    for contestant in chosen(options.only):
        name, most = contestant.name, contestant.most_features
        print(f"  {case.name}: {name}", file=sys.stderr, flush=True)
        if most is not None and case.m > most:
            rows[name] = {"skipped": f"skipped: needs a {case.m} x {case.m} matrix"}
        else:
            rows[name] = run_contestant(job | {"contestant": name}, folder / "job.json")
    path.unlink()
    _compare(rows)
    return {"case": asdict(case), "rows": rows}


def chosen(part: str) -> list[Contestant]:
    """The contestants with this in their name, and the two that the ratios need."""
    return [c for c in CONTESTANTS if part in c.name or c.name in (FLOOR, BASELINE)]


def run_contestant(job: dict[str, Any], path: Path) -> dict[str, Any]:
    """What `worker.run` returns, or {"skipped": why} or {"failed": why}."""
    path.write_text(json.dumps(job))
    command = [sys.executable, str(HERE / "worker.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == -signal.SIGALRM:
        return {"skipped": f"skipped: one call takes over {job['limit']:g} s"}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"failed": f"exit status {done.returncode}: {last}"}
    return json.loads(Path(job["result"]).read_text())


def _compare(rows: dict[str, Any]) -> None:
    """Add the ratios, and whether the pivots are LAPACK's; pivots themselves are not kept."""
    floor = rows[FLOOR].get("time", {}).get("median_s")
    baseline = rows[BASELINE].get("time", {}).get("median_s")
    reference = rows[BASELINE].get("pivots")
    for row in rows.values():
        if "time" not in row:
            continue
        median = row["time"]["median_s"]
        row["time_to_gemm"] = median / floor if floor else None
        row["time_to_dgeqp3rk"] = median / baseline if baseline else None
        row["pivots_agree"] = _first_difference(row["pivots"], reference)
    for row in rows.values():
        row.pop("pivots", None)


def _first_difference(pivots: list[int] | None, reference: list[int] | None) -> dict | None:
    """Where two dictionaries part: {"equal", "leading" equal pivots, "common" as sets}."""
    if pivots is None or reference is None:
        return None
    same = [a == b for a, b in zip(pivots, reference, strict=False)]
    return {
        "equal": pivots == reference,
        "leading": same.index(False) if False in same else len(same),
        "common": len(set(pivots) & set(reference)),
    }


def table(result: dict[str, Any]) -> str:
    """One case as Markdown."""
    case = result["case"]
    title = f"### {case['name']}: {case['n']} x {case['m']}, s = {case['s']}, {case['kind']}"
    lines = [title, "", _line(COLUMNS), _line(["---"] + ["---:"] * (len(COLUMNS) - 1))]
    lines += [_line(_cells(name, row)) for name, row in result["rows"].items()]
    return "\n".join(lines)


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(name: str, row: dict[str, Any]) -> list[str]:
    if "time" not in row:
        return [name, row.get("skipped") or row["failed"], *[""] * (len(COLUMNS) - 2)]
    time, memory = row["time"], row["extra_memory_percent"]
    return [
        name,
        f"{time['median_s']:.3g}{_busy(time['others_cpu_percent'])}",
        f"{time['min_s']:.3g}-{time['max_s']:.3g}",
        str(time["repeats"]),
        _number(row["time_to_gemm"], ".2f"),
        _number(row["time_to_dgeqp3rk"], ".2f"),
        _number(memory["buffers"], ".1f"),
        _number(memory["resident"], ".1f"),
        str(row["s"]),
        _agreement(row["pivots_agree"]),
        _number(row["passes"], "g"),
        _distortion(row["actual_distortion"]),
        _number(row["certified_bound"], ".5g"),
    ]


def _busy(percent: float | None) -> str:
    return f" (!{percent:.0f} %)" if percent is not None and percent > BUSY else ""


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _agreement(agree: dict[str, Any] | None) -> str:
    if agree is None:
        return "-"
    return "same" if agree["equal"] else f"first {agree['leading']}, {agree['common']} in common"


def _distortion(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    return f"{'' if found['all_pairs'] else '>= '}{found['value']:.5g}"


def report(surroundings: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """The whole run as Markdown."""
    versions = ", ".join(f"{name} {number}" for name, number in surroundings["versions"].items())
    pools = ", ".join(
        f"{pool['library']} {pool['version']} ({pool['num_threads']} threads)"
        for pool in surroundings["thread_pools"]
    )
    head = [
        f"Python {surroundings['python']}, {versions}.",
        f"{surroundings['cpu']}, {surroundings['cpus_allowed']} of {surroundings['cpu_count']} "
        f"processors, load {surroundings['load_average_at_start']:.1f} at the start.",
        f"BLAS: {pools}.",
    ]
    return "\n\n".join(["  \n".join(head), *map(table, results), NOTES]) + "\n"


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="isopivot against LAPACK and scikit-learn")
    names = [case.name for case in FULL]
    parser.add_argument("--quick", action="store_true", help="one small case, in seconds")
    parser.add_argument("--case", action="append", choices=names, help="only this; repeatable")
    parser.add_argument(
        "--only",
        default="",
        help="contestants with this in their name, and the two that the ratios need",
    )
    parser.add_argument("--repeats", type=int, default=5, help="timed calls (default 5)")
    parser.add_argument("--limit", type=float, default=60.0, help="skip calls over this many s")
    parser.add_argument(
        "--all-pairs-rows",
        type=int,
        default=20_000,
        help="up to this many rows the actual distortion is searched over all pairs "
        "(default 20000: half a minute per contestant)",
    )
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the results")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write. 1 when a contestant failed (a skipped one did not fail)."""
    options = parse(arguments)
    cases = QUICK if options.quick else [c for c in FULL if c.name in (options.case or [c.name])]
    surroundings = measure.surroundings()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            results.append(run_case(case, options, Path(folder)))
            # After every case, so that an interrupted run leaves what it measured.
            _write(options.out, surroundings, results)
    print(report(surroundings, results))
    return int(any("failed" in row for result in results for row in result["rows"].values()))


def _write(out: Path, surroundings: dict[str, Any], results: list[dict[str, Any]]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    everything = {"surroundings": surroundings, "cases": results}
    (out / "core.json").write_text(json.dumps(everything, indent=2) + "\n")
    (out / "core.md").write_text(report(surroundings, results))


if __name__ == "__main__":
    sys.exit(main())
