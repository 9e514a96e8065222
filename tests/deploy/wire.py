"""Instructions of Guacamole's protocol, over a socket."""

from mounted import DEADLINE


def instruction(*elements):
    return (",".join(f"{len(each)}.{each}" for each in elements) + ";").encode()


class Wire:
    """Instructions over a socket; all of it is ASCII."""

    def __init__(self, connection):
        self.socket = connection
        self.socket.settimeout(DEADLINE)
        self.read = b""

    def say(self, *elements):
        self.socket.sendall(instruction(*elements))

    def next(self):
        elements = []
        while True:
            length, _, rest = self.read.partition(b".")
            if rest and len(rest) > int(length):
                element, end, self.read = rest[:int(length)], rest[int(length):][:1], rest[int(length) + 1:]
                elements.append(element.decode())
                if end == b";":
                    return elements
            else:
                more = self.socket.recv(65536)
                if not more:
                    raise EOFError
                self.read += more

    def hear(self, opcode):
        """The arguments of the next such instruction."""
        while True:
            said, *arguments = self.next()
            if said == opcode:
                return arguments
