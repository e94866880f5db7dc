"""Problems and solutions as files, for solvers in any language.

A record is a flat table of named numbers, texts and arrays; `schema` says which names there are, and each format
(NPZ, MAT, HDF5, JSON with CSV) writes and reads the same record.
"""

from mklref.testing.vectors.check import check_directory
from mklref.testing.vectors.export import export_vectors
from mklref.testing.vectors.formats import read_answer, read_problem, read_record, write_record
from mklref.testing.vectors.schema import answer_from_record, problem_from_record, record_of_problem

__all__ = [
    "answer_from_record",
    "check_directory",
    "export_vectors",
    "problem_from_record",
    "read_answer",
    "read_problem",
    "read_record",
    "record_of_problem",
    "write_record",
]
