"""The public names of mklref.explore and where they live."""

from .serve import explore as explore
from .state import State as State
