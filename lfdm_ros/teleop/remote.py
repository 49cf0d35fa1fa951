"""A driver behind a link, without ROS: pictures up, commands down, with delays and losses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from lfdm_ros.bounds import require
from lfdm_ros.control.cycle import Cycle, Driver
from lfdm_ros.control.prediction import Measured
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import Path
from lfdm_ros.teleop.network_link import NetworkLink, NetworkLinkSettings


class RemoteDriver:
    """Driver that queries another one through two links. The last received command is held; neutral before the first. The links are stepped
    with the cycles: items due between two cycles arrive with the later.

    up, down: the links. issued: time of the present command [s], -inf before the first. late: number of outdated items discarded, by
    direction.
    """

    def __init__(self, driver: Driver, up: NetworkLink[tuple[Measured, Obstacles | None]], down: NetworkLink[Cycle]) -> None:
        self.driver, self.settings, self.up, self.down = driver, driver.settings, up, down
        self.late: Counter[str] = Counter()
        self._obstacles: Obstacles | None = None
        self._picture, self.issued = -np.inf, -np.inf
        self._command = (0.0, 0.0, 0.0)

    @classmethod
    def over(cls, driver: Driver, up: NetworkLinkSettings, down: NetworkLinkSettings, seed: int = 1) -> RemoteDriver:
        """Puts a driver behind two new links with independent random numbers. Raises InputError for a negative seed."""
        require("seed", seed)
        seeds = np.random.SeedSequence(seed).generate_state(2).tolist()
        return cls(driver, NetworkLink(up, seeds[0]), NetworkLink(down, seeds[1]))

    def follow(self, path: Path, speed: float | np.ndarray, corridor: np.ndarray | None = None, stop: bool = True,
               hidden_speed: float = 0.0) -> None:
        """Passes the path to the driver; tasks do not go through the link."""
        self.driver.follow(path, speed, corridor, stop, hidden_speed)

    def go_to(self, goal: Goal, speed: float) -> None:
        """Passes the goal to the driver; tasks do not go through the link."""
        self.driver.go_to(goal, speed)

    def update_obstacles(self, obstacles: Obstacles) -> None:
        """Stores obstacles for the next picture that is not lost."""
        self._obstacles = obstacles

    def update_offer(self, time: float, offered: bool) -> None:
        """Passes autonomy's offer with its time, which the picture of that time shows."""
        if callable(update := getattr(self.driver, "update_offer", None)):
            update(time, offered)

    def poll(self, now: float) -> None:
        self.driver.poll(now)

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        """Runs the driver's cycle, with the command received by `now` [s]."""
        if measured is not None and self.up.send(now, (measured, self._obstacles)):
            self._obstacles = None
        newest = None
        for arrival in self.up.receive(now):
            picture, obstacles = arrival.item
            if picture.time <= self._picture:
                self.late["up"] += 1
                continue
            self._picture, newest = picture.time, picture
            if obstacles is not None:
                self.driver.update_obstacles(obstacles)
        cycle = self.driver.cycle(now, newest)
        self.down.send(now, cycle)
        for answer in self.down.receive(now):
            if answer.sent <= self.issued:
                self.late["down"] += 1
                continue
            self.issued, self._command = answer.sent, answer.item.command
        return replace(cycle, command=self._command)
