"""Links: bits as cantools places them, datagrams as they are documented, and what is refused by name."""

import math
import select
import socket
import struct
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ports import free_port

from lfdm_ros.errors import InputError
from lfdm_ros.hil.e2e import MIN_OK
from lfdm_ros.hil.link import (
    COMMANDS,
    CONTROLLER,
    LINKS,
    SIGNALS,
    VEHICLE,
    LinkKind,
    LinkSettings,
    Packet,
    make_link,
    register_link,
    untouched,
)

cantools = pytest.importorskip("cantools")
can = pytest.importorskip("can")

from can.interfaces.udp_multicast.utils import pack_message  # noqa: E402

from lfdm_ros.hil.can_bus import CanLink, take_local_only  # noqa: E402
from lfdm_ros.hil.can_messages import Message, find_dbc, messages_of  # noqa: E402

SIGNAL_VALUES = {name: 0.01 * (i + 1) for i, name in enumerate(SIGNALS)}
COMMAND_VALUES = dict(zip(COMMANDS, (-0.25, 0.5, 0.0)))


def test_nothing_binds_to_more_than_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The UDP link by its address; the multicast bus, which python-can binds to all, by what the kernel lets through."""
    settings = LinkSettings(can_port=free_port())
    assert settings.udp_host == settings.udp_peer_host == "127.0.0.1"
    command = next(m for m in messages_of("lfdm", controller=True) if m.answers)
    said = can.Message(arbitration_id=command.frame_id, data=bytes(command.size), is_extended_id=command.extended)

    def heard(bus: Any) -> tuple[bool, bool]:
        """Whether a frame of this machine comes by multicast, and a datagram from the loopback device."""
        with can.Bus(interface="udp_multicast", channel=settings.can_channel, port=settings.can_port, hop_limit=0) as other:
            other.send(said)
            looped = bus.recv(0.3) is not None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:  # alone: a datagram goes to one of those at the port
            sender.sendto(pack_message(said), ("127.0.0.1", settings.can_port))
            return looped, bus.recv(0.3) is not None

    opened, make = [], can.Bus
    monkeypatch.setattr(can, "Bus", lambda **options: opened.append(make(**options)) or opened[-1])
    link = CanLink(VEHICLE, settings)
    link.open()
    bus = opened[0]
    assert heard(bus) == (True, True)
    # As if what the loopback device carries had come over a wire: only our own multicasts are left.
    take_local_only(bus.fileno(), next(name for _, name in socket.if_nameindex() if name != "lo"))
    assert heard(bus) == (True, False)
    link.close()


def test_what_we_have_sent_ourselves_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = LinkSettings(can_port=free_port())
    opened, make = [], can.Bus
    monkeypatch.setattr(can, "Bus", lambda **options: opened.append(make(**options)) or opened[-1])
    link = CanLink(VEHICLE, settings)
    link.open()
    with make(interface="udp_multicast", channel=settings.can_channel, port=settings.can_port, hop_limit=0) as plain:
        link.send(Packet(10_000_000, SIGNAL_VALUES))
        heard = [plain.recv(5.0).arbitration_id for _ in messages_of("lfdm", controller=False)]
        # Whoever is at the port has it by now.
        assert heard == [512, 513, 514, 515] and not select.select([opened[0].fileno()], [], [], 0.0)[0]
        plain.send(can.Message(arbitration_id=256, is_extended_id=False, data=bytes(8)))
        assert plain.recv(5.0).arbitration_id == 256 and link.receive(0.0) is None and link.wire.refused == {"checksum": 1}
    link.close()


# -- DBC --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", cantools.database.load_file(find_dbc("lfdm")).messages, ids=lambda m: m.name)
def test_our_messages_are_packed_as_cantools_does(message: Any) -> None:
    own, random = Message(message, "lfdm.dbc"), Random(message.name)
    for _ in range(50):
        values = {s.name: random.uniform(s.minimum, s.maximum) for s in message.signals if s.name in own.names}
        number = random.randrange(4095) if own.numbers else None
        theirs = {**{s.name: 0 for s in message.signals}, **values, **({"answers": number} if own.answers else {}),
                  **({"cycle": number} if own.answered else {})}
        data = own.pack(values, number)
        assert bytes(data) == message.encode(theirs)
        back, unpacked = own.unpack(data)
        assert back == pytest.approx({name: value for name, value in message.decode(data).items() if name in own.names})
        assert unpacked == number and own.unpack(own.pack(values))[1] is None


BIG_ENDIAN = """VERSION ""
BU_: Vehicle Controller
BO_ 100 Motorola: 8 Vehicle
 SG_ yaw_rate : 7|16@0- (0.001,0) [-32|32] "rad/s" Controller
 SG_ vx : 18|11@0+ (0.05,-2) [-2|100] "m/s" Controller
 SG_ ay : 32|13@1- (0.01,0) [-40|40] "m/s^2" Controller
