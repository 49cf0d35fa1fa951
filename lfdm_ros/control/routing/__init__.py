"""Routes: reference paths, the lattice, goals, the path back to a task, backing."""
