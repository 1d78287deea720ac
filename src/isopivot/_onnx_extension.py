"""Placing new points, as `_extension` does, written in the operators of ONNX.

Rows are scaled by powers of two, residuals are explicit vectors, triangular systems are
solved block by block (ONNX has no triangular solve). Legend: Y the measured rows, P the
dictionary, Q an orthonormal basis as rows, T the triangle with T f = k(x, P), F coordinates.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy import sparse

from isopivot._arrays import Vector, safe_norm, times_power_of_two, to_numpy
from isopivot._extension import KernelSubstitution, Projection, Substitution
from isopivot._onnx_graph import Graph
from isopivot.kernels import _CLOSE, InnerKernel, RadialKernel, norms2_of

BLOCK = 64  # rows of the triangle that are solved by one inverse
_FAR = 1e140  # beyond this every radial kernel is 0, and squares must not overflow
_FLOAT64 = np.dtype(np.float64)

Extension = Projection | Substitution | KernelSubstitution


def placed(graph: Graph, extension: Extension) -> tuple[str, str, np.dtype[Any]]:
    """Return names of coordinates (n, s) and rates (n,), and the type of both.

    As in Python, that is the type of the data with a basis, float64 from inner products.
    """
    if isinstance(extension, KernelSubstitution):
        return *_kernel_parts(graph, extension), _FLOAT64
    dtype = graph.dtype if isinstance(extension, Projection) else _FLOAT64
    return *_projected(graph, extension, dtype), dtype


# -- with a basis -------------------------------------------------------------------------


def _orthonormal(
    extension: Projection | Substitution, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """Return the basis of a linear estimator and what is subtracted before.

    A triangle from inner products has lost half of the digits, and so have the rows that
    `Substitution.basis` solves for: they are not orthonormal. Those of a QR are, and span
    the same space with the same orientation.
    """
    mean = None if extension.mean is None else to_numpy(extension.mean).astype(dtype)
    if isinstance(extension, Projection):
        return to_numpy(extension.basis).astype(dtype), mean
    P = extension.dictionary.toarray().astype(np.float64)
    if mean is not None:
        P -= times_power_of_two(mean, -extension.exponent)
    Q, R = np.linalg.qr(P.T)
    return Q.T * np.where(np.diagonal(R) < 0, -1.0, 1.0)[:, None], mean


def _projected(
    graph: Graph, extension: Projection | Substitution, dtype: np.dtype[Any]
) -> tuple[str, str]:
    """Return coordinates Y Q' and rates |Y - (Y Q') Q|."""
    Q, mean = _orthonormal(extension, dtype)
    X = graph.input_as(dtype)
    down, up = _row_scales(graph, X, mean, dtype)
    shrunk = Y = graph("Mul", X, down)
    if mean is not None:
        Y = graph("Sub", shrunk, graph("Mul", graph.constant(mean), down))
    if len(Q):
        basis = graph.constant(Q)
        F = graph("Gemm", Y, basis, transB=1)
        E = graph("Sub", Y, graph("Gemm", F, basis))
        F = graph("Mul", F, up)
    else:
        F, E = graph.zeros(0, dtype), Y
    size = _lengths(graph, shrunk)
    if mean is not None and isinstance(extension, Projection):
        offset = graph.constant(np.array(safe_norm(mean), dtype=dtype))
        size = graph("Add", size, graph("Mul", offset, down))
    lengths = _without_noise(graph, _lengths(graph, E), size, np.array(extension.noise, dtype))
    return F, graph("Reshape", graph("Mul", lengths, up), graph.integers([-1]))


def _lengths(graph: Graph, rows: str) -> str:
    return graph("Sqrt", graph("ReduceSumSquare", rows, graph.integers([1]), keepdims=1))


def _without_noise(graph: Graph, values: str, size: str, noise: npt.NDArray[Any]) -> str:
    """Return the values, 0 where they are rounding alone: below `noise` times the size."""
    # Not LessOrEqual: an infinite length is no rounding of an infinite size.
    rounding = graph("Less", values, graph("Mul", size, graph.constant(noise)))
    return graph("Where", rounding, graph.constant(np.zeros_like(noise)), values)


def _row_scales(
    graph: Graph, X: str, mean: npt.NDArray[Any] | None, dtype: np.dtype[Any]
) -> tuple[str, str]:
    """Return the power of two that makes each row safe to square, and its reciprocal.

    Multiplying by it is exact; for ordinary rows it is 1.
    """
    # Within half a step of an exponent of 0, squares stay in the range of the format.
    step, levels = (50, 2) if dtype == np.float32 else (600, 1)
    centers = step * np.arange(-levels, levels + 1)
    edges = np.ldexp(1.0, centers[:-1] + step // 2).astype(dtype)
    largest = graph("ReduceMax", graph("Abs", X), graph.integers([1]), keepdims=1)
    if mean is not None:
        largest = graph("Max", largest, graph.constant(np.abs(mean).max()))
    above = graph("Cast", graph("Greater", largest, graph.constant(edges)), to=graph.code(np.int64))
    level = graph("ReduceSum", above, graph.integers([1]), keepdims=1)
    down, up = (
        graph("Gather", graph.constant(np.ldexp(1.0, sign * centers).astype(dtype)), level)
        for sign in (-1, 1)
    )
    return down, up


# -- kernels ------------------------------------------------------------------------------


def _kernel_parts(graph: Graph, extension: KernelSubstitution) -> tuple[str, str]:
    """Return coordinates and rates as `KernelSubstitution` does, all of it in float64."""
    values: Any = extension.values
    radial = isinstance(values.kernel, RadialKernel)
    Y = _framed(graph, values.frame, radial)
    k_xx = _ones(graph) if radial else graph("ReduceSumSquare", Y, graph.integers([1]), keepdims=0)
    if len(extension.T):
        P = values.dictionary
        P = P.toarray() if sparse.issparse(P) else P
        K = _kernel_matrix(graph, values.kernel, Y, P)
        F = _forward_substitution(graph, extension.T, K)
    else:
        F = graph.zeros(0, _FLOAT64)
    captured2 = graph("ReduceSumSquare", F, graph.integers([1]), keepdims=0)
    missed2 = graph("Sub", k_xx, captured2)
    noise2 = np.array(extension.noise2)
    rates = graph("Sqrt", _without_noise(graph, missed2, k_xx, noise2))
    e = extension.exponent
    return graph.times_power_of_two(F, e), graph.times_power_of_two(rates, e)


def _ones(graph: Graph) -> str:
    """Return 1 for every row; NaN for rows that are not finite, which no kernel tells apart."""
    X = graph.input_as(_FLOAT64)
    zeros = graph("ReduceSum", graph("Sub", X, X), graph.integers([1]), keepdims=0)
    return graph("Add", zeros, graph.constant(np.ones(1)))


def _framed(graph: Graph, frame: Any, radial: bool) -> str:
    """Return the rows of X as the kernel measures them."""
    Y = graph.times_power_of_two(graph.input_as(_FLOAT64), -frame.exponent)
    if frame.mean is not None:
        Y = graph("Sub", Y, graph.constant(times_power_of_two(frame.mean, -frame.exponent)))
    if not radial:
        return Y
    return graph("Clip", Y, *(graph.constant(np.float64(sign * _FAR)) for sign in (-1, 1)))


def _kernel_matrix(graph: Graph, kernel: RadialKernel | InnerKernel, Y: str, P: Vector) -> str:
    """Return k(x, p) for all rows and members, (n, s)."""
    if isinstance(kernel, InnerKernel):
        return graph("Gemm", Y, graph.constant(P), transB=1)
    if kernel.name == "laplacian":
        d = _summed_over_features(graph, Y, P, "Abs")
        scale = -np.sqrt(kernel.epsilon)
    else:
        d = _squared_distances(graph, Y, P, kernel.epsilon)
        scale = -kernel.epsilon
    return graph("Exp", graph("Div", d, graph.constant(np.float64(scale))))


def _squared_distances(graph: Graph, Y: str, P: Vector, epsilon: float) -> str:
    """Return squared distances by inner products; by differences where those lose too much."""
    norms2 = norms2_of(P)
    if 2.0 * norms2.max() > _CLOSE * epsilon:
        return _summed_over_features(graph, Y, P, "Square")
    d2 = graph("Gemm", Y, graph.constant(-2.0 * P), graph.constant(norms2), transB=1)
    d2 = graph("Add", d2, graph("ReduceSumSquare", Y, graph.integers([1]), keepdims=1))
    # Not Max, which may answer 0 for NaN: such a row would pass as a training point.
    zero = graph.constant(np.float64(0.0))
    return graph("Where", graph("Less", d2, zero), zero, d2)


def _summed_over_features(graph: Graph, Y: str, P: Vector, term: str) -> str:
    """Return the sums of |x_j - p_j| or its square over the features j.

    One feature at a time: memory is two matrices of (n, s), never (n, s, m).
    """
    columns = graph("Unsqueeze", graph("Transpose", Y, perm=[1, 0]), graph.integers([2]))
    members = graph.constant(P.T)
    total = graph.zeros(len(P), _FLOAT64)
    return graph.running_sum(total, (columns, members), term, len(P))


def _forward_substitution(graph: Graph, T: Vector, U: str) -> str:
    """Return F with F T' = U, block of columns by block of columns."""
    solved = ""
    for start in range(0, len(T), BLOCK):
        stop = min(start + BLOCK, len(T))
        bounds = (graph.integers([start]), graph.integers([stop]), graph.integers([1]))
        right = graph("Slice", U, *bounds)
        if solved:
            rows = graph.constant(T[start:stop, :start])
            right = graph("Sub", right, graph("Gemm", solved, rows, transB=1))
        F = _solved_block(graph, T[start:stop, start:stop], right)
        solved = graph("Concat", solved, F, axis=1) if solved else F
    return solved


