"""An operator's mind of your own, in one file: an ACT-R model whose productions say when it looks where, and when it moves.

    pip install pyactr                                       (it comes with nothing of ours)
    export LFDM_PLUGINS=examples/actr_operator.py
    lfdm drive nato_lane_change --driver operator --set cognition=actr

Three productions take turns, 50 ms each, as in the control cycle of Salvucci 2006 (Human Factors 48(2)): look at the near point, look at
the far point, move hands and foot. So it steers by what it saw up to 150 ms ago, where `two_point` does all of it in one cycle. Whatever
else your model does (retrievals, a second task with a goal of its own) takes its time from the same row.
"""

import pyactr

from lfdm_ros.teleop import OperatorDecision, OperatorKind, register_operator
from lfdm_ros.teleop.salvucci import TwoPoint

STEPS = {"attend_near": ("near", "far"), "attend_far": ("far", "move"), "move": ("move", "near")}  # production: step it is for, step after
RULE = "=g>\nisa drive\nstep {}\n==>\n=g>\nisa drive\nstep {}"
FIRED = "RULE FIRED: "


class ActrDriver:
    def __init__(self, vehicle, settings, person, random):
        p = vehicle.parameters
        self._law = TwoPoint(settings, person, p["cg_to_front_axle"] + p["cg_to_rear_axle"], p["max_road_wheel_angle"])
        self.reset()

    def reset(self):
        self._law.reset()
        pyactr.chunktype("drive", "step")
        model = pyactr.ACTRModel()
        model.goal.add(pyactr.makechunk(nameofchunk="begin", typename="drive", step="near"))
        for name, steps in STEPS.items():
            model.productionstring(name=name, string=RULE.format(*steps))
        self._mind = model.simulation(realtime=False, trace=False, gui=False)
        self._begun = self._moved = None
        self._seen, self._decision, self.fired = {}, OperatorDecision(0.0, 0.0), []

    def act(self, percept):
        if self._begun is None:
            self._begun = self._moved = percept.time - percept.elapsed
        while self._mind.show_time() < percept.time - self._begun - 1e-6:
            self._mind.step()
            action = str(self._mind.current_event.action)
            if action.startswith(FIRED):
                self._do(action.removeprefix(FIRED), percept)
        return self._decision

    def _do(self, production, percept):
        self.fired.append(production)
        if production == "attend_near":
            self._seen["near"] = percept.near_angle
        elif production == "attend_far":
            self._seen["far"] = percept.far_angle
        else:
            elapsed, self._moved = percept.time - self._moved, percept.time
            self._decision = OperatorDecision(self._law.steer(self._seen["far"], self._seen["near"], elapsed),
                                      self._law.press(percept.speed, percept.target_speed, percept.headway, elapsed))


register_operator(OperatorKind("actr", "productions of ACT-R by pyactr: look near, look far, move", ActrDriver))
