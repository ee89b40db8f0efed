//! After a write that failed, reads agree with each other, whichever of them finds a block unreadable.

use super::*;
use crate::under_test::reached;

/// Bytes of a block.
const BLOCK: u64 = 4_096;

#[test]
fn reads_agree_after_a_failed_write_whichever_of_them_has_to_be_computed() {
    let (mut read, mut made_consistent) = (0, false);
    for (failing, nth) in (0..3_usize).flat_map(|failing| (2..8_u64).map(move |nth| (failing, nth))) {
        let ((), edges) = world(async || {
            let devices = Devices::new(false, "");
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 1).await.unwrap();
            raid.stop().await.unwrap();
            let layout = raid.members.layout;
            let (first, member) = (layout.locate(0), layout.member(0, 0));
            let at = layout.block(first.group, first.row) * BLOCK;
            let area = format!("at = '{at}B'\nsize = '{BLOCK}B'");
            // One write of the row fails, and from some time on all reads of the block that is written.
            let faulty = devices.map(|number, device| {
                let writes = format!("ops = ['write']\n{area}");
                let reads = format!("ops = ['read']\nfor_ever = true\nnth = {nth}\n{area}");
                let device = if number == failing { with_error(device, &writes) } else { device.clone() };
                if number == member { with_error(&device, &reads) } else { device }
            });
            let raid = faulty.open().await.unwrap();
            let written = write(&*raid, 0, 8, 2).await;
            assert!(written.is_err() || failing == 1, "member 1 has no block of that row that is written");
            let mut found = Vec::new();
            for _ in 0..8 {
                found.extend(values(&*raid, Extent::new(0, 8)).await.unwrap_or_default());
            }
            read += found.len();
            found.dedup();
            assert!(found.len() < 2, "failing {failing}, {nth}: {found:?}");
        });
        made_consistent |= reached(&edges, "a group of which a write failed is made consistent");
    }
    assert!(made_consistent && read > 500, "{read} sectors were read");
}