"""


@st.composite
def layouts(draw: st.DrawFn) -> str:
    """A DBC file with one message of up to eight bytes, its signals anywhere in it, in either byte order."""
    size, taken = draw(st.integers(1, 8)), set[int]()
    lines = []
    for name in draw(st.lists(st.sampled_from(SIGNALS), min_size=1, max_size=5, unique=True)):
        little, length = draw(st.booleans()), draw(st.integers(2, 40))
        start = draw(st.integers(0, 8 * size - 1))
        # Bits as DBC files number them: Motorola's go down in a byte, then on from the top of the next.
        bits = [start + k for k in range(length)] if little else [
            8 * (position // 8) + 7 - position % 8 for position in range(8 * (start // 8) + 7 - start % 8, 64)][:length]
        if len(bits) < length or max(bits) >= 8 * size or not taken.isdisjoint(bits):
            continue
        taken |= set(bits)
        scale = draw(st.sampled_from((1.0, 0.1, 3.125e-05, 0.05, 2.5, -0.25)))
        offset = draw(st.sampled_from((0.0, -2.0, 17.3, 1000.0)))
        sign = draw(st.sampled_from("+-"))
        lines.append(f" SG_ {name} : {start}|{length}@{int(little)}{sign} ({scale!r},{offset!r}) [0|0] \"\" Controller")
    assume(lines)
    return "\n".join(['VERSION ""', "BU_: Vehicle Controller", f"BO_ 100 Any: {size} Vehicle", *lines, ""])


@given(layouts(), st.data())
def test_any_layout_is_packed_and_unpacked_as_cantools_does(text: str, data: st.DataObject) -> None:
    message = cantools.database.load_string(text, "dbc").messages[0]
    own = Message(message, "any")
    values = {}
    for signal in message.signals:
        # All raw values but the one that says that there is none.
        half = 1 << (signal.length - 1)
        raw = data.draw(st.integers(-half + 1, half - 1) if signal.is_signed else st.integers(0, 2 * half - 2), label=signal.name)
        values[signal.name] = raw * float(signal.scale) + float(signal.offset)
    packed = bytes(own.pack(values))
    assert packed == message.encode(values)
    back, _ = own.unpack(packed)
    assert back == pytest.approx(message.decode(packed), rel=1e-12, abs=1e-12) and set(back) == set(values)


def test_not_available_and_out_of_range() -> None:
    motion = next(m for m in messages_of("lfdm", controller=False) if m.name == "Motion")
    back = motion.unpack(motion.pack({"yaw_rate": 1000.0, "ax": math.nan}))[0]
    assert back["yaw_rate"] == pytest.approx(8.191) and math.isnan(back["ax"]) and math.isnan(back["ay"])
    unsigned = Message(cantools.database.load_string(BIG_ENDIAN.replace("[-2|100]", "[0|0]"), "dbc").messages[0], "x")
    assert unsigned.unpack(unsigned.pack({"vx": 1e3}))[0]["vx"] == pytest.approx(2046 * 0.05 - 2.0)
    assert math.isnan(unsigned.unpack(unsigned.pack({}))[0]["vx"])


@pytest.mark.parametrize(("text", "words"), [
    ("no DBC", "is no DBC file"),
    (BIG_ENDIAN.replace("Vehicle\n SG", "Controller\n SG"), "no message of the node Vehicle"),
    (BIG_ENDIAN.replace("vx : 18", "vx m0 : 18").replace("ay :", "ay M :"), "multiplexed"),
    (BIG_ENDIAN
     + 'BA_DEF_ BO_ "E2E_DataID" INT 0 65535;\nBA_DEF_DEF_ "E2E_DataID" 0;\nBA_ "E2E_DataID" BO_ 100 7;\n', "crc must be its bits"),
])
def test_files_that_cannot_be_used_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.dbc"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        messages_of(str(path), controller=False)


# -- both ends of each link -------------------------------------------------------------------------------------------------


def ends(kind: str) -> tuple[Any, Any]:
    if kind == "udp":
        one, other = free_port(), free_port()
        return (make_link("udp", VEHICLE, LinkSettings(udp_port=one, udp_peer_port=other)),
                make_link("udp", CONTROLLER, LinkSettings(udp_port=other, udp_peer_port=one)))
    settings = LinkSettings(can_interface="virtual", can_channel=f"links {Random().random()}") if kind == "virtual" else LinkSettings(
        can_port=free_port())
    return make_link("can", VEHICLE, settings), make_link("can", CONTROLLER, settings)


@pytest.fixture(params=["udp", "virtual", "udp_multicast"])
def pair(request: pytest.FixtureRequest) -> Any:
    vehicle, controller = ends(request.param)
    vehicle.open()
    controller.open()
    yield vehicle, controller
    vehicle.close()
    controller.close()


def greet(vehicle: Any, controller: Any) -> None:
    """So many messages each way that both ends take the next one."""
    for _ in range(MIN_OK):
        vehicle.send(Packet(0, SIGNAL_VALUES))
    heard = controller.receive(5.0)
    for _ in range(MIN_OK):
        controller.send(Packet(heard.stamp_ns, COMMAND_VALUES))
    assert vehicle.receive(5.0).stamp_ns == 0 and vehicle.receive(0.0) is controller.receive(0.0) is None


def test_signals_go_there_and_their_answer_comes_back(pair: Any) -> None:
    vehicle, controller = pair
    assert vehicle.receive(0.0) is None
    greet(vehicle, controller)
    for tick in range(40):  # alive counters go round twice
        assert vehicle.send(Packet(10_000_000 * (tick + 1), SIGNAL_VALUES))
        heard = controller.receive(5.0)
        assert heard is not None and heard.values == pytest.approx(SIGNAL_VALUES, abs=0.026)
        controller.send(Packet(heard.stamp_ns, COMMAND_VALUES))
        answer = vehicle.receive(5.0)
        assert answer is not None and answer.stamp_ns == 10_000_000 * (tick + 1)
        assert answer.values == pytest.approx(COMMAND_VALUES, abs=1e-4)
    assert not vehicle.wire.refused and not controller.wire.refused and controller.receive(0.0) is None
    controller.send(Packet(0, COMMAND_VALUES))  # answers nothing of late
    assert vehicle.receive(0.2) is None and vehicle.wire.refused == {"stale": 1}


def test_messages_that_were_changed_or_lost_on_the_wire(pair: Any) -> None:
    vehicle, controller = pair

    def flip(names: tuple[str, ...], data: bytearray) -> bool:
        data[3] ^= 0x10
        return True

    greet(vehicle, controller)
    vehicle.wire.outwards = flip
    vehicle.send(Packet(2, SIGNAL_VALUES))
    vehicle.wire.outwards = lambda names, data: False
    vehicle.send(Packet(3, SIGNAL_VALUES))
    vehicle.wire.outwards = untouched
    vehicle.send(Packet(4, SIGNAL_VALUES))
    assert controller.receive(5.0) is not None and controller.receive(0.0) is None
    assert set(controller.wire.refused) == {"checksum"}


@pytest.mark.parametrize("kind", ["udp", "can"])
def test_junk_does_not_end_what_is_read(kind: str) -> None:
    """What is no frame, or another's, may be before each packet in the queue: one call reads on to the packet, waiting for nothing."""
    one, other = free_port(), free_port()
    vehicle, controller = (make_link(kind, end, LinkSettings(can_port=one, udp_port=port, udp_peer_port=peer))
                           for end, port, peer in ((VEHICLE, one, other), (CONTROLLER, other, one)))
    junk = (b"junk", b"", pack_message(can.Message(arbitration_id=1, is_extended_id=False)))
    vehicle.open()
    controller.open()
    greet(vehicle, controller)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
        for tick in range(5):
            for data in 5 * junk:
                stranger.sendto(data, (LinkSettings().can_channel if kind == "can" else "127.0.0.1", one))
            vehicle.send(Packet(10_000_000 * (tick + 1), SIGNAL_VALUES))
            controller.send(Packet(controller.receive(5.0).stamp_ns, COMMAND_VALUES))
    packets = [vehicle.receive(0.0) for _ in range(6)]
    assert [packet and packet.stamp_ns for packet in packets] == [*range(10_000_000, 60_000_000, 10_000_000), None]
    assert vehicle.wire.refused["malformed"] >= 25
    vehicle.close()
    controller.close()


