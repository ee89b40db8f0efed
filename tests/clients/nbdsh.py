# What a program in Python does with an export, by libnbd; run by nbdsh, which has a handle `h`. `uri` is the export's.
import errno, os, random

h.set_opt_mode(True)
h.add_meta_context("base:allocation")
h.add_meta_context("seekless:place")
h.connect_uri(uri)
listed = []
assert h.opt_list(lambda name, description: listed.append(name)) == len(listed) and "disk" in listed, listed
contexts = []
h.opt_list_meta_context(lambda name: contexts.append(name))
assert contexts[:2] == ["base:allocation", "seekless:place"], contexts
h.opt_go()
assert h.get_block_size(nbd.SIZE_MINIMUM) == 1 and h.can_df() and h.can_multi_conn()
piece = h.get_block_size(nbd.SIZE_MAXIMUM) // 2
size = h.get_size()

# Many at once, checked against a copy.
seed = random.Random(7)
model = bytearray(size)
waiting = []
for turn in range(300):
    start = seed.randrange(size // 512 - 128) * 512
    length = seed.randrange(1, 128) * 512
    kind = seed.randrange(4)
    if kind == 0:
        data = seed.randbytes(length)
        model[start:start + length] = data
        waiting.append(h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data)), start, flags=nbd.CMD_FLAG_FUA if turn % 8 == 0 else 0))
    elif kind == 1:
        model[start:start + length] = bytes(length)
        waiting.append(h.aio_zero(length, start, flags=nbd.CMD_FLAG_NO_HOLE if turn % 2 else 0))
    elif kind == 2:
        h.cache(length, start)
        h.flush()
    else:
        h.trim(length, start)
        model[start:start + length] = h.pread(length, start)
    while waiting and kind != 2:
        h.poll(-1)
        waiting = [cookie for cookie in waiting if not h.aio_command_completed(cookie)]
for start in range(0, size, piece):
    assert h.pread(min(piece, size - start), start) == model[start:start + piece]

# Parts of a reply to a read, with holes or without.
def read(flags):
    got = bytearray(piece)
    chunks = []
    def chunk(data, offset, status, error):
        got[offset:offset + len(data)] = data
        chunks.append(status)
    h.pread_structured(piece, 0, chunk, flags=flags)
    assert got == model[:piece]
    return chunks
read(0)
assert read(nbd.CMD_FLAG_DF) == [nbd.READ_DATA]

told = {}
def extents(context, offset, entries, error):
    told[context] = entries
h.block_status(size, 0, extents)
assert set(told) == {"base:allocation", "seekless:place"}, told
h.block_status(size, 0, extents, flags=nbd.CMD_FLAG_REQ_ONE)
assert all(len(entries) == 2 for entries in told.values()), told

# What makes no sense is an error, and the connection goes on.
h.set_strict_mode(0)
def fails(work, number):
    try:
        work()
    except nbd.Error as error:
        assert error.errnum == number, error
    else:
        assert False, "it succeeds"
fails(lambda: h.pread(512, size), errno.EINVAL)
fails(lambda: h.pwrite(bytes(512), size), errno.ENOSPC)
assert h.pread(100, 7) == model[7:107]
fails(lambda: h.pread(512, 0, flags=1 << 9), errno.EINVAL)
assert h.pread(512, 0) == model[:512]
h.shutdown()

# Who asks for no sizes of blocks may take any bytes; who wants no structured replies gets simple ones.
other = nbd.NBD()
other.set_request_block_size(False)
other.set_request_structured_replies(False)
other.connect_uri(uri)
assert not other.get_structured_replies_negotiated()
other.pwrite(b"some bytes", 1001)
assert other.pread(12, 1000) == model[1000:1001] + b"some bytes" + model[1011:1012]
other.shutdown()
