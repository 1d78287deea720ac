"""Tables in files: read them, prepare them for the estimators, write them."""

from isopivot.data._options import PreparationOptions
from isopivot.data._table import FileError, Table
from isopivot.data.files import FORMATS, read_table, write_table
from isopivot.data.preparation import Preparation, Prepared

__all__ = [
    "FORMATS",
    "FileError",
    "Preparation",
    "PreparationOptions",
    "Prepared",
    "Table",
    "read_table",
    "write_table",
]
