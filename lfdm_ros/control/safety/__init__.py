"""Safety: the stop along each plan, its evaluation, the guard."""