def test_datagrams_are_as_they_are_documented() -> None:
    port, peer = free_port(), free_port()
    link = make_link("udp", VEHICLE, LinkSettings(udp_port=port, udp_peer_port=peer))
    link.open()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bench:
        bench.bind(("127.0.0.1", peer))
        bench.settimeout(5.0)
        link.send(Packet(123, SIGNAL_VALUES))
        data = bench.recv(4096)
        assert struct.unpack("<4sHHIIQ", data[:24]) == (b"LFDM", 1, 1, 0, 12, 123)
        assert struct.unpack("<12d", data[24:120]) == tuple(SIGNAL_VALUES.values())
        assert struct.unpack("<I", data[120:]) == (zlib.crc32(data[:120]),)

        def command(sequence: int, magic: bytes = b"LFDM") -> bytes:
            body = struct.pack("<4sHHIIQ3d", magic, 1, 2, sequence, 3, 123, 0.1, 0.2, 0.0)
            return body + struct.pack("<I", zlib.crc32(body))

        good = command(5)
        wrong = (good, command(6, b"XXXX"), good[:-1], good[:-1] + b"?")
        for sent in (command(3), command(4), good, *wrong, command(6), command(12), command(13)):
            bench.sendto(sent, ("127.0.0.1", port))
        # The third in a row acts, then 6 and 13; 12 is more than three further than 6.
        assert [link.receive(5.0) for _ in range(3)] == [Packet(123, dict(zip(COMMANDS, (0.1, 0.2, 0.0))))] * 3
        assert link.wire.refused == {"repeated": 1, "malformed": 2, "checksum": 1, "wrong_sequence": 1}
    link.close()


