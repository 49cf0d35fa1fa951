"""What a run on a full disk comes to; the runs themselves are by command, `lfdm fuzz graph`."""

from types import SimpleNamespace

import pytest

from lfdm_lab.stacks import attack
from lfdm_ros.errors import InputError, RunError


@pytest.mark.parametrize("others, expected", [([], InputError), (["controller: on_state: KeyError: 'x'"], RunError)])
def test_a_disk_that_refuses_is_a_refusal_and_what_fails_beside_it_is_not(tmp_path, monkeypatch, others, expected):
    def run_stack(*_, **__):
        raise RunError([f"cannot write to {tmp_path}: File too large", *others], {})

    monkeypatch.setattr(attack, "run_stack", run_stack)
    monkeypatch.setattr(attack, "alone", lambda: None)
    monkeypatch.setattr(attack.resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(attack.signal, "signal", lambda *_: None)
    monkeypatch.setenv("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4")
    with pytest.raises(expected, match="File too large"):
        attack.full_disk_run("simulator", tmp_path, {})


@pytest.mark.parametrize("failures, not_driven, fails", [
    (["vehicle_simulator: commands did not act"], "commands did not act", False), (["controller: on_state: KeyError: 'x'"], "", True),
    (["vehicle_simulator: commands did not act", "controller: KeyError: 'x'"], "commands did not act", True)])
def test_who_is_attacked_may_be_kept_from_driving_but_fail_in_nothing_else(tmp_path, monkeypatch, failures, not_driven, fails):
    def run_stack(*_, **__):
        raise RunError(failures, {"reason": "ran 4 s", "messages_recorded": 1, "messages_dropped": 0, "not_driven": not_driven})

    monkeypatch.setattr(attack, "run_stack", run_stack)
    monkeypatch.setattr(attack, "alone", lambda: None)
    monkeypatch.setattr(attack, "Attacker", lambda *_: SimpleNamespace(strike=None, close=lambda: None, sent=[]))
    if fails:
        with pytest.raises(RunError):
            attack.attacked_run("simulator", tmp_path, {}, 1, seconds=1.0)
    else:
        assert attack.attacked_run("simulator", tmp_path, {}, 1, seconds=1.0)["messages_recorded"] == 1
