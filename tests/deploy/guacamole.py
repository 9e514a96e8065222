"""What Guacamole says for one connection of one user, and what it hears."""

from wire import Wire


class Guacamole(Wire):
    """An open desktop, on a socket that was dialled; `id` is the connection's. `select` is a protocol, or
    the id of a connection to join."""

    def __init__(self, socket, select, parameters):
        super().__init__(socket)
        self.say("select", select)
        names = self.hear("args")
        for settings in [("size", "640", "480", "96"), ("audio",), ("video",), ("image", "image/png")]:
            self.say(*settings)
        self.say("connect", *(name if name.startswith("VERSION_") else parameters.get(name, "") for name in names))
        (self.id,) = self.hear("ready")
        # guacd 1.3.0 takes a mouse that moves before its first picture amiss.
        self.hear("sync")

    def hear(self, opcode):
        """The arguments of the next such instruction; syncs are answered on the way."""
        while True:
            said, *arguments = self.next()
            if said == "sync":
                self.say("sync", arguments[0])
            if said == opcode:
                return arguments
            assert said != "error", arguments

    def moves(self, x):
        """The mouse goes there, and frames go on."""
        self.say("mouse", str(x), "10", "0")
        self.hear("sync")

    def leave(self):
        self.say("disconnect")
        self.socket.close()
