//! Messages of vhost-user: bytes in, values out, and replies. See `docs/interop/vhost-user.rst` of QEMU.
//!
//! A message is a header of twelve bytes (request, flags, size of the payload), the payload, and descriptors beside it.
//! All numbers are in the machine's byte order.

use super::memory::Region;
use super::ring::Addresses;
use super::{Malformed, block};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 12;
/// Bytes of the longest payload: a header of configuration space, and all of it.
const MOST_BYTES: usize = 512;
/// Regions of memory in a message, and so descriptors beside it.
pub const MOST_REGIONS: usize = 8;

/// Bytes of the description of an area, and of the padding after it.
const AREA_BYTES: usize = 20;
const AREA_PADDING: usize = 4;

const VERSION: u32 = 1;
const VERSION_BITS: u32 = 0b11;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// Bit of the features: the frontend and the backend agree on protocol features, too.
pub const F_PROTOCOL_FEATURES: u64 = 1 << 30;
/// Protocol features: several rings, an acknowledgement of each message, configuration space, requests in flight in
/// shared memory, and a reset.
pub const PROTOCOL_MQ: u64 = 1 << 0;
/// See [`PROTOCOL_MQ`].
pub const PROTOCOL_REPLY_ACK: u64 = 1 << 3;
/// See [`PROTOCOL_MQ`].
pub const PROTOCOL_CONFIG: u64 = 1 << 9;
/// See [`PROTOCOL_MQ`].
pub const PROTOCOL_INFLIGHT_SHMFD: u64 = 1 << 12;
/// See [`PROTOCOL_MQ`].
pub const PROTOCOL_RESET_DEVICE: u64 = 1 << 13;
/// All of them that are offered.
pub const PROTOCOL_FEATURES: u64 =
    PROTOCOL_MQ | PROTOCOL_REPLY_ACK | PROTOCOL_CONFIG | PROTOCOL_INFLIGHT_SHMFD | PROTOCOL_RESET_DEVICE;

/// Of the number of a ring with a descriptor: no descriptor follows.
const NO_DESCRIPTOR: u64 = 1 << 8;

/// A message's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the request.
    pub request: u32,
    /// Whether the peer wants an acknowledgement, if that was negotiated.
    pub needs_reply: bool,
    /// Bytes of the payload.
    pub bytes: usize,
}

/// An area for requests in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Its size in bytes, and where it begins in its file.
    pub bytes: u64,
    /// See `bytes`.
    pub offset: u64,
    /// Rings.
    pub rings: u16,
    /// Entries of each.
    pub entries: u16,
}

/// A request of the frontend. Numbers of rings are valid, and as many descriptors were sent as the message takes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the specification's names
pub enum Message {
    GetFeatures,
    SetFeatures(u64),
    SetOwner,
    ResetOwner,
    SetMemTable(Vec<Region>),
    SetVringNum { ring: usize, entries: u16 },
    SetVringAddr { ring: usize, at: Addresses },
    SetVringBase { ring: usize, base: u16 },
    GetVringBase { ring: usize },
    SetVringKick { ring: usize },
    SetVringCall { ring: usize },
    SetVringErr { ring: usize },
    GetProtocolFeatures,
    SetProtocolFeatures(u64),
    GetQueueNum,
    SetVringEnable { ring: usize, enabled: bool },
    GetConfig { offset: u32, bytes: u32, flags: u32 },
    SetConfig { offset: u32, bytes: Vec<u8> },
    GetInflightFd(Area),
    SetInflightFd(Area),
    ResetDevice,
}

impl Header {
    /// The header in these bytes.
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Malformed> {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (request, flags, size) = (word(0), word(4), word(8) as usize);
        let place = || format!("vhost-user message {request}");
        if flags & VERSION_BITS != VERSION {
            let found = format!("version {}", flags & VERSION_BITS);
            return Err(Malformed::new(place(), found, format!("version {VERSION}")));
        } else if flags & REPLY != 0 {
            return Err(Malformed::new(place(), "a reply", "a request"));
        } else if size > MOST_BYTES {
            let expected = format!("at most {MOST_BYTES}");
            return Err(Malformed::new(place(), format!("a payload of {size} bytes"), expected));
        }
        Ok(Header { request, needs_reply: flags & NEED_REPLY != 0, bytes: size })
    }

