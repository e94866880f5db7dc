"""How good a model is on samples that it has not seen, and how much of it is chance.

evaluate     error, confusion matrix, balanced accuracy and AUC with intervals, beside those of the best constant
stability    how often a kernel is chosen, and with which weight, on resampled rows
"""

from mklref.model_selection.evaluation import Evaluation, Measure, evaluate
from mklref.model_selection.resampling import Stability, stability

__all__ = ["Evaluation", "Measure", "Stability", "evaluate", "stability"]