def _solved_block(graph: Graph, T: Vector, right: str) -> str:
    """Return F with F T' = right: by the inverse, then again for what is left over.

    Without the second the error would grow with the condition of T, unlike Python's.
    """
    V = scipy.linalg.solve_triangular(T, np.eye(len(T)), lower=True)
    inverse, triangle = graph.constant(V), graph.constant(T)
    F = graph("Gemm", right, inverse, transB=1)
    for _ in range(_corrections(T, V)):
        left_over = graph("Sub", right, graph("Gemm", F, triangle, transB=1))
        F = graph("Add", F, graph("Gemm", left_over, inverse, transB=1))
    return F


def _corrections(T: Vector, V: Vector) -> int:
    """Return how often the inverse V must be applied again until only rounding is left.

    Each time leaves at most `rest` of what was left before (the rounding of T V r).
    """
    eps = float(np.finfo(np.float64).eps)
    rest = len(T) * eps * float((np.abs(T) @ np.abs(V)).sum(axis=1).max())
    if not rest <= 0.01:
        raise ValueError(
            "got a dictionary whose members are so close to dependent that inverses lose "
            f"{rest:.2g} of a coordinate; allowed is 0.01; keep fewer members with truncate or "
            "a larger mu"
        )
    return max(1, math.ceil(math.log(eps) / math.log(rest)) - 1)
