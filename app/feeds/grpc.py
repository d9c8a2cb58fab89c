"""Unary gRPC calls over the client of the feeds, and messages in the wire format of Protocol Buffers.

Source: grpc.io/docs (PROTOCOL-HTTP2.md) and protobuf.dev/programming-guides/encoding, read 2026-11-27. Fields go by
their numbers in the published .proto files, so no generated code is needed.
"""

from __future__ import annotations

from collections import defaultdict

from app.feeds.client import FeedClient, FeedError

HEADERS = {"content-type": "application/grpc", "te": "trailers"}
MAX_MESSAGE_BYTES = 2 * 2**20
PREFIX_BYTES = 5  # of a message: a flag for compression, and its length
VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5  # wire types
MAX_VARINT_BYTES = 10


def call(client: FeedClient, url: str, request: bytes, token: str = "") -> Message:
    """Returns the answer to a call. Raises FeedError for a refusal and for an answer that is no message."""
    headers = HEADERS | ({"authorization": f"Bearer {token}"} if token else {})
    framed = bytes((0,)) + len(request).to_bytes(4, "big") + request
    answer = client.fetch_whole(url, headers=headers, body=framed, max_bytes=MAX_MESSAGE_BYTES).read()
    size = int.from_bytes(answer[1:PREFIX_BYTES], "big")
    if len(answer) != PREFIX_BYTES + size or answer[0]:
        raise FeedError("The answer is no single, uncompressed gRPC message.")
    return read_message(answer[PREFIX_BYTES:])


def read_message(data: bytes) -> Message:
    """Returns a message. Raises FeedError if the data are none."""
    try:
        return Message(data)
    except ValueError as error:
        raise FeedError("The answer is no Protocol Buffers message.") from error


def encode(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Returns a message of fields: numbers, texts, and other messages.

    Check:
        >>> encode((1, 150), (2, "ab")).hex()
        '08960112026162'
    """
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += _varint(number << 3 | VARINT) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | LENGTH) + _varint(len(data)) + data
    return bytes(out)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Message:
    """Fields of a message by number; those that are absent have the default of their type. Methods raise ValueError for
    fields of another type.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._fields = defaultdict[int, list[int | bytes]](list)
        while self._at < len(data):
            number, wire_type = divmod(self._read_varint(), 8)
            self._fields[number].append(self._read_value(wire_type))

    def _read_varint(self) -> int:
        value = 0
        for place, byte in enumerate(self._data[self._at : self._at + MAX_VARINT_BYTES]):
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                self._at += place + 1
                return value
        raise ValueError("no varint")

    def _read_value(self, wire_type: int) -> int | bytes:
        if wire_type == VARINT:
            return self._read_varint()
        sizes = {FIXED_64: 8, FIXED_32: 4}
        size = self._read_varint() if wire_type == LENGTH else sizes.get(wire_type, -1)
        value = self._data[self._at : self._at + max(0, size)]
        if len(value) != size:
            raise ValueError("no field")
        self._at += size
        return value

    def _last(self, number: int, kind: type) -> int | bytes | None:
        value = self._fields[number][-1] if number in self._fields else None
        if value is not None and not isinstance(value, kind):
            raise ValueError("another type")
        return value

    def number(self, number: int) -> int:
        value = self._last(number, int)
        return value if isinstance(value, int) else 0

    def text(self, number: int) -> str:
        value = self._last(number, bytes)
        return value.decode() if isinstance(value, bytes) else ""

    def message(self, *numbers: int) -> Message:
        """Returns the message of a field, or of a field in it and so on."""
        found = self
        for number in numbers:
            value = found._last(number, bytes)
            found = Message(value if isinstance(value, bytes) else b"")
        return found

    def messages(self, number: int) -> list[Message]:
        values = self._fields.get(number, [])
        if not all(isinstance(value, bytes) for value in values):
            raise ValueError("another type")
        return [Message(value) for value in values if isinstance(value, bytes)]
