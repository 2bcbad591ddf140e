"""A small harbour register that talks a line protocol over TCP.

Every request is one line of text and gets exactly one reply line:

    ARRIVE <vessel> <length>     assign a berth to a vessel
    DEPART <vessel>              free the berth of a vessel
    LIST                         list all vessels in port
    QUIT                         close the connection

Replies begin with "OK" or with "ERR" and a short reason.
"""

import argparse
import asyncio
import logging
from dataclasses import dataclass, field

log = logging.getLogger("harbour")

DEFAULT_PORT = 7411


class HarbourError(Exception):
    """A request was understood but cannot be granted."""


class BadRequest(HarbourError):
    """A request line does not follow the protocol."""


@dataclass
class Berth:
    number: int
    length: float
    vessel: str | None = None


@dataclass
class Harbour:
    """The berths of one harbour and the vessels lying at them."""

    berths: list[Berth] = field(default_factory=list)

    @classmethod
    def with_lengths(cls, *lengths: float) -> "Harbour":
        berths = [Berth(number, length) for number, length in enumerate(lengths, 1)]
        return cls(berths)

    def find(self, vessel: str) -> Berth:
        for berth in self.berths:
            if berth.vessel == vessel:
                return berth
        raise HarbourError(f"{vessel} is not in port")

    def arrive(self, vessel: str, length: float) -> Berth:
        if any(berth.vessel == vessel for berth in self.berths):
            raise HarbourError(f"{vessel} is already in port")
        candidates = [b for b in self.berths if b.vessel is None and b.length >= length]
        if not candidates:
            raise HarbourError(f"no free berth of {length:g} metres")
        # Give away the shortest berth that fits, so long berths stay free.
        berth = min(candidates, key=lambda b: (b.length, b.number))
        berth.vessel = vessel
        log.info("%s moored at berth %d", vessel, berth.number)
        return berth

    def depart(self, vessel: str) -> Berth:
        berth = self.find(vessel)
        berth.vessel = None
        log.info("%s left berth %d", vessel, berth.number)
        return berth

    def vessels(self) -> list[str]:
        return sorted(b.vessel for b in self.berths if b.vessel is not None)


class HarbourSession:
    """One client connection: reads request lines, writes reply lines."""

    def __init__(self, harbour, reader, writer):
        self.harbour = harbour
        self.reader = reader
        self.writer = writer
        self.peer = writer.get_extra_info("peername")
        self.closing = False

    async def run(self):
        log.debug("session opened by %s", self.peer)
        try:
            while not self.closing:
                line = await self.reader.readline()
                if not line:
                    break
                await self.reply(self.handle(line))
        except ConnectionResetError:
            log.warning("session with %s was cut off", self.peer)
        finally:
            self.writer.close()
            log.debug("session closed by %s", self.peer)

    async def reply(self, text):
        self.writer.write(text.encode("utf-8") + b"\r\n")
        await self.writer.drain()

    def handle(self, line):
        """Turn one request line into one reply line."""
        try:
            words = line.decode("utf-8").split()
            if not words:
                raise BadRequest("empty request")
            verb, args = words[0].upper(), words[1:]
            method = getattr(self, "do_" + verb.lower(), None)
            if method is None:
                raise BadRequest(f"unknown request {verb}")
            return "OK " + method(args)
        except UnicodeDecodeError:
            return "ERR request is not valid UTF-8"
        except HarbourError as exc:
            return f"ERR {exc}"

    def do_arrive(self, args):
        if len(args) != 2:
            raise BadRequest("usage: ARRIVE vessel length")
        vessel, text = args
        try:
            length = float(text)
        except ValueError:
            raise BadRequest(f"length is not a number: {text}") from None
        if length <= 0:
            raise BadRequest("length must be positive")
        berth = self.harbour.arrive(vessel, length)
        return f"berth {berth.number}"

    def do_depart(self, args):
        if len(args) != 1:
            raise BadRequest("usage: DEPART vessel")
        berth = self.harbour.depart(args[0])
        return f"berth {berth.number} is free"

    def do_list(self, args):
        vessels = self.harbour.vessels()
        return " ".join([str(len(vessels)), *vessels])

    def do_quit(self, args):
        self.closing = True
        return "goodbye"


async def start_harbour(harbour, host="127.0.0.1", port=DEFAULT_PORT):
    """Start listening and return the asyncio server object."""

    async def on_connect(reader, writer):
        session = HarbourSession(harbour, reader, writer)
        await session.run()

    return await asyncio.start_server(on_connect, host, port)


async def ask(host, port, requests):
    """Send each request in turn and return the list of replies."""
    reader, writer = await asyncio.open_connection(host, port)
    replies = []
    try:
        for request in requests:
            writer.write(request.encode("utf-8") + b"\n")
            await writer.drain()
            reply = await reader.readline()
            replies.append(reply.decode("utf-8").rstrip())
    finally:
        writer.close()
        await writer.wait_closed()
    return replies


async def demo():
    harbour = Harbour.with_lengths(12, 20, 35)
    server = await start_harbour(harbour, port=0)
    host, port = server.sockets[0].getsockname()[:2]
    requests = [
        "ARRIVE petrel 11.5",
        "ARRIVE gannet 18",
        "ARRIVE albatross 40",
        "DEPART petrel",
        "DEPART petrel",
        "LIST",
        "QUIT",
    ]
    async with server:
        replies = await ask(host, port, requests)
    for request, reply in zip(requests, replies):
        print(f"{request:<22} -> {reply}")


def main(argv=None):
    parser = argparse.ArgumentParser(description="Try the harbour register.")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.DEBUG if args.verbose else logging.WARNING)
    asyncio.run(demo())


if __name__ == "__main__":
    main()
