"""The public names of mklref.kernels and where they live."""

from .approximations import (
    CholeskyStack as CholeskyStack,
    cholesky as cholesky,
    column_groups as column_groups,
    factors as factors,
    gene_sets as gene_sets,
)
from .base import Kernel as Kernel, KernelFamily as KernelFamily, total as total
from .columns import on as on, per_group as per_group, per_variable as per_variable
from .diagnostics import KernelReport as KernelReport, alignment as alignment, diagnose as diagnose
from .factor_stack import FactorStack as FactorStack
from .families import (
    function as function,
    gaussian as gaussian,
    laplacian as laplacian,
    linear as linear,
    matching as matching,
    polynomial as polynomial,
    simplemkl_recipe as simplemkl_recipe,
    spectrum as spectrum,
)
from .fitted import FamilyStack as FamilyStack, FittedFamily as FittedFamily
from .lazy import LazyStack as LazyStack
from .specification import from_specification as from_specification, parse as parse
from .stack import ArrayStack as ArrayStack, KernelStack as KernelStack, stack as stack
from .storage import DiskStack as DiskStack
from .transforms import center as center, normalize as normalize
from .validation import check_psd as check_psd
from .wavelets import wavelet as wavelet
