"""Routes: reference paths, the lattice, goals, routes back to a path, reversing."""
