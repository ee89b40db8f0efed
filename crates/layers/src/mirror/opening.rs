//! Opening a mirror, and creating one.
//!
//! The labels say which mirror the members are of, and which of them are out of service: the newest one counts. A
//! member that is blank or unreadable is missing, and that is recorded before anything else. So is one in service that
//! has not recorded what all had reached before the newest label: its contents are old. It gets everything. Refused are
//! members of another mirror or at another place; members out of service alone, which lack what was written since; and
//! members of which each says that the other one is out of service, since both were written without the other.
//!
//! Creating has two steps, each durable on all members: *forming*, which a crash leaves to be begun again, and formed.
//! So blank members beside others of a mirror are missing, and never new.

use std::rc::Rc;

use seekless_core::runtime::{self, edge, first_number};
use seekless_core::{BlockDevice, Extent, Hints, IoError, PAGE_SECTORS};

use super::Mirror;
use super::label::{self, Bits, Label, Probed, State};
use super::members::Members;
use super::options::{MOST, NAME, Options};
use crate::arrays::{self, Trouble};
use crate::contents::{self, New};
use crate::join::join_all;
use crate::registry::Below;

/// What is found on a device, in messages and before it is overwritten.
const CONTENTS: &str = "a member of a mirror";

fn refused(found: &str, expected: &str) -> IoError {
    arrays::refused(NAME, found, expected)
}

/// Events that a member in service may be behind where the newest label does not say which one all had reached, as it
/// was written by an older program, and that a member may be behind which left. A crash between two labels costs one,
/// and more crashes each time before the next label is on all members a few.
const BEHIND: u64 = 16;

/// What the labels say of a mirror.
struct Assembled {
    label: Label,
    /// The event that each member has recorded.
    events: [u64; MOST],
    /// Members out of service, and missing ones.
    out: u16,
    /// Those of them that are there, with what the labels know.
    known: u16,
    /// Why they are out.
    why: Vec<(usize, String)>,
}

fn list(members: &[usize]) -> String {
    members.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ")
}

/// Reads the members' labels; for a new mirror the number of events so far.
async fn assemble(devices: &[Rc<dyn BlockDevice>]) -> Result<Result<Assembled, u64>, IoError> {
    let found = join_all(devices.iter().map(|device| label::find(&**device))).await;
    let members: Vec<(usize, usize, Label)> = found
        .iter()
        .enumerate()
        .filter_map(|(number, found)| {
            if let Probed::Member(member, label) = found { Some((number, *member, **label)) } else { None }
        })
        .collect();
    // A start without the only member that has an event may have begun another one with its number.
    let newest = members
        .iter()
        .map(|(.., label)| *label)
        .max_by_key(|label| (label.state == State::Formed, label.events, is_confirmed(label, &members)));
    for (number, found) in found.iter().enumerate() {
        match found {
            Probed::Other => {
                let found = format!("data on member {number} that is of no mirror");
                return Err(refused(&found, "zeroes or a member"));
            }
            // What cannot be read may be the label of a mirror whose creation has ended: it is not created again.
            Probed::Unreadable(error) if newest.is_none_or(|newest| newest.state == State::Forming) => {
                let lost = || refused(&format!("damaged labels on member {number}"), "a member");
                return Err(error.clone().unwrap_or_else(lost));
            }
            _ => {}
        }
    }
    let Some(label) = newest.filter(|newest| newest.state == State::Formed) else {
        if newest.is_some() {
            edge("a mirror whose creation was cut short is created again");
        } else {
            edge("zeroes where no label was written: a new mirror");
        }
        return Ok(Err(newest.map_or(first_number(), |newest| newest.events)));
    };
    check_members(&members, &label, devices)?;
    check_apart(&members)?;
    let label_of = |number: usize| members.iter().find(|(there, ..)| *there == number).map(|(.., of)| of);
    let is_old = |number: usize| label_of(number).is_some_and(|of| of.events < least_events(&label, number));
    let is_there =
        |number: usize| label_of(number).is_some_and(|of| of.joined[number] == label.joined[number]);
    let belongs = |number: usize| is_there(number) && !is_old(number);
    let numbers = || 0..devices.len();
    let bits = |of: &dyn Fn(usize) -> bool| {
        numbers().filter(|number| of(*number)).fold(0, |bits, number| bits | 1 << number)
    };
    let out: u16 = label.out | bits(&|number| !belongs(number));
    let known = bits(&|number| out >> number & 1 == 1 && belongs(number));
    if out.count_ones() as usize == devices.len() {
        let there: Vec<usize> = numbers().filter(|number| belongs(*number)).collect();
        let expected: Vec<usize> = numbers().filter(|number| !label.is_out(*number)).collect();
        let found = format!("only members that lack what was written without them ({})", list(&there));
        return Err(refused(&found, &format!("one that has everything ({})", list(&expected))));
    }
    if numbers().any(|number| is_there(number) && is_old(number)) {
        edge("a member with old contents is out of service");
    }
    let why = |number: usize| why(&found[number], is_there(number), is_old(number));
    let why = numbers().filter(|number| out >> number & 1 == 1).map(|number| (number, why(number))).collect();
    let events = std::array::from_fn(|number| label_of(number).map_or(0, |of| of.events));
    Ok(Ok(Assembled { label, events, out, known, why }))
}

