"""The solver for kernels as factors, K_m = L_m L_m': an interior point method whose cost is linear in the samples.

samples.py    dual variables and multipliers, sample by sample
weights.py    psi of the regulariser
shard.py      rows of L with their samples: three or four reads in a step
rounds.py     a method of every shard, and the sum of the answers
system.py     the Newton system of order r + M + 2
path.py       steps, bounds, when it is done
solver.py     the door: starts, options, the certificate
interval.py   what a solution says of the kernels that the factors approximate
"""

from mklref.factored.interval import exact_interval
from mklref.factored.solver import solve_factored

__all__ = ["exact_interval", "solve_factored"]
