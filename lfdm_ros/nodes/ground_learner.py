"""The ground learner node: estimates the friction of the ground while a vehicle drives, and publishes it as a map."""

from typing import Any

from grid_map_msgs.msg import GridMap
from nav_msgs.msg import Odometry

from lfdm_ros.engine.background import LOWEST, NORMAL, Share
from lfdm_ros.engine.learning_process import Calibrated, Job, LearningProcess, Task
from lfdm_ros.engine.segmenter import WINDOWS, Segmenter
from lfdm_ros.ground.friction_estimator import EstimatorSettings, FrictionEstimator
from lfdm_ros.ground.learned_ground import LEARNER, DriveSegment, GroundPrior
from lfdm_ros.models import model_names
from lfdm_ros.msg import DriverCommand, Posterior, VehicleState
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import ERROR, OK, WARN, Component, Diagnosis, refusing, while_active
from lfdm_ros.ros.endpoints import given, publishes, subscribes
from lfdm_ros.ros.grid_map import friction_message
from lfdm_ros.ros.grounds import FRICTION_MAP, GROUND, GROUND_SEED, ground_of
from lfdm_ros.ros.messages import nanoseconds
from lfdm_ros.ros.parameters import VEHICLE, VEHICLE_CHANGES, Parameter, vehicle_of
from lfdm_ros.ros.plan_messages import draws_of, measured_values
from lfdm_ros.ros.posteriors import calibrated

_LOOK = 0.1  # [s] for news of the child
_WINDOW = EstimatorSettings().window  # [s]
_STRETCH = WINDOWS * _WINDOW  # [s]
_LEARNS = given("learn_ground")