/// The event that a member has recorded, unless its contents are old.
fn least_events(label: &Label, member: usize) -> u64 {
    match label.is_out(member) {
        // It has what it had when it left.
        true => label.served[member].saturating_sub(BEHIND),
        false if label.reached > 0 => label.reached,
        false => label.events.saturating_sub(BEHIND),
    }
}

/// Why a member is out of service.
fn why(found: &Probed, is_there: bool, is_old: bool) -> String {
    match found {
        Probed::Unreadable(Some(error)) => return error.to_string(),
        Probed::Unreadable(None) => "its labels are damaged",
        _ if !is_there => "it is blank, or another device",
        _ if is_old => "its contents are old",
        _ => "it was before",
    }
    .to_owned()
}

/// Refuses members of another mirror or place.
fn check_members(
    members: &[(usize, usize, Label)],
    label: &Label,
    devices: &[Rc<dyn BlockDevice>],
) -> Result<(), IoError> {
    if label.members != devices.len() {
        let found = format!("{} devices for a mirror of {}", devices.len(), label.members);
        return Err(refused(&found, "all of its members, in their order"));
    }
    for (number, member, of) in members {
        if of.identity != label.identity {
            let found = format!("member {number} of mirror {:032x}", of.identity);
            return Err(refused(&found, &format!("one of mirror {:032x}, as another is", label.identity)));
        }
        if member != number {
            return Err(refused(
                &format!("member {member} of the mirror"),
                &format!("member {number} in its place"),
            ));
        }
        let (sectors, least) = (devices[*number].geometry().sectors, label.pages_in_all() * PAGE_SECTORS);
        if sectors < least {
            let found = format!("member {number} with {sectors} sectors");
            return Err(refused(&found, &format!("{least} at least, as the mirror was created with")));
        }
    }
    Ok(())
}

/// Whether an event, or one that follows it, is on all members that it says are in service, of those that are there:
/// before that, nothing that depends on it is answered or written.
fn is_confirmed(label: &Label, members: &[(usize, usize, Label)]) -> bool {
    // Another event of this number put out a member that this one has in service, or the other way round.
    let differs = |of: &Label| {
        (0..label.members).any(|member| {
            let left = !label.is_out(member) && of.is_out(member) && of.served[member] <= label.events;
            left || of.served[member] < label.served[member]
        })
    };
    let follows = |of: &Label| of.events >= label.events && !differs(of);
    members.iter().all(|(number, _, of)| label.is_out(*number) || follows(of))
}

/// Refuses members that were used apart: each says that it is in service and the other one is not, and neither came
/// back since.
fn check_apart(members: &[(usize, usize, Label)]) -> Result<(), IoError> {
    for (one, _, of) in members {
        for (other, _, by) in members {
            let serve = !of.is_out(*one) && !by.is_out(*other);
            let confirmed = is_confirmed(of, members) && is_confirmed(by, members);
            let apart = serve && confirmed && of.is_out(*other) && by.is_out(*one);
            if one < other && apart && of.served[*one] <= by.events && by.served[*other] <= of.events {
                edge("two members were used apart");
                let found = format!("members {one} and {other}, each of which was written without the other");
                let expected =
                    "one history: keep one of them, and put a blank device in the place of the other";
                return Err(refused(&found, expected));
            }
        }
    }
    Ok(())
}

