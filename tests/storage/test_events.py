"""TensorBoard's event files: records by hand; what TensorBoard's own reader sees is tested with the recorder."""

import struct

from geoact.storage import events


def records(data: bytes) -> list[bytes]:
    """The records of a file, each with both of its checksums right."""
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8)[0] == events.masked_crc(data[at : at + 8])
        content = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == events.masked_crc(content)
        found.append(content)
        at += 16 + length
    return found


def test_a_record_by_hand():
    made = events.record(b"abc")
    assert made[:8] == b"\x03\0\0\0\0\0\0\0" and made[12:15] == b"abc" and len(made) == 19


def test_a_summary_by_hand():
    # field 5: { field 1: { field 1: "a/b", field 2: 1.5 } }
    assert events.scalars({"a/b": 1.5}) == b"\x2a\x0c\x0a\x0a\x0a\x03a/b\x15" + struct.pack("<f", 1.5)


def test_steps_of_any_size_are_varints():
    for step, expected in ((0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (300_000, b"\xe0\xa7\x12")):
        made = events.event(step, b"")
        assert made[0] == 0x09 and made[9:] == b"\x10" + expected


def test_a_file_says_its_version_then_where_it_goes_on_then_its_points(tmp_path):
    file = events.EventFile(tmp_path, first_step=40)
    file.write(50, {"losses/alpha": 0.5})
    file.close()
    (path,) = tmp_path.glob("events.out.tfevents.*")
    version, start, point = records(path.read_bytes())
    assert version.endswith(b"brain.Event:2")
    assert start[9:] == b"\x10\x28\x3a\x02\x08\x01"  # step 40, session log START
    assert point[9:11] == b"\x10\x32" and b"losses/alpha" in point
