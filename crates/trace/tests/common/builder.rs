//! Builds blktrace files byte by byte, in either byte order.

pub const READ: u32 = 1 << 16;
pub const WRITE: u32 = 2 << 16;
pub const FLUSH: u32 = 4 << 16;
pub const SYNC: u32 = 8 << 16;
pub const NOTE: u32 = 0x400 << 16;
pub const AHEAD: u32 = 0x800 << 16;
pub const META: u32 = 0x1000 << 16;
pub const DISCARD: u32 = 0x2000 << 16;
pub const FUA: u32 = 0x8000 << 16;
pub const PASSTHROUGH: u32 = 0x200 << 16;
pub const QUEUED: u32 = 1;
pub const COMPLETED: u32 = 8;
pub const REMAPPED: u32 = 15;
pub const CGROUP: u32 = 0x100;

pub const DISK: u32 = 8 << 20;
pub const PARTITION: u32 = 8 << 20 | 2;
pub const VOLUME: u32 = 253 << 20;

/// A trace under construction.
#[derive(Clone, Default)]
pub struct Builder {
    pub bytes: Vec<u8>,
    pub big_endian: bool,
    /// Whether records are of version 8; otherwise of version 7.
    pub v8: bool,
    /// Offset of each record.
    pub offsets: Vec<usize>,
}

impl Builder {
    pub fn big_endian() -> Builder {
        Builder { big_endian: true, ..Builder::default() }
    }

    /// Any record: time, sector, bytes, action, pid, device, payload.
    #[allow(clippy::too_many_arguments)]
    pub fn raw(
        mut self,
        magic: u32,
        time: u64,
        at: (u64, u32),
        action: u32,
        pid: u32,
        device: u32,
        payload: &[u8],
    ) -> Self {
        self.offsets.push(self.bytes.len());
        let magic = if self.v8 && magic == 0x6561_7407 { 0x6561_7408 } else { magic };
        self.put(&magic.to_le_bytes());
        self.put(&0_u32.to_le_bytes());
        self.put(&time.to_le_bytes());
        self.put(&at.0.to_le_bytes());
        self.put(&at.1.to_le_bytes());
        if self.v8 {
            self.put(&pid.to_le_bytes());
            self.put(&u64::from(action).to_le_bytes());
        } else {
            self.put(&action.to_le_bytes());
            self.put(&pid.to_le_bytes());
        }
        self.put(&device.to_le_bytes());
        self.put(&0_u32.to_le_bytes());
        self.put(&0_u16.to_le_bytes());
        self.put(&(payload.len() as u16).to_le_bytes());
        if self.v8 {
            self.bytes.extend([0; 12]);
        }
        self.bytes.extend_from_slice(payload);
        self
    }

    fn put(&mut self, little: &[u8]) {
        if self.big_endian {
            self.bytes.extend(little.iter().rev());
        } else {
            self.bytes.extend(little);
        }
    }

    pub fn action(self, time: u64, at: (u64, u32), action: u32, pid: u32, device: u32) -> Self {
        self.raw(0x6561_7407, time, at, action, pid, device, &[])
    }

    pub fn read(self, time: u64, sector: u64, bytes: u32, pid: u32) -> Self {
        self.action(time, (sector, bytes), QUEUED | READ, pid, DISK)
    }

    pub fn write(self, time: u64, sector: u64, bytes: u32, pid: u32) -> Self {
        self.action(time, (sector, bytes), QUEUED | WRITE, pid, DISK)
    }

    pub fn name(self, time: u64, pid: u32, name: &str) -> Self {
        let mut payload = [0; 16];
        payload[..name.len()].copy_from_slice(name.as_bytes());
        self.raw(0x6561_7407, time, (0, 0), NOTE, pid, 0, &payload)
    }

    /// From device and sector, to device and sector, seen at the disk.
    pub fn remap(self, time: u64, from: (u32, u64), to: (u32, u64), bytes: u32) -> Self {
        let payload = remap_payload(from, to.0);
        self.raw(0x6561_7407, time, (to.1, bytes), REMAPPED | READ, 1, DISK, &payload)
    }
}

pub fn remap_payload(from: (u32, u64), to_device: u32) -> Vec<u8> {
    [&from.0.to_be_bytes()[..], &to_device.to_be_bytes(), &from.1.to_be_bytes()].concat()
}
