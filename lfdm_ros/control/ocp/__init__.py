"""The optimal control problem: its terms and stages, the quadratic program, the planner that solves it each cycle."""
