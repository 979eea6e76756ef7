"""Reads TensorBoard's event files: TFRecord frames with their checksums, and the protobuf messages of scalars."""
import struct


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frames(data):
    at = 0
    while at < len(data):
        length, length_crc = struct.unpack_from("<QI", data, at)
        assert length_crc == masked(data[at:at + 8]), f"the length at byte {at} has another checksum"
        body = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length) == (masked(body),), f"the frame at byte {at}: checksum"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """[(number, value)] of a message; bytes for what has a length."""
    at, found = 0, []
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif wire == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            assert wire == 2, f"wire type {wire}"
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length
        found.append((tag >> 3, value))
    return found


def read(path):
    """[(wall time, step, {tag: value})] of every event but the first, which says the version."""
    with open(path, "rb") as file:
        events = [dict(fields(frame)) for frame in frames(file.read())]
    assert events[0] == {1: 0.0, 3: b"brain.Event:2"}, events[0]
    scalars = []
    for event in events[1:]:
        values = [dict(fields(value)) for number, value in fields(event[5]) if number == 1]
        scalars.append((event[1], event[2], {value[1].decode(): value[2] for value in values}))
    return scalars