class GroundLearner(Component):
    """A learner of the friction by place, published as `ground/known` (docs/concepts/ground.md), in a process of the lowest priority."""

    NAME = "ground_learner"
    PARAMETERS = (
        VEHICLE, VEHICLE_CHANGES, GROUND, GROUND_SEED,
        Parameter("learn_ground", True, "false: idle; set by stacks without learning"),
        Parameter("state_topic", "vehicle/state", "topic of the lfdm_ros/VehicleState used for the estimate"),
        Parameter("odometry", False, "feel by nav_msgs/Odometry on the topic odom instead; it has no wheel speeds, so that only what rolls "
                                     "freely is felt"),
        Parameter("actuators", True, "commands act through the vehicle's actuators; false: at once and in full, as what was measured at "
                                     "the vehicle does"),
        Parameter("command_timeout", 0.5, "maximum age of the last command for an estimate", 0.01, 60.0, unit="s"),
        Parameter("model", "eight_dof", "chassis of the friction estimator", choices=model_names),
        Parameter("take_posterior", True, "feel by the posterior on the topic posterior, if it is of this vehicle and model"),
        Parameter("publish_period", 1.0, "between two maps, at least", 0.1, 3600.0, unit="s"),
        Parameter("backlog", 120.0, "of the drive that may wait to be learned; of more the oldest is dropped", 1.0, 3600.0, unit="s"),
        Parameter("max_cores", 1, "processor cores that learning may use; 0: all but one", 0, 1024),
        Parameter("priority", LOWEST, "of the process that learns: lowest, SCHED_IDLE and nice 19; normal, as other programs",
                  choices=(LOWEST, NORMAL)),
        *LEARNER.parameters,
    )
    ENDPOINTS = (
        subscribes("vehicle/state", VehicleState, qos.STATE, "the state that friction is estimated from", named_by="state_topic",
                   when=_LEARNS & given("odometry", False)),
        subscribes("odom", Odometry, qos.STATE, "the state that friction is estimated from", when=_LEARNS & given("odometry")),
        subscribes("control/command", DriverCommand, qos.COMMAND, "the vehicle's commands", when=_LEARNS),
        subscribes("posterior", Posterior, qos.LATCHED, "parameters to feel by", when=_LEARNS & given("take_posterior")),
        publishes(FRICTION_MAP, GridMap, qos.LATCHED, "friction by place: its median, mean and deviation of its latent value, samples of "
                  "that; stamped as the state up to which the drive is in it", when=_LEARNS, sole=True),
    )

    def configure(self) -> None:
        value = self.value
        self._vehicle, settings = vehicle_of(self), LEARNER.record(value)
        self._settings, self._prior_ground = settings, GroundPrior.of(settings, ground_of(self))
        self._prior_ground.before(settings, (0.0, 0.0))  # that it can be is known now
        FrictionEstimator(self._vehicle, self._prior_ground.link, self._prior_ground.prior,
                          EstimatorSettings(model=value("model"), noise=settings.noise))
        self._model, self._posterior_version = self._vehicle.spec(value("model")), 0
        self._learning = LearningProcess(
            Task(self._prior_ground, settings, value("model"), value("publish_period")), Calibrated.of(self._vehicle),
            Share(value("max_cores"), value("priority")), max(1, round(value("backlog") / _STRETCH)))
        self._publisher = self.publisher(FRICTION_MAP)
        self.connect({"vehicle/state": self._on_state, "odom": self._on_state, "control/command": self._on_command,
                      "posterior": self._on_posterior})
        if value("learn_ground"):
            self.every(_LOOK, self._look)

    def activate(self) -> None:
        actuators = self._vehicle.actuators if self.value("actuators") else None
        self._segmenter = Segmenter(self.refusals, actuators, self.value("command_timeout"), _WINDOW)
        self._maps = self._states = 0

    def deactivate(self) -> None:
        if self._segmenter.stamp_ns:
            self._hand(self._segmenter.end())

    def cleanup(self) -> None:
        self._learning.close()

    def summary(self) -> dict[str, Any]:
        return {"ground_windows_felt": self._learning.last_update.felt, "ground_windows_kept": self._learning.last_update.stored,
                "ground_stretches_dropped": self._learning.dropped, "ground_maps": self._maps}

    @while_active
    def _on_state(self, message: VehicleState | Odometry) -> None:
        first, self._states = not self._segmenter.stamp_ns, self._states + 1
        self._hand(self._segmenter.state(nanoseconds(message.header.stamp), message.header.frame_id, measured_values(message)))
        if first and self._segmenter.stamp_ns:
            self._publish(self._prior_ground.before(self._settings, self._segmenter.place), self._segmenter.stamp_ns)

    @while_active
    def _on_command(self, message: DriverCommand) -> None:
        inputs = (message.steering, message.throttle, message.brake)
        self._hand(self._segmenter.command(nanoseconds(message.header.stamp), inputs))

    @refusing("posterior")
    def _on_posterior(self, message: Posterior) -> None:
        # Latched and sent once: accepted in the inactive state too.
        vehicle = calibrated(self._vehicle, self._model, message)
        draws = draws_of(message, vehicle)
        self._learning.take(Calibrated.of(vehicle, dict(zip(draws.names, draws.values.T)) if draws is not None else None))
        self._posterior_version = message.posterior_version
        self.get_logger().info(f"estimates friction with {vehicle.name}, posterior {message.posterior_version}")

    def _hand(self, whole: list[DriveSegment]) -> None:
        for stretch in whole:
            self._learning.hand(Job(stretch, self._segmenter.place, self._segmenter.stamp_ns))

    @while_active
    def _look(self) -> None:
        news = self._learning.news()
        if news is not None:
            self._publish(*news)
        if self._learning.failed:
            self.get_logger().error(f"the process that learns has died: {self._learning.failed}", throttle_duration_sec=5.0)

    def _publish(self, friction_map: Any, stamp_ns: int) -> None:
        self._publisher.publish(friction_message(friction_map, self._segmenter.frame, stamp_ns))
        self._maps += 1

    def diagnose(self) -> Diagnosis:
        if self.state != "active" or not self.value("learn_ground"):
            return OK, self.state if self.value("learn_ground") else "does not learn", {}
        learning, update, drive = self._learning, self._learning.last_update, self._segmenter
        behind = learning.waiting * _STRETCH
        values = {"windows_felt": update.felt, "windows_silent": update.silent, "windows_kept": update.stored, "maps": self._maps,
                  "behind": behind, "dropped": learning.dropped * _STRETCH, "posterior_version": self._posterior_version,
                  "stretches_refused": learning.refused, "last_stretch_refused": learning.last_refusal, "restarts": learning.restarts,
                  "frame": drive.frame, **{f"interrupted.{reason}": count for reason, count in drive.interruptions.items()}}
        states, dropped = self.increase("states", self._states), self.increase("dropped", learning.dropped)
        if learning.failed:
            return ERROR, f"the process that learns has died: {learning.failed}", values
        if dropped:
            return WARN, f"{dropped * _STRETCH:g} s of the drive dropped, {behind:g} s behind", values
        if not states:
            return WARN, f"no state on {'odom' if self.value('odometry') else self.value('state_topic')} in the last second", values
        return OK, f"{update.felt} windows felt, {update.stored} of them kept, {behind:g} s behind", values
