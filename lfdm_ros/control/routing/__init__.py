"""Routes: the lattice, goals, routes back to a path, reversing."""
