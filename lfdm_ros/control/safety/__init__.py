"""Safety: the stop that goes with each plan, its judgement, the guard."""
