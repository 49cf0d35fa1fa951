"""The vehicle frames node: transforms of the vehicle and its parts for tf2 and RViz, and the vehicle's shape."""

from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from lfdm_ros.bounds import FRAME, MALFORMED, Refused, require, require_all
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import OK, WARN, Component, Diagnosis, refusing, while_active
from lfdm_ros.ros.endpoints import publishes, subscribes
from lfdm_ros.ros.messages import BODY_FRAME, MAP_FRAME, ODOM_FRAME, checked_stamp, joint_transform, set_fields
from lfdm_ros.ros.parameters import VEHICLE, VEHICLE_CHANGES, Parameter, vehicle_of
from lfdm_ros.ros.plan_messages import values_of_odometry
from lfdm_ros.ros.topics import RateLimiter
from lfdm_ros.vehicles.description import FIXED, Joint, joints_of, robot_description

_JOINTS = 512  # that a message may have


class VehicleFrames(Component):
    """Conversion of `odom` and `joint_states` to `tf`, and of the vehicle's file to `tf_static` and `robot_description`.

    The frames are those of REP 105: `map`, `odom` and `base_link`, which is on the ground below the position point; `lidar` and `imu` are
    where the vehicle's file puts them.
    """

    NAME = "vehicle_frames"
    PARAMETERS = (
        VEHICLE, VEHICLE_CHANGES,
        Parameter("rate", 50.0, "odometries and joint states a second that are passed on", 0.1, 10_000.0, unit="Hz"),
        Parameter("joints", True, "publish the transforms of steered and turning wheels; false: robot_state_publisher does"),
        Parameter("map_is_odom", False, "publish map and odom as the same, as for a simulated vehicle, which does not drift; false: who "
                                        "localises the vehicle says where odom is, or nobody does"),
    )
    ENDPOINTS = (
        subscribes("odom", Odometry, qos.STATE, "where the vehicle is"),
        subscribes("joint_states", JointState, qos.STATE, "how its wheels stand"),
        publishes("tf", TFMessage, qos.TRANSFORMS, "odom to base_link, and the wheels"),
        publishes("tf_static", TFMessage, qos.LATCHED, "LIDAR and IMU, and map to odom"),
        publishes("robot_description", String, qos.LATCHED, "URDF of body, wheels and sensors"),
    )

    def configure(self) -> None:
        vehicle = vehicle_of(self)
        joints = joints_of(vehicle)
        self._moving = {joint.name: joint for joint in joints if joint.kind != FIXED} if self.value("joints") else {}
        self._fixed = [joint_transform(joint) for joint in joints if joint.kind == FIXED]
        if self.value("map_is_odom"):
            self._fixed.append(joint_transform(Joint("map_is_odom", FIXED, MAP_FRAME, ODOM_FRAME, 0.0, 0.0, 0.0)))
        self._description = robot_description(vehicle)
        self._body = TransformStamped()
        self.odometry, self._joints = RateLimiter(self.value("rate")), RateLimiter(self.value("rate"))
        self._transforms, self._static, self._looks = (self.publisher(topic) for topic in ("tf", "tf_static", "robot_description"))
        self.connect({"odom": self._on_odometry, "joint_states": self._on_joints})

    def activate(self) -> None:
        self._odometries = 0
        for transform in self._fixed:
            transform.header.stamp = self.stamp()
        self._static.publish(TFMessage(transforms=self._fixed))
        self._looks.publish(String(data=self._description))

    @while_active
    @refusing("odometry")
    def _on_odometry(self, message: Odometry) -> None:
        self._odometries += 1
        if not self.odometry.admit(checked_stamp(message.header.stamp)):
            return
        if not message.header.frame_id or message.child_frame_id != BODY_FRAME:
            raise Refused(f"odometry of '{message.child_frame_id}' in '{message.header.frame_id}'; the vehicle's frame is {BODY_FRAME}",
                          FRAME)
        require_all(values_of_odometry(message), ("x", "y", "yaw", "quaternion"))
        require("x", message.pose.pose.position.z, "z")
        self._stamp = message.header.stamp
        body, position = self._body, message.pose.pose.position
        body.header, body.child_frame_id = message.header, message.child_frame_id
        set_fields(body.transform.translation, "xyz", (position.x, position.y, position.z))
        body.transform.rotation = message.pose.pose.orientation
        self._transforms.publish(TFMessage(transforms=[body]))

    @while_active
    @refusing("joints")
    def _on_joints(self, message: JointState) -> None:
        if not self._moving or not self._joints.admit(checked_stamp(message.header.stamp)):
            return
        if not len(message.name) == len(message.position) <= _JOINTS:
            raise Refused(f"{len(message.position)} positions of {len(message.name)} joints", MALFORMED)
        angles = dict(zip(message.name, message.position))
        for name in self._moving.keys() & angles.keys():
            require("yaw", angles[name], f"position of {name}")
        moved = [joint_transform(joint, angles[name]) for name, joint in self._moving.items() if name in angles]
        for transform in moved:
            transform.header.stamp = message.header.stamp
        if moved:
            self._transforms.publish(TFMessage(transforms=moved))

    _stamp = Time()

    def stamp(self) -> Time:
        """Returns the stamp of the last odometry: this node keeps no clock."""
        return self._stamp

    @while_active
    def diagnose(self) -> Diagnosis:
        return (OK, "publishing", {}) if self.increase("odometries", self._odometries) else (WARN, "no odom in the last second", {})
