"""Seeded damage to all inputs of the package, and its outcomes.

`trees` and `messages` are pure functions of bytes, documents or types and a seed; `bags` damages recordings with them, `drive` writes a
recording with all topics, `trial` runs a case in a process of its own and classifies its outcome.
"""

from lfdm_lab.fuzzing.bags import Damage, damage_bag, good_bag
from lfdm_lab.fuzzing.drive import RECIPE, drive_bag
from lfdm_lab.fuzzing.messages import hostile_base, hostile_cdr, hostile_values
from lfdm_lab.fuzzing.trees import corrupt, damaged_json, damaged_yaml, hostile_text
from lfdm_lab.fuzzing.trial import ANSWER, HANG, LOST, OUTCOMES, REFUSED, TRACEBACK, Case, CaseResult, Tally, attempt, run_cases

__all__ = [
    "ANSWER", "HANG", "LOST", "OUTCOMES", "RECIPE", "REFUSED", "TRACEBACK", "Case", "CaseResult", "Damage", "Tally", "attempt", "corrupt",
    "damage_bag", "damaged_json", "damaged_yaml", "drive_bag", "good_bag", "hostile_base", "hostile_cdr", "hostile_text", "hostile_values",
    "run_cases"
]
