"""HTTP as test clients speak it: one connection, its requests, and answers that are read piece by piece."""
import asyncio
import json
import socket
import struct


class Wrong(Exception):
    """An answer that is not what it must be."""


class ErrorEvent(Wrong):
    """A stream that ends in an error of the server's."""


class Cut(Exception):
    """The connection ended before the answer did."""


def same(found, wanted, what):
    if found != wanted:
        raise Wrong(f"{what}: found {found!r}, wanted {wanted!r}")


def begins_with(text, token):
    """Text that was cut anywhere: one is the beginning of the other."""
    text = text.lstrip(" >\n")
    if not (text.startswith(token) or token.startswith(text)):
        raise Wrong(f"a stream of {token!r} says {text!r}")


def as_bytes(body):
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def head_of(method, path, length, keep=False, headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Connection: {'keep-alive' if keep else 'close'}",
             f"Content-Length: {length}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Peer:
    """One connection to 127.0.0.1."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port):
        try:
            return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))
        except OSError as failure:
            raise Cut(f"no connection: {failure}") from failure

    async def send(self, data):
        """All of it, or what the other side takes before it answers and closes."""
        self.writer.write(data)
        try:
            await self.writer.drain()
        except OSError:
            pass

    async def ask(self, method, path, body=b"", keep=False, headers=()):
        data = as_bytes(body)
        await self.send(head_of(method, path, len(data), keep, headers) + data)
        return await Answer.read_from(self)

    def close(self):
        self.writer.transport.abort()

    def reset(self):
        """Ends it with a reset instead of a close."""
        if connection := self.writer.get_extra_info("socket"):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


class Answer:
    """One HTTP answer; events() yields the JSON of each line `data: `."""

    def __init__(self, peer, status, headers):
        self.peer, self.reader = peer, peer.reader
        self.status, self.headers = status, headers

    @classmethod
    async def to(cls, port, method, path, body=b"", headers=()):
        """On a connection of its own."""
        peer = await Peer.open(port)
        try:
            return await peer.ask(method, path, body, headers=headers)
        except BaseException:
            peer.close()
            raise

    @classmethod
    async def read_from(cls, peer):
        try:
            head = (await peer.reader.readuntil(b"\r\n\r\n")).decode()
        except (OSError, EOFError) as failure:
            raise Cut(f"no head of an answer: {type(failure).__name__}") from failure
        lines = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        return cls(peer, int(lines[0].split(" ", 2)[1]), headers)

    async def chunks(self):
        try:
            while size := int(await self.reader.readline() or b"x", 16):
                data = await self.reader.readexactly(size + 2)
                yield data[:-2].decode()
            await self.reader.readexactly(2)
        except (OSError, EOFError, ValueError) as failure:
            raise Cut(f"a body without its end: {type(failure).__name__}") from failure

    async def events(self):
        done = False
        async for chunk in self.chunks():
            if not chunk.startswith("data: ") or not chunk.endswith("\n\n") or done:
                raise Wrong(f"a chunk that is no event: {chunk!r}")
            if chunk == "data: [DONE]\n\n":
                done = True
                continue
            event = json.loads(chunk[6:])
            if "error" in event:
                raise ErrorEvent(f"an error event: {event}")
            yield event
        if not done:
            raise Wrong("a stream without [DONE]")

    async def bytes(self):
        if "transfer-encoding" in self.headers:
            return "".join([chunk async for chunk in self.chunks()]).encode()
        try:
            return await self.reader.readexactly(int(self.headers.get("content-length", 0)))
        except (OSError, EOFError) as failure:
            raise Cut(f"a body without its end: {type(failure).__name__}") from failure

    async def json(self):
        return json.loads(await self.bytes())

    def close(self):
        self.peer.close()
