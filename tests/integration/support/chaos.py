"""A TCP proxy that spoils connections on purpose: it delays, throttles, cuts into pieces, resets, half-closes or stalls
the bytes of one direction, at an exact offset where one is given.
"""

import asyncio
import dataclasses
import socket
import struct
import threading


@dataclasses.dataclass(frozen=True)
class Fault:
    """What happens to the bytes of one direction. Offsets say how many bytes are still forwarded before it happens."""

    delay_s: float = 0  # before each piece
    rate: float = 0  # bytes per second; 0: as fast as it goes
    fragment: int = 1 << 16  # largest piece that is written at once
    reset_at: int | None = None  # both connections end with RST
    half_close_at: int | None = None  # FIN to the receiver; later bytes are read and dropped
    stall_at: int | None = None  # nothing more is read until the proxy ends

    def end(self):
        """(offset, kind) of the fault that ends the forwarding; (None, "") when there is none."""
        kinds = ("reset", "half_close", "stall")
        return min(((at, k) for k in kinds if (at := getattr(self, f"{k}_at")) is not None), default=(None, ""))


def linger_zero(connection):
    """Makes close() send RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Proxy:
    """Listens on a free loopback port and forwards every connection to `target`.

    with Proxy(server.address, up=Fault(fragment=1)) as proxy:
        wire.exchange(proxy.address, messages)

    cut() ends all connections, at the moment when it is called; `target` may change meanwhile.
    """

    def __init__(self, target, up=Fault(), down=Fault(), receive_buffer=0):
        self.target, self.up, self.down, self.receive_buffer = target, up, down, receive_buffer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.address = self.listener.getsockname()
        # One thread and no blocking calls: a socket that a thread waits on would not be closed until it returns.
        self.loop = asyncio.new_event_loop()
        self.main = self.loop.create_task(self._accept())
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.connections, self.resets = set(), False

    def cut(self, reset):
        """Ends all connections, with RST or FIN, and with what the proxy has taken of their bytes so far."""

        def end():
            self.resets = reset
            for task in self.connections:
                task.cancel()

        self.loop.call_soon_threadsafe(end)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.main.cancel)
        self.thread.join(20)
        assert not self.thread.is_alive(), "the proxy does not end"

    def _run(self):
        try:
            self.loop.run_until_complete(self.main)
        except asyncio.CancelledError:
            pass
        finally:
            self.loop.close()
            self.listener.close()

    async def _accept(self):
        try:
            while True:
                client, _ = await self.loop.sock_accept(self.listener)
                task = self.loop.create_task(self._forward(client))
                self.connections.add(task)
                task.add_done_callback(self.connections.discard)
        finally:
            for task in self.connections:
                task.cancel()
            await asyncio.gather(*self.connections, return_exceptions=True)

    async def _forward(self, client):
        with client, socket.socket() as server:
            if self.receive_buffer:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer)
            server.setblocking(False)
            client.setblocking(False)
            try:
                await self.loop.sock_connect(server, self.target)
            except OSError:  # nobody is there: the client sees that by the end of its connection
                return
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pumps = [
                self.loop.create_task(self._pump(client, server, self.up)),
                self.loop.create_task(self._pump(server, client, self.down)),
            ]
            try:
                await asyncio.gather(*pumps)
            except OSError:  # one side is gone, so the other one is told in the same way
                for one in (client, server):
                    linger_zero(one)
            except asyncio.CancelledError:
                for one in (client, server) if self.resets else ():
                    linger_zero(one)
                raise
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, source, sink, fault):
        end, kind = fault.end()
        most = fault.fragment if fault.rate or fault.delay_s else 1 << 16
        forwarded = 0
        while end is None or forwarded < end:
            data = await self.loop.sock_recv(source, most if end is None else min(most, end - forwarded))
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            for at in range(0, len(data), fault.fragment):
                piece = data[at : at + fault.fragment]
                await asyncio.sleep(fault.delay_s)
                await self.loop.sock_sendall(sink, piece)
                if fault.rate:
                    await asyncio.sleep(len(piece) / fault.rate)
            forwarded += len(data)
        if kind == "reset":
            raise ConnectionResetError("as asked")
        if kind == "half_close":
            sink.shutdown(socket.SHUT_WR)
            while await self.loop.sock_recv(source, 1 << 16):
                pass
        else:
            await self.loop.create_future()  # until the proxy ends
