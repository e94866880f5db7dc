"""What conic solvers need and no statement shows: factors, scaling, cones, polishing, and a model that is reused."""