    /// A reply to it with this payload.
    pub fn reply(&self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        for word in [self.request, VERSION | REPLY, payload.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(payload);
        bytes
    }
}

/// Reader of a payload of a known length.
struct Payload<'a> {
    place: &'static str,
    bytes: &'a [u8],
}

impl<'a> Payload<'a> {
    fn malformed(&self, found: String, expected: impl Into<String>) -> Malformed {
        Malformed::new(self.place, found, expected)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let Some((first, rest)) = self.bytes.split_first_chunk::<N>() else {
            return Err(self.malformed(format!("{} bytes", self.bytes.len()), format!("{N} more")));
        };
        self.bytes = rest;
        Ok(*first)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_ne_bytes)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    /// The number of a ring.
    fn ring(&self, number: u64) -> Result<usize, Malformed> {
        let known = usize::try_from(number).ok().filter(|ring| *ring < block::RINGS);
        known.ok_or_else(|| self.malformed(format!("ring {number}"), format!("below {}", block::RINGS)))
    }

    /// The number of a ring, and a number that goes with it.
    fn state(&mut self) -> Result<(usize, u32), Malformed> {
        let ring = self.u32()?;
        Ok((self.ring(ring.into())?, self.u32()?))
    }

    /// As `state`, for a number of 16 bits.
    fn small_state(&mut self) -> Result<(usize, u16), Malformed> {
        let (ring, number) = self.state()?;
        let small = u16::try_from(number).map_err(|_| self.malformed(number.to_string(), "at most 65535"))?;
        Ok((ring, small))
    }

    /// The number of a ring that a descriptor is for, and whether there is one.
    fn descriptor(&mut self) -> Result<(usize, usize), Malformed> {
        let word = self.u64()?;
        let ring = self.ring(word & !NO_DESCRIPTOR)?;
        Ok((ring, usize::from(word & NO_DESCRIPTOR == 0)))
    }

    fn regions(&mut self) -> Result<Vec<Region>, Malformed> {
        let (count, _padding) = (self.u32()? as usize, self.u32()?);
        if count == 0 || count > MOST_REGIONS {
            return Err(self.malformed(format!("{count} regions"), format!("1 to {MOST_REGIONS}")));
        }
        let one = |_| {
            let [guest, bytes, user, offset] = [self.u64()?, self.u64()?, self.u64()?, self.u64()?];
            Ok(Region { guest, bytes, user, offset })
        };
        (0..count).map(one).collect()
    }

    fn addresses(&mut self) -> Result<Message, Malformed> {
        let (ring, _flags) = self.state()?;
        let (descriptors, used, available) = (self.u64()?, self.u64()?, self.u64()?);
        let _log = self.u64()?;
        Ok(Message::SetVringAddr { ring, at: Addresses { descriptors, available, used } })
    }

    fn area(&mut self) -> Result<Area, Malformed> {
        let area = Area { bytes: self.u64()?, offset: self.u64()?, rings: self.u16()?, entries: self.u16()? };
        // The structure has padding at its end, which some frontends send.
        if self.bytes.len() == AREA_PADDING {
            self.rest();
        }
        Ok(area)
    }

    fn config(&mut self) -> Result<(u32, u32, u32, &'a [u8]), Malformed> {
        let (offset, bytes, flags) = (self.u32()?, self.u32()?, self.u32()?);
        let payload = self.rest();
        if payload.len() != bytes as usize {
            return Err(
                self.malformed(format!("{} bytes of configuration", payload.len()), bytes.to_string())
            );
        }
        Ok((offset, bytes, flags, payload))
    }
}

impl Message {
    /// The message with this payload, beside which `descriptors` descriptors were sent.
    pub fn read(header: Header, payload: &[u8], descriptors: usize) -> Result<Message, Malformed> {
        let place = name(header.request).ok_or_else(|| {
            let found = format!("request {}", header.request);
            Malformed::new("vhost-user message", found, "one that the features offered allow")
        })?;
        let mut payload = Payload { place, bytes: payload };
        let (message, expected) = Message::of(header.request, &mut payload)?;
        if !payload.bytes.is_empty() {
            let found = format!("{} bytes after the end", payload.bytes.len());
            return Err(payload.malformed(found, "none"));
        } else if descriptors != expected {
            return Err(payload.malformed(format!("{descriptors} descriptors"), expected.to_string()));
        }
        Ok(message)
    }

