"""Paints Guacamole's drawing instructions with Pillow, as a browser would. Used by client.py.

Enough of the protocol for what guacd sends: images, copies, filled rectangles, layers and buffers.
"""

import base64
import io

from PIL import Image

SCREEN = (1024, 768)  # what both clients ask for, and the size of the VNC desktop

# The 216 colours that support/desktop.sh paints; xrdp's own login pages have a handful of them at most.
_STEPS = (0, 95, 135, 175, 215, 255)
_CUBE = {(r, g, b) for r in _STEPS for g in _STEPS for b in _STEPS}

_SRC = 0xC  # channel mask: replace what is there; others are laid over it


class Picture:
    def __init__(self):
        self._layers = {0: Image.new("RGBA", (1, 1))}
        self._positions = {}  # layer -> (parent, x, y, z), for visible layers other than 0
        self._rects = {}      # layer -> pending rectangle of its path
        self._streams = {}    # stream -> (mask, layer, x, y, pieces)
        self._sized = set()   # layers that have had their `size`
        self._changed = False  # since desktop_drawn last looked

    def apply(self, opcode, args):
        painter = getattr(self, f"_{opcode}", None)
        if painter:
            painter(*args)
            self._changed = True

    def image(self):
        """What the user sees: layer 0 with the visible layers upon it."""
        screen = self._layers[0].copy()
        # Copies: layers change while a test looks.
        layers, positions = dict(self._layers), dict(self._positions)
        self._lay_upon(screen, 0, (0, 0), layers, positions)
        return screen.convert("RGB")

    def _lay_upon(self, screen, parent, at, layers, positions):
        """Lays the visible layers of `parent` upon the screen, each with its own upon it, the lowest first."""
        # A layer that was never moved lies in the corner of the screen: a terminal is drawn on one.
        placed = [(positions.get(layer, (0, 0, 0, 0)), layer) for layer in layers if layer > 0]
        for (_parent, x, y, _z), layer in sorted((p for p in placed if p[0][0] == parent), key=lambda p: p[0][3]):
            x, y = max(at[0] + x, 0), max(at[1] + y, 0)
            screen.alpha_composite(layers[layer], (x, y))
            self._lay_upon(screen, layer, (x, y), layers, positions)

    def colours(self):
        """Number of pixels by colour."""
        image = self.image()
        return {colour: count for count, colour in image.getcolors(image.width * image.height)}

    def blank(self):
        return len(self.colours()) < 2

    def desktop_drawn(self):
        """Whether the test desktop (support/desktop.sh) is there whole, not merely some page or a part.

        For waiting: true once, and false again until something more is drawn.
        """
        # Looking is slow, and guacd slows down for a client that is late with its `sync`.
        if not self._changed:
            return False
        self._changed = False
        image = self.image()
        if image.size != SCREEN:
            return False
        right, bottom = SCREEN[0] - 3, SCREEN[1] - 3
        corners = {image.getpixel(at) for at in ((2, 2), (right, 2), (2, bottom), (right, bottom))}
        return len(corners) == 1 and corners != {(0, 0, 0)} and self.cube_drawn()

    def cube_drawn(self):
        """Whether nearly all of the cube colours are seen."""
        return len(_CUBE & self.colours().keys()) > 200

    def background(self):
        """The colour that a session's desktop drew by lot when it began."""
        return self.image().getpixel((2, 2))

    # Instructions, named as on the wire.

    def _size(self, layer, width, height):
        old = self._layer(int(layer))
        new = Image.new("RGBA", (int(width), int(height)))
        new.paste(old, (0, 0))
        self._layers[int(layer)] = new
        self._sized.add(int(layer))

    def _img(self, stream, mask, layer, _mimetype, x, y):
        self._streams[stream] = (int(mask), int(layer), int(x), int(y), [])

    def _blob(self, stream, data):
        if stream in self._streams:
            self._streams[stream][4].append(data)

    def _end(self, stream):
        if stream not in self._streams:
            return
        mask, layer, x, y, pieces = self._streams.pop(stream)
        data = b"".join(base64.b64decode(piece) for piece in pieces)
        self._draw(mask, layer, x, y, Image.open(io.BytesIO(data)).convert("RGBA"))

    def _copy(self, source, sx, sy, width, height, mask, layer, x, y):
        sx, sy = int(sx), int(sy)
        part = self._layer(int(source)).crop((sx, sy, sx + int(width), sy + int(height)))
        self._draw(int(mask), int(layer), int(x), int(y), part)

    def _rect(self, layer, x, y, width, height):
        self._rects[int(layer)] = (int(x), int(y), int(width), int(height))

    def _cfill(self, mask, layer, *rgba):
        if int(layer) in self._rects:
            x, y, width, height = self._rects.pop(int(layer))
            self._draw(int(mask), int(layer), x, y, Image.new("RGBA", (width, height), tuple(map(int, rgba))))

    def _move(self, layer, parent, x, y, z):
        self._positions[int(layer)] = (int(parent), int(x), int(y), int(z))

    def _dispose(self, layer):
        self._layers.pop(int(layer), None)
        self._positions.pop(int(layer), None)

    def _layer(self, number):
        return self._layers.setdefault(number, Image.new("RGBA", (1, 1)))

    def _draw(self, mask, layer, x, y, image):
        target = self._layer(layer)
        # Buffers grow as they are drawn to. So does the screen where its `size` never came: guacd 1.3.0
        # begins to draw before it has the new user on its list, and now and then that user misses the start.
        if layer < 0 or layer not in self._sized:
            size = max(target.width, x + image.width), max(target.height, y + image.height)
            if size != target.size:
                grown = Image.new("RGBA", size)
                grown.paste(target, (0, 0))
                target = self._layers[layer] = grown
        if mask == _SRC:
            target.paste(image, (x, y))
        else:
            target.paste(image, (x, y), image)
