"""Policies of the tests: those that the program has, in Python."""

from collections import OrderedDict


class Lru:
    """The page that was used longest ago; it needs to know no pinned pages, unless a cache writes back."""

    def __init__(self, pages):
        self.queue = OrderedDict()

    def insert(self, page):
        self.queue[page] = None

    def hit(self, page):
        self.queue.move_to_end(page)

    def remove(self, page):
        del self.queue[page]

    def evict(self):
        return self.queue.popitem(last=False)[0] if self.queue else None


class PinnedLru(Lru):
    """The same, with pages that keep their place but are passed over."""

    def __init__(self, pages):
        super().__init__(pages)
        self.pinned = set()

    def pin(self, page, pinned):
        (self.pinned.add if pinned else self.pinned.discard)(page)

    def remove(self, page):
        super().remove(page)
        self.pinned.discard(page)

    def evict(self):
        page = next((page for page in self.queue if page not in self.pinned), None)
        if page is not None:
            del self.queue[page]
        return page


class S3Fifo:
    """Three queues, with libCacheSim's parameters; without pinned pages."""

    def __init__(self, pages):
        self.small, self.main = OrderedDict(), OrderedDict()
        self.evicted, self.returning = OrderedDict(), OrderedDict()
        self.small_at_most = -(-pages // 10)
        self.main_at_most = pages - self.small_at_most
        self.evicted_at_most = pages * 9 // 10
        self.full = False

    def miss(self, page):
        if page in self.evicted:
            del self.evicted[page]
            if len(self.returning) >= self.evicted_at_most:
                self.returning.popitem(last=False)
            self.returning[page] = None

    def insert(self, page):
        known = self.returning.pop(page, self) is None or self.evicted.pop(page, self) is None
        overflows = not self.full and len(self.small) >= self.small_at_most
        (self.main if known or overflows else self.small)[page] = 0

    def hit(self, page):
        queue = self.small if page in self.small else self.main
        queue[page] = min(3, queue[page] + 1)

    def remove(self, page):
        if self.small.pop(page, None) is None:
            del self.main[page]

    def evict(self):
        self.full = True
        if len(self.main) > self.main_at_most:
            return self.evict_main() if self.main else self.evict_small()
        page = self.evict_small()
        return page if page is not None else self.evict_main()

    def evict_small(self):
        while self.small:
            page, uses = self.small.popitem(last=False)
            if uses >= 2:
                self.main[page] = 0
                continue
            if self.evicted_at_most:
                if len(self.evicted) >= self.evicted_at_most:
                    self.evicted.popitem(last=False)
                self.evicted[page] = None
            return page
        return None

    def evict_main(self):
        while self.main:
            page, uses = self.main.popitem(last=False)
            if uses == 0:
                return page
            self.main[page] = uses - 1
        return None