    /// The message, and the number of descriptors that it takes.
    fn of(request: u32, payload: &mut Payload<'_>) -> Result<(Message, usize), Malformed> {
        let message = match request {
            1 => Message::GetFeatures,
            2 => Message::SetFeatures(payload.u64()?),
            3 => Message::SetOwner,
            4 => Message::ResetOwner,
            5 => {
                let regions = payload.regions()?;
                let count = regions.len();
                return Ok((Message::SetMemTable(regions), count));
            }
            8 => {
                let (ring, entries) = payload.small_state()?;
                Message::SetVringNum { ring, entries }
            }
            9 => payload.addresses()?,
            10 => {
                let (ring, base) = payload.small_state()?;
                Message::SetVringBase { ring, base }
            }
            11 => Message::GetVringBase { ring: payload.state()?.0 },
            12..=14 => {
                let (ring, descriptors) = payload.descriptor()?;
                let message = match request {
                    12 => Message::SetVringKick { ring },
                    13 => Message::SetVringCall { ring },
                    _ => Message::SetVringErr { ring },
                };
                return Ok((message, descriptors));
            }
            15 => Message::GetProtocolFeatures,
            16 => Message::SetProtocolFeatures(payload.u64()?),
            17 => Message::GetQueueNum,
            18 => {
                let (ring, enabled) = payload.state()?;
                Message::SetVringEnable { ring, enabled: enabled != 0 }
            }
            24 => {
                let (offset, bytes, flags, _) = payload.config()?;
                Message::GetConfig { offset, bytes, flags }
            }
            25 => {
                let (offset, _, _, bytes) = payload.config()?;
                Message::SetConfig { offset, bytes: bytes.to_vec() }
            }
            31 => Message::GetInflightFd(payload.area()?),
            32 => return Ok((Message::SetInflightFd(payload.area()?), 1)),
            _ => Message::ResetDevice,
        };
        Ok((message, 0))
    }

    /// Whether it has a reply of its own, so that no acknowledgement follows.
    pub fn is_answered(&self) -> bool {
        matches!(
            self,
            Message::GetFeatures
                | Message::GetVringBase { .. }
                | Message::GetProtocolFeatures
                | Message::GetQueueNum
                | Message::GetConfig { .. }
                | Message::GetInflightFd(_)
        )
    }
}

/// The specification's name of a request; `None` for those that no offered feature allows.
fn name(request: u32) -> Option<&'static str> {
    Some(match request {
        1 => "GET_FEATURES",
        2 => "SET_FEATURES",
        3 => "SET_OWNER",
        4 => "RESET_OWNER",
        5 => "SET_MEM_TABLE",
        8 => "SET_VRING_NUM",
        9 => "SET_VRING_ADDR",
        10 => "SET_VRING_BASE",
        11 => "GET_VRING_BASE",
        12 => "SET_VRING_KICK",
        13 => "SET_VRING_CALL",
        14 => "SET_VRING_ERR",
        15 => "GET_PROTOCOL_FEATURES",
        16 => "SET_PROTOCOL_FEATURES",
        17 => "GET_QUEUE_NUM",
        18 => "SET_VRING_ENABLE",
        24 => "GET_CONFIG",
        25 => "SET_CONFIG",
        31 => "GET_INFLIGHT_FD",
        32 => "SET_INFLIGHT_FD",
        34 => "RESET_DEVICE",
        _ => return None,
    })
}

/// Payload of a reply that is a number.
pub fn number(number: u64) -> [u8; 8] {
    number.to_ne_bytes()
}

/// Payload of the reply to [`Message::GetVringBase`].
pub fn base(ring: usize, base: u16) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&(ring as u32).to_ne_bytes());
    bytes[4..].copy_from_slice(&u32::from(base).to_ne_bytes());
    bytes
}

/// Payload of the reply to [`Message::GetInflightFd`]: as long as the request's, which may end with padding.
pub fn area(area: &Area, header: Header) -> Vec<u8> {
    let mut bytes = [area.bytes.to_ne_bytes(), area.offset.to_ne_bytes()].concat();
    bytes.extend(area.rings.to_ne_bytes());
    bytes.extend(area.entries.to_ne_bytes());
    bytes.resize(header.bytes.max(AREA_BYTES), 0);
    bytes
}

/// Payload of the reply to [`Message::GetConfig`].
pub fn config(offset: u32, flags: u32, bytes: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(12 + bytes.len());
    for word in [offset, bytes.len() as u32, flags] {
        payload.extend(word.to_ne_bytes());
    }
    payload.extend(bytes);
    payload
}
