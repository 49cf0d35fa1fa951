"""What the adapters of PyMC and rclpy rely on is there, in the releases that they were made for."""

import inspect
from importlib.metadata import version
from types import ModuleType

import pytest
from pymc.smc.kernels import SMC_KERNEL
from pymc.step_methods.arraystep import GradientSharedStep
from pymc.step_methods.hmc.integration import CpuLeapfrogIntegrator, State
from rclpy.executors import Executor
from rclpy.experimental import EventsExecutor
from rclpy.lifecycle import LifecycleNode

from lfdm_ros.inference import pymc_adapter
from lfdm_ros.ros import rclpy_adapter


@pytest.mark.parametrize(("adapter", "package", "tests"), [
    *((pymc_adapter, package, "nuts, smc and model") for package in sorted(pymc_adapter.MADE_FOR)),
    (rclpy_adapter, "rclpy", "nodes and system")])
def test_it_was_made_for_this_release(adapter: ModuleType, package: str, tests: str) -> None:
    found, known = version(package), adapter.MADE_FOR[package]
    look_at = "\n  ".join(f"{name}: {what}" for name, what in adapter.LOOK_AT.items())
    assert ".".join(found.split(".")[:2]) in known, (
        f"{package} {found}; {adapter.__name__} was made for {' and '.join(known)}. Look there at:\n  {look_at}\nand where that holds and "
        f"the tests of {tests} pass, add the release to MADE_FOR")


def test_what_is_used_of_pymc_is_there() -> None:
    assert State._fields == ("q", "p", "v", "q_grad", "energy", "model_logp", "index_in_trajectory")
    assert list(inspect.signature(CpuLeapfrogIntegrator._step).parameters) == ["self", "epsilon", "state"]
    made = inspect.getsource(CpuLeapfrogIntegrator.__init__) + inspect.getsource(GradientSharedStep.__init__)
    for name in ("_pytensor_function", "_raveled_inputs", "_extra_vars_shared", "_logp_dlogp_func"):
        assert name in made
    assert callable(SMC_KERNEL._initialize_kernel)


def test_what_is_used_of_rclpy_is_there() -> None:
    assert callable(EventsExecutor)
    mixin = inspect.getsource(LifecycleNode.__mro__[1])
    assert "self._state_machine = " in mixin
    assert "lifecycle_msgs.srv.ChangeState,\n" in mixin and "self._services.extend(lifecycle_services)" in mixin
    source = inspect.getsource(Executor)
    assert "srv.callback" in source
    assert "srv.send_response" in source
