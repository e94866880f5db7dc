from __future__ import annotations

import numpy as np
import pytest
from regularizers.laws import LAWS

from mklref.regularizers import Fixed, Lp

M = 4
INSTANCES = [
    *(Lp(p) for p in (1, 1.05, 4 / 3, 2, 3.7, 20, np.inf)),
    Fixed([0.3, 1.2, 0.05, 2.0]),
    Fixed([1.0, 0.0, 0.4, 0.7]),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("regularizer", INSTANCES, ids=lambda regularizer: f"{regularizer}")
def test_laws(regularizer, law):
    law(regularizer, M)
