//! What the checker says, a kind of violation after the other.

mod model;
mod properties;

use seekless_core::{Extent, Op};

use crate::check::{Found, Registers, Stamp};

fn page() -> Extent {
    Extent::new(812, 1)
}

fn write(registers: &mut Registers, id: u64) {
    registers.issue(id, Op::Write, page(), false);
    registers.done(id, true).unwrap();
}

fn of(write: u64) -> Found {
    if write == 0 { Found::Zeroes } else { Found::Stamp(Stamp { sector: 812, write }) }
}

#[test]
fn a_stale_read_is_told() {
    let mut registers = Registers::new();
    write(&mut registers, 17);
    write(&mut registers, 31);
    registers.issue(40, Op::Read, page(), false);
    let told = registers.read(40, [of(17)]).unwrap_err().to_string();
    assert_eq!(
        told,
        "sector 812: read 40 found write 17, which write 31 had replaced before the read began; expected write 31"
    );
}

#[test]
fn what_was_flushed_is_not_lost() {
    let mut registers = Registers::new();
    write(&mut registers, 17);
    registers.issue(18, Op::Flush, Extent::default(), false);
    registers.done(18, true).unwrap();
    write(&mut registers, 31);
    assert_eq!(registers.narrowed(), [812]);
    assert_eq!(registers.after_crash(812, of(31)), Ok(()));
    assert_eq!(registers.after_crash(812, of(17)), Ok(()));
    let told = registers.after_crash(812, of(0)).unwrap_err().to_string();
    assert_eq!(
        told,
        "sector 812: after a crash, found zeroes, though write 17 came later and was durable; expected write 17 or write 31"
    );
    registers.crash();
    registers.issue(40, Op::Read, page(), false);
    registers.read(40, [of(17)]).unwrap();
    registers.issue(41, Op::Read, page(), false);
    assert!(registers.read(41, [of(31)]).is_err(), "the first read settles it");
}
