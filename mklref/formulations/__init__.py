"""The formulations of the papers as cvxpy models: one file each, statement and code in one order."""

from __future__ import annotations

from mklref._validate import checked_choice
from mklref.formulations.base import Formulation
from mklref.formulations.block_norm import BlockNormForm
from mklref.formulations.cap import CAP
from mklref.formulations.dual import Dual
from mklref.formulations.elastic_net import ElasticNetForm
from mklref.formulations.generalized_block_norm import GeneralizedBlockNorm
from mklref.formulations.group_lasso import GroupLasso
from mklref.formulations.groups import GroupsForm
from mklref.formulations.hierarchical import Hierarchical
from mklref.formulations.ivanov import IvanovForm
from mklref.formulations.mixed_norm import MixedNorm
from mklref.formulations.multiclass import Multiclass
from mklref.formulations.qcqp import QCQP
from mklref.formulations.sdp import SDP
from mklref.formulations.semi_infinite import SemiInfinite
from mklref.formulations.silp import SILP
from mklref.formulations.sup_block_norm import SupBlockNorm
from mklref.formulations.tikhonov import TikhonovForm
from mklref.formulations.weighted_primal import WeightedPrimal

FORMULATIONS: dict[str, Formulation] = {
    formulation.name: formulation
    for formulation in (
        Dual(),
        MixedNorm(),
        WeightedPrimal(),
        QCQP(),
        SILP(),
        SemiInfinite(),
        BlockNormForm(),
        SupBlockNorm(),
        GeneralizedBlockNorm(),
        IvanovForm(),
        TikhonovForm(),
        ElasticNetForm(),
        GroupsForm(),
        CAP(),
        Hierarchical(),
        GroupLasso(),
        Multiclass(),
        SDP(),
    )
}
"""Every formulation by its name."""


def as_formulation(name: str) -> Formulation:
    """The formulation of that name; `InvalidParameter`, which lists the known ones, for another."""
    return FORMULATIONS[checked_choice("formulation", name, FORMULATIONS)]


__all__ = ["FORMULATIONS", "Formulation", "as_formulation"]