# -- what cannot be opened --------------------------------------------------------------------------------------------------


def test_cycle_times_must_fit_the_loop() -> None:
    with pytest.raises(InputError, match="cycle time of WheelSpeeds, 10 ms, is no multiple of the loop's period, 4 ms"):
        CanLink(VEHICLE, LinkSettings(period=0.004))


def test_messages_go_at_their_cycle_times() -> None:
    sent: list[int] = []

    class Bus:
        def send(self, frame: Any) -> None:
            sent.append(frame.arbitration_id)

    link = CanLink(VEHICLE, LinkSettings(period=0.005), Bus())
    link.open()
    assert [link.send(Packet(k, SIGNAL_VALUES)) for k in range(5)] == [True, False, True, False, True]
    assert sent == [512, 513, 514, 515, 512, 514, 515, 512, 513, 514, 515]  # Position every 20 ms; Motion, which is answered, last


@pytest.mark.parametrize(("change", "words"), [
    (("SG_ cycle", "SG_ cycles"), "0 messages of the node Vehicle have the signal cycle; let one have it"),
    (("SG_ answers", "SG_ answer"), "0 messages of the node Controller have the signal answers"),
    (("answers : 12|12", "answers : 12|11"), "give cycle of Motion and answers of Command the same number of bits"),
    (("cycle : 12|12@1+ (1,0)", "cycle : 12|12@1+ (2,0)"), "signal cycle: give it no sign, scale 1 and offset 0"),
])
def test_files_without_a_number_of_the_cycle_are_named(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    path = tmp_path / "bad.dbc"
    path.write_text(find_dbc("lfdm").read_text().replace(*change))
    with pytest.raises(InputError, match=words):
        CanLink(VEHICLE, LinkSettings(dbc=str(path)))


def test_cycles_must_not_begin_anew_within_the_time_out() -> None:
    with pytest.raises(InputError, match=r"cycle of Motion begins anew after 40\.95 s; give it and answers of Command more bits"):
        CanLink(VEHICLE, LinkSettings(timeout=21.0))


@pytest.mark.parametrize(("kind", "settings", "words"), [
    ("can", {"can_interface": "nope"}, "the bus nope 239.74.163.2 cannot be opened"),
    ("udp", {"udp_host": "192.0.2.1"}, "link udp: 192.0.2.1:47001 cannot be bound"),
    ("can", {"dbc": "nope"}, "no DBC file 'nope'; give a path, or one of: lfdm"),
    ("nope", {}, "link 'nope' is unknown; choose one of: can, udp"),
])
def test_what_is_not_there_is_named(kind: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_link(kind, VEHICLE, LinkSettings(**settings)).open()


def test_without_the_packages_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cantools", None)
    with pytest.raises(InputError, match=r'pip install "lfdm-ros\[hil\]"'):
        make_link("can", VEHICLE, LinkSettings())


def test_a_link_of_ones_own() -> None:
    kind = LinkKind("test_links_own", lambda end, settings: CanLink(end, settings, bus=object()))
    register_link(kind)
    assert "test_links_own" in LINKS and isinstance(make_link("test_links_own", VEHICLE, LinkSettings()), CanLink)
    with pytest.raises(InputError, match="registered already"):
        register_link(LinkKind(kind.name, kind.make))
