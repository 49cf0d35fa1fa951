"""The nodes: one lifecycle node a module, and what several of them share."""
