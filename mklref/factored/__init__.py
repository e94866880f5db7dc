"""The solver for kernels as factors, K_m = L_m L_m': an interior point method whose cost is linear in the samples.

samples.py    dual variables and multipliers, sample by sample: on a box in boxes.py
weights.py    psi of the regulariser
shard.py      rows of L with their samples: three or four reads in a step
nearby.py     those of the rows that matter
rounds.py     a method of every shard, and the sum of the answers
holder.py     a shard on a worker of Dask
cluster.py    shards on workers, and what happens when one is lost
remote.py     the stack whose rows are there
tiles.py      products of lazy kernels there
system.py     the Newton system of order r + M + 2
approach.py   the way to the neighbourhood of the solution, on a rounder loss, and the last digits
bounds.py     what a point says of the optimum
step.py       predictor and corrector
path.py       steps, which rows they read, when it is done
solver.py     the door: starts, options, the certificate
interval.py   what a solution says of the kernels that the factors approximate
"""

from mklref.factored.interval import exact_interval
from mklref.factored.remote import DistributedStack, local_client
from mklref.factored.solver import solve_factored
from mklref.factored.tiles import DistributedLazyStack

__all__ = ["DistributedLazyStack", "DistributedStack", "exact_interval", "local_client", "solve_factored"]
