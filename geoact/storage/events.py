"""TensorBoard's event files, as far as curves need them, without its library, threads and buffers.

A file is a sequence of records

    length (uint64) | masked CRC-32C of these 8 bytes | data | masked CRC-32C of the data        all little-endian

whose data is a protocol buffer `Event`: wall_time = 1 (double), step = 2 (varint), and one of file_version = 3
(string), summary = 5 (repeated value = 1: tag = 1 (string), simple_value = 2 (float)), session_log = 7 (status = 1).
A session log that says START tells TensorBoard that later steps which it has seen before do not count.

A file is written whole records at a time. One that cannot be written is taken back, so that the file stays readable.
"""

import os
import socket
import struct
import time
from pathlib import Path

from geoact.storage import files


def _table() -> tuple[int, ...]:
    """CRC-32C (Castagnoli) of each byte."""
    table: list[int] = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_CRC = _table()


def masked_crc(data: bytes) -> int:
    """The CRC-32C as TensorFlow stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """One record of a file."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(parts) + bytes([number])


def _message(field: int, data: bytes) -> bytes:
    """A field that is a string or a message."""
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def event(step: int, what: bytes) -> bytes:
    """An `Event` of now."""
    return struct.pack("<Bd", 1 << 3 | 1, time.time()) + _varint(2 << 3) + _varint(step) + what


def scalars(values: dict[str, float]) -> bytes:
    """A summary of named numbers."""
    parts = (
        _message(1, _message(1, tag.encode()) + struct.pack("<Bf", 2 << 3 | 5, v))
        for tag, v in values.items()
    )
    return _message(5, b"".join(parts))


class EventFile:
    """An event file being written."""

    def __init__(self, folder: Path, first_step: int = 0):
        """`first_step`: where a run goes on after an interruption."""
        stamp = f"{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._file = open(folder / f"events.out.tfevents.{stamp}", "wb", buffering=0)  # noqa: SIM115 (closed in close)
        self._append(event(0, _message(3, b"brain.Event:2")))
        if first_step:
            self._append(event(first_step, _message(7, b"\x08\x01")))

    def write(self, step: int, values: dict[str, float]) -> None:
        """Add a point to each of these curves."""
        self._append(event(step, scalars(values)))

    def _append(self, data: bytes) -> None:
        files.append(self._file, record(data))

    def close(self) -> None:
        self._file.close()
