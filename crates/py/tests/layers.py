"""Layers of the tests."""

import seekless


class Pass:
    """Passes everything on, by functions that return one request."""

    transparent = True

    def __init__(self, below):
        self.below = below

    def read(self, start, sectors):
        return self.below.read(start, sectors)

    def write(self, start, data):
        return self.below.write(start, data)

    def flush(self):
        return self.below.flush()


class Mirror:
    """Two copies, read in turn; a copy that cannot be read is made up for by the other one. With generators."""

    devices = ("copy",)
    edges = ("a copy cannot be read",)

    def __init__(self, below, copy):
        self.both = (below, copy)
        self.counters = {"reads": 0}

    def read(self, start, sectors):
        self.counters["reads"] += 1
        first = self.counters["reads"] % 2
        try:
            return (yield self.both[first].read(start, sectors))
        except seekless.IoError:
            seekless.edge("a copy cannot be read")
            return (yield self.both[1 - first].read(start, sectors))

    def write(self, start, data):
        yield seekless.together(*(device.write(start, data) for device in self.both))

    def flush(self):
        yield seekless.together(*(device.flush() for device in self.both))


class WriteBack:
    """Keeps writes in memory until a flush, as ``async`` methods do. With ``forgets`` a flush loses the last one."""

    transparent = True
    volatile = True
    edges = ("a read is served from memory",)

    def __init__(self, below, forgets=False):
        self.below, self.forgets = below, forgets
        self.kept, self.busy = {}, None

    async def read(self, start, sectors):
        # Before the read: a flush that ends meanwhile writes what the read may have missed, and drops it here.
        kept = {number: self.kept[start + number] for number in range(sectors) if start + number in self.kept}
        data = await self.below.read(start, sectors)
        if kept:
            seekless.edge("a read is served from memory")
        return seekless.Data.join([kept.get(number) or data.cut(number, 1) for number in range(sectors)])

    async def write(self, start, data):
        for number in range(data.sectors):
            self.kept[start + number] = data.cut(number, 1)

    async def flush(self):
        # One at a time: two writes of a sector that are in flight together may end in either order.
        while self.busy:
            await self.busy.wait()
        self.busy = seekless.Event()
        try:
            await self.write_back()
        finally:
            ended, self.busy = self.busy, None
            ended.set()
        await self.below.flush()

    async def write_back(self):
        written = sorted(self.kept.items())
        writes = written[:-1] if self.forgets else written
        await seekless.together(*(self.below.write(start, data) for start, data in writes))
        for start, data in written:
            if self.kept.get(start) is data:
                del self.kept[start]
