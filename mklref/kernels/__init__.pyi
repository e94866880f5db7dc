"""The public names of mklref.kernels and where they live."""

from .columns import on as on
from .columns import per_group as per_group
from .diagnostics import KernelReport as KernelReport
from .diagnostics import alignment as alignment
from .diagnostics import diagnose as diagnose
from .families import (
    KernelFamily as KernelFamily,
)
from .families import (
    function as function,
)
from .families import (
    gaussian as gaussian,
)
from .families import (
    linear as linear,
)
from .families import (
    per_variable as per_variable,
)
from .families import (
    polynomial as polynomial,
)
from .fitted import FamilyStack as FamilyStack
from .fitted import FittedFamily as FittedFamily
from .recipes import simplemkl_recipe as simplemkl_recipe
from .specification import from_specification as from_specification
from .specification import parse as parse
from .stack import ArrayStack as ArrayStack
from .stack import KernelStack as KernelStack
from .stack import stack as stack
from .strings import spectrum as spectrum
from .transforms import center as center
from .transforms import normalize as normalize
from .validation import check_psd as check_psd
from .wavelets import wavelet as wavelet
