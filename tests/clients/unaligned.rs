//! Unaligned requests succeed, whether or not the client negotiated block sizes.

use crate::noise;
use crate::raw::{FUA, Raw};
use crate::server::{KINDS, Server, volume};

const SIZE: usize = 8 << 20;

/// On a file and on a mapper over one, on both kinds.
fn on_each(test: impl Fn(&Server, &str)) {
    for kind in KINDS {
        for (export, layer) in [("disk", ""), ("mapper", "[layer.mapper]\nover = \"disk\"\n")] {
            let folder = tempfile::tempdir().unwrap();
            crate::sparse(&folder.path().join("disk.img"), 2 * SIZE as u64);
            let components = format!("[component.disk]\nfile = \"disk.img\"\n{layer}");
            volume(folder.path(), &components, &[(export, "")]);
            let Some(server) = Server::start(folder.path(), kind) else { continue };
            test(&server, export);
            let last = server.stop();
            assert!(last.contains(", 0 of them with an error"), "{last}");
        }
    }
}

#[test]
fn clients_without_block_sizes_read_and_write_any_bytes() {
    on_each(|server, export| {
        let mut raw = Raw::open(&server.folder, export);
        let mut model = vec![0; SIZE];
        let places = noise(8 * 600, 11);
        for (turn, place) in places.chunks(8).enumerate() {
            let place = u64::from_le_bytes(place.try_into().unwrap());
            let (start, len) = ((place >> 20) as usize % (SIZE - 10_000), 1 + place as usize % 9_000);
            let bytes = &noise(9_008, turn as u64)[..len];
            if turn % 5 == 4 {
                raw.ask(6, 0, 8, start as u64, len as u32).unwrap();
                assert_eq!(raw.reply().unwrap(), (8, 0));
                model[start..start + len].fill(0);
            } else {
                let flags = if turn % 9 == 0 { FUA } else { 0 };
                assert_eq!(raw.write(flags, start as u64, bytes).unwrap(), 0);
                model[start..start + len].copy_from_slice(bytes);
            }
            let (from, to) = (start.saturating_sub(77), start + len + 77);
            assert_eq!(raw.read(from as u64, (to - from) as u32).unwrap(), model[from..to]);
        }
        assert!(raw.read(0, SIZE as u32).unwrap() == model, "{export}");
        assert_eq!(raw.read(SIZE as u64 - 1, 1).unwrap(), model[SIZE - 1..]);
    });
}

#[test]
fn clients_with_block_sizes_may_write_a_byte() {
    on_each(|server, export| {
        let (mut one, mut other) =
            (Raw::with_block_sizes(&server.folder, export), Raw::with_block_sizes(&server.folder, export));
        assert_eq!(one.write(0, 0, &[1; 4096]).unwrap(), 0);
        assert_eq!((one.write(0, 100, &[2]).unwrap(), other.write(FUA, 4095, &[3; 2]).unwrap()), (0, 0));
        let mut model = [vec![1; 4096], vec![0; 4096]].concat();
        (model[100], model[4095], model[4096]) = (2, 3, 3);
        assert_eq!(one.read(0, 8192).unwrap(), model, "{export}");
        assert_eq!(other.read(99, 3).unwrap(), [1, 2, 1], "{export}");
    });
}

#[test]
fn two_clients_that_write_into_one_sector_leave_each_other_what_they_wrote() {
    on_each(|server, export| {
        let folder = &server.folder;
        std::thread::scope(|scope| {
            for writer in 0..4_u64 {
                scope.spawn(move || {
                    let mut raw = Raw::open(folder, export);
                    for byte in (writer..2048).step_by(4) {
                        assert_eq!(raw.write(0, byte, &[writer as u8 + 1]).unwrap(), 0);
                    }
                });
            }
        });
        let read = Raw::open(folder, export).read(0, 2048).unwrap();
        assert!((0..2048).all(|byte| read[byte] == (byte % 4) as u8 + 1), "{export}: a byte is lost");
    });
}
