"""A Guacamole client: guapy for the wire, a thread to keep it going. Used by the tests.

guapy does the handshake, encoding and decoding; this only answers `sync`, keeps the connection alive and
hands drawing to a Picture, which is what a browser page does.
"""

import asyncio
import threading

from guapy import ClientCapabilities, GuacamoleClient, GuacamoleConfiguration, GuacdEndpoint, Instruction
from guapy.exceptions import GuapyError

from .picture import Picture
from .waiting import until

_loop = asyncio.new_event_loop()
threading.Thread(target=_loop.run_forever, daemon=True).start()

_KEEP_ALIVE_SECONDS = 4  # guacd drops a user after 15 s of silence


class Client:
    """One open tunnel. `ready` holds the connection id that came back."""

    def __init__(self, address, parameters=None, protocol="rdp", join=None):
        self.picture = Picture()
        self.opcodes = []   # every opcode received after `ready`, in order
        self.error = None   # status code of the first `error`, a number
        self.ended = False  # the other side closed
        configuration = GuacamoleConfiguration(
            protocol=None if join else protocol, connection_id=join, parameters=parameters or {})
        self._session = asyncio.run_coroutine_threadsafe(
            GuacamoleClient(handshake_timeout=20).connect(
                GuacdEndpoint(*address), configuration,
                capabilities=ClientCapabilities(timezone="Etc/UTC", name="tester")), _loop).result()
        self.ready = self._session.connection_id
        self._failure = None
        self._tasks = [asyncio.run_coroutine_threadsafe(work(), _loop) for work in (self._read, self._keep_alive)]

    async def _read(self):
        try:
            while True:
                try:
                    instruction = await self._session.receive()
                except GuapyError as error:
                    # guapy raises on `error` too; the stream itself goes on, up to `disconnect`.
                    code = error.details.get("guacd_status_code")
                    if code is None:
                        raise
                    self.opcodes.append("error")
                    self.error = self.error or code
                    continue
                if instruction is None:
                    return
                self.opcodes.append(instruction.opcode)
                self.picture.apply(instruction.opcode, instruction.args)
                if instruction.opcode == "sync":
                    await self._session.send(Instruction.create("sync", instruction.args[0]))
        except Exception as failure:  # kept for the test that waits: a thread's traceback helps nobody
            self._failure = failure
        finally:
            self.ended = True

    async def _keep_alive(self):
        while not self.ended:
            try:
                await self._session.send(Instruction.create("nop"))
            except GuapyError:
                return  # the reader tells of the end
            await asyncio.sleep(_KEEP_ALIVE_SECONDS)

    def until(self, condition, seconds, what):
        """Waits for `condition`; fails at once when the tunnel ended without it."""
        def check():
            ended = self.ended  # before the condition: what came with the end counts
            value = condition()
            if not value and ended:
                raise AssertionError(f"tunnel ended (error {self.error}, {self._failure!r}) before: {what}; "
                                     f"last instructions {self.opcodes[-10:]}")
            return value
        return until(check, seconds, lambda: f"{what}; instructions {self.opcodes[:30]} to {self.opcodes[-10:]}, "
                                             f"a picture of {self.picture.image().size}")

    def until_desktop(self, seconds=30, told=lambda: ""):
        """Waits until the test desktop is drawn; `told` adds what else is known where it is not."""
        try:
            self.until(self.picture.desktop_drawn, seconds, "the desktop is drawn")
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{told()}") from None
        return self

    def close(self):
        """Leaves as a browser does: `disconnect`, then the connection."""
        asyncio.run_coroutine_threadsafe(self._leave(), _loop).result(10)

    async def _leave(self):
        for task in self._tasks:
            task.cancel()
        try:
            await self._session.send(Instruction.create("disconnect"))
        except GuapyError:
            pass  # already gone
        await self._session.close()

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()
