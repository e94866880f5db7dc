"""What conic solvers need and no statement shows: factors, scaling, cones, polishing, and a model that is reused."""

SOLVERS = ("CLARABEL", "ECOS")
"""The solvers that a cross-check asks by default. SCS takes ten times as long to certify half as many digits."""

FORMULATIONS = ("qcqp", "dual", "weighted_primal", "mixed_norm")
"""The formulations that it solves by default, where they apply: dual and primal, with and without weights.

Both stand here, where importing them imports nothing else: the options of the command line name them.
"""