impl Mirror {
    /// Opens a mirror; a new one on zeroes, if `below` says so.
    ///
    /// # Errors
    /// See the file's header; and those of the devices.
    pub async fn open(below: &Below, options: &Options) -> Result<Rc<Mirror>, IoError> {
        let devices = below.over.clone();
        let sizes: Vec<u64> = devices.iter().map(|device| device.geometry().sectors).collect();
        if !(2..=MOST).contains(&devices.len()) {
            options.layout(&sizes).map_err(|why| refused_as(&why))?;
        }
        let (members, is_new) = match assemble(&devices).await? {
            Ok(Assembled { label, events, out, known, why }) => {
                let trouble = Trouble::of(why);
                (Members::new(devices, &label, events, (out, known), trouble, options.canary()), false)
            }
            Err(events) if below.create => {
                let layout = options.layout(&sizes).map_err(|why| refused_as(&why))?;
                let mut rng = runtime::rng("mirror identity");
                let identity = (u128::from(rng.bits()) << 64 | u128::from(rng.bits())).max(1);
                let label = Label {
                    identity,
                    members: devices.len(),
                    pages: layout.pages,
                    region: layout.region,
                    state: State::Forming,
                    events,
                    out: 0,
                    joined: [0; MOST],
                    served: [0; MOST],
                    reached: 0,
                    differ: Bits::NONE,
                };
                let members =
                    Members::new(devices, &label, [0; MOST], (0, 0), Trouble::default(), options.canary());
                members.form(State::Forming).await?;
                members.form(State::Formed).await?;
                (members, true)
            }
            Err(_) => {
                return Err(refused("no mirror", "one: seekless volume create creates it"));
            }
        };
        let mirror = Mirror::new(members, options, below.timing_only);
        if !is_new {
            mirror.recover().await?;
        }
        Ok(mirror)
    }

    /// After an opening: what may differ is noted, and made the same in the background.
    async fn recover(self: &Rc<Self>) -> Result<(), IoError> {
        // What is chosen of it must not be in a cache only, or the next choice could be another one.
        self.members.flush(&Hints::default()).await?;
        let label = self.members.label();
        if self.members.are_several() && !self.members.canary("no resync") {
            for region in label.differ.each() {
                let first = region * label.region;
                self.unsettled.add(first..(first + label.region).min(label.pages));
            }
        }
        self.settle_in_background();
        self.catch_up_in_background();
        self.clean_later();
        Ok(())
    }

    /// Creates a mirror of the devices that `key` names in a volume file. What they hold is refused, unless `replace`:
    /// then it is overwritten.
    ///
    /// # Errors
    /// Members with contents, or those of the devices.
    pub async fn create(
        key: &'static str,
        below: Below,
        options: &Options,
        replace: bool,
    ) -> Result<(), IoError> {
        let sizes: Vec<u64> = below.over.iter().map(|device| device.geometry().sectors).collect();
        options.layout(&sizes).map_err(|why| refused_as(&why))?;
        let unfinished = is_unfinished(&below.over).await;
        let new = below.over.iter().map(|device| New {
            key,
            device: &**device,
            metadata: Extent::new(0, 0),
            leaves: Some(CONTENTS),
        });
        contents::claim(&new.collect::<Vec<_>>(), unfinished, replace).await?;
        for device in &below.over {
            arrays::zero(&**device).await?;
        }
        let devices = below.over.clone();
        let mirror = Mirror::open(&Below { create: true, ..below }, options).await?;
        // A device that is given twice has the label of one of the two.
        assemble(&devices).await?.map(drop).map_err(|_| refused("no labels", "those that were written"))?;
        seekless_core::Layer::stop(&*mirror).await
    }
}

fn refused_as(why: &crate::Refused) -> IoError {
    IoError::new(seekless_core::ErrorKind::Invalid, NAME, None, why.to_string())
}

/// Whether the members are of a mirror whose creation was cut short.
async fn is_unfinished(members: &[Rc<dyn BlockDevice>]) -> bool {
    let found = join_all(members.iter().map(|member| label::find(&**member))).await;
    let states = found.iter().filter_map(|found| match found {
        Probed::Blank => None,
        Probed::Member(_, label) => Some(label.state == State::Forming),
        Probed::Other | Probed::Unreadable(_) => Some(false),
    });
    let states: Vec<bool> = states.collect();
    !states.is_empty() && states.into_iter().all(|is_forming| is_forming)
}
