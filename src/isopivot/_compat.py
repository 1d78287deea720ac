"""scikit-learn across versions: what moved, and what an older version does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils._array_api import get_namespace
from sklearn.utils.validation import validate_data

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # scikit-learn < 1.9
    HAS_CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks yet."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        return method


__all__ = [
    "HAS_CALLBACKS",
    "CallbackSupportMixin",
    "FitTask",
    "get_namespace",
    "validate_data",
    "with_callbacks",
]


class FitTask:
    """A fit reported through scikit-learn's callbacks: one subtask per panel.

    Does nothing where the installed scikit-learn has no callbacks.
    """

    def __init__(self, estimator: Any, X: Any) -> None:
        self._estimator, self._X = estimator, X
        self._context: Any = None
        if HAS_CALLBACKS:
            self._context = estimator._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(estimator=estimator, X=X)

    def step(self, done: int, most: int) -> bool:
        """Report a panel; return True when a callback asks to stop."""
        if self._context is None:
            return False
        panel = self._context.subcontext(task_name="panel")
        panel.call_on_fit_task_begin(estimator=self._estimator, X=self._X)
        return bool(panel.call_on_fit_task_end(estimator=self._estimator, X=self._X))

    def end(self) -> None:
        """Report the end of the fit."""
        if self._context is not None:
            self._context.call_on_fit_task_end(
                estimator=self._estimator, X=self._X, reconstruction_attributes={}
            )
