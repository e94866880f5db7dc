"""Estimators with the interface of scikit-learn, on the native solver; every fit carries its certificate.

    MKLClassifier   two classes, or several with common weights (SimpleMKL 4.2) or with weights for each class
    MKLRegressor    support vector regression, least squares, ... (SimpleMKL 4.1)
    MKLOneClass     outlier detection (SimpleMKL 4.1)
    MKLClassifierCV, MKLRegressorCV     the same with C and the norm chosen by cross-validation

    joined, from_annotated          blocks of variables, such as modalities, as one table
    table_pipeline, TableEncoder    data frames as they are: mixed columns, missing cells, texts, dates

This package is imported when one of them is first asked for, and imports scikit-learn.
"""

from mklref.estimators.blocks import from_annotated, joined
from mklref.estimators.classifier import MKLClassifier
from mklref.estimators.one_class import MKLOneClass
from mklref.estimators.regressor import MKLRegressor
from mklref.estimators.search import MKLClassifierCV, MKLRegressorCV
from mklref.estimators.table import TableEncoder, table_pipeline

__all__ = [
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLOneClass",
    "MKLRegressor",
    "MKLRegressorCV",
    "TableEncoder",
    "from_annotated",
    "joined",
    "table_pipeline",
]
