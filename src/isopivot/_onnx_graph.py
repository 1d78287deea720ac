"""Writing an ONNX graph down, operator by operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

OPSET, IR_VERSION = 18, 8  # read by onnxruntime 1.14 and every later one

Output = tuple[str, np.dtype[Any], list[int]]  # name, type, shape after the free n


class Graph:
    """A graph in the making: calling it adds an operator and returns the name of its result."""

    def __init__(self, dtype: str) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)  # of X and of the results
        self._onnx = _package()
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: dict[np.dtype[Any], str] = {self.dtype: "X"}

    def __call__(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        name = name or f"{operator.lower()}_{len(self._nodes)}"
        node = self._onnx.helper.make_node(operator, inputs, [name], name=name, **attributes)
        self._nodes.append(node)
        return name

    def constant(self, values: npt.ArrayLike) -> str:
        """Return the name of fixed values."""
        name = f"constant_{len(self._constants)}"
        # Rows in a slice of a larger matrix must become rows of their own.
        array = np.array(values, order="C")
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def integers(self, values: int | list[int]) -> str:
        """Return the name of fixed whole numbers: axes, shapes, labels."""
        return self.constant(np.array(values, dtype=np.int64))

    def code(self, dtype: npt.DTypeLike) -> int:
        """Return the number that ONNX gives to a type; objects are strings."""
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def input_as(self, dtype: np.dtype[Any]) -> str:
        """Return the input in the given type, cast once."""
        if dtype not in self._inputs:
            self._inputs[dtype] = self("Cast", "X", to=self.code(dtype))
        return self._inputs[dtype]

    def zeros(self, columns: int, dtype: np.dtype[Any]) -> str:
        """Return a matrix of zeros with as many rows as the input."""
        n = self("Shape", "X", start=0, end=1)
        shape = self("Concat", n, self.integers([columns]), axis=0)
        value = self._onnx.numpy_helper.from_array(np.zeros(1, dtype=dtype))
        return self("ConstantOfShape", shape, value=value)

    def times_power_of_two(self, values: str, exponent: int) -> str:
        """Return float64 values times 2**exponent; in two factors, each of them a float."""
        if exponent == 0:
            return values
        for part in (exponent // 2, exponent - exponent // 2):
            values = self("Mul", values, self.constant(np.float64(2.0**part)))
        return values

    def running_sum(self, total: str, parts: tuple[str, str], term: str, width: int) -> str:
        """Return `total` plus the sum of |a - b| (`Abs`) or (a - b)^2 (`Square`) over slices.

        One pair of slices of `parts` after the other, along their first axis.
        """
        body = Graph(str(self.dtype))
        # Names of their own: what is inside a graph may not repeat a name outside of it.
        body("Sub", "left", "right", name="difference")
        if term == "Abs":
            body("Abs", "difference", name="size")
        else:
            body("Mul", "difference", "difference", name="size")
        body("Add", "total", "size", name="sum")
        shapes: dict[str, list[Any]] = {
            "total": ["n", width],
            "left": ["n", 1],
            "right": [width],
            "sum": ["n", width],
        }
        *entries, result = (
            self._value(name, np.dtype(np.float64), shape) for name, shape in shapes.items()
        )
        step = body._proto("slice", entries, [result])
        return self("Scan", total, *parts, body=step, num_scan_inputs=2)

    def finished(
        self, outputs: list[Output], n_features: int, properties: dict[str, str]
    ) -> ModelProto:
        """Return the checked model."""
        from isopivot import __version__

        onnx = self._onnx
        graph = self._proto(
            "isopivot",
            [self._value("X", self.dtype, ["n", n_features])],
            [self._value(name, dtype, ["n", *shape]) for name, dtype, shape in outputs],
        )
        model: ModelProto = onnx.helper.make_model(
            graph,
            opset_imports=[onnx.helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="isopivot",
            producer_version=__version__,
        )
        onnx.helper.set_model_props(model, properties)
        onnx.checker.check_model(model, full_check=True)
        return model

    def _proto(self, name: str, inputs: list[Any], outputs: list[Any]) -> GraphProto:
        graph: GraphProto = self._onnx.helper.make_graph(
            self._nodes, name, inputs, outputs, initializer=self._constants
        )
        return graph

    def _value(self, name: str, dtype: np.dtype[Any], shape: list[Any]) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self.code(dtype), shape)


def _package() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise ImportError("exporting a model needs the package onnx; pip install onnx") from error
    return onnx
