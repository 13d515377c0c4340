//! Damage everywhere: every byte of headers, cuts at every byte, random bytes
//! of bodies, for every encoding and type.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use arrow_schema::DataType;
use lanepack::{Error, Options};

use super::common::image::{FIXED, images};
use super::common::{Nulls, Rng, Shape, array_of};
use super::damage::{Image, Read};

/// Panics that arrow-ipc raises on damaged messages, and lanepack catches, are
/// not printed.
pub fn hush_arrow() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.location().is_some_and(|place| place.file().contains("/arrow-")) {
                print(info);
            }
        }));
    });
}

/// Reads damaged images and collects the damage that made a panic.
struct Sweep {
    panics: Vec<String>,
    reads: usize,
    errors: usize,
}

impl Sweep {
    fn new() -> Self {
        hush_arrow();
        Self { panics: Vec::new(), reads: 0, errors: 0 }
    }

    /// What reading gives, if it does not panic.
    fn read(&mut self, image: &Image, damage: impl Fn() -> String) -> Option<Result<(), Error>> {
        self.reads += 1;
        match catch_unwind(AssertUnwindSafe(|| image.read().map(drop))) {
            Ok(result) => {
                self.errors += usize::from(result.is_err());
                Some(result)
            }
            Err(panic) => {
                let why = (panic.downcast_ref::<String>().cloned())
                    .or_else(|| panic.downcast_ref::<&str>().map(|why| (*why).to_owned()));
                self.panics.push(format!("{}: {}", damage(), why.unwrap_or_default()));
                None
            }
        }
    }

    #[track_caller]
    fn finish(self) {
        let count = self.panics.len();
        assert!(count == 0, "{count} panics:\n{}", self.panics[..count.min(10)].join("\n"));
        println!("{} reads, {} of them errors", self.reads, self.errors);
    }
}

#[test]
fn intact_images_read() {
    for (name, image) in images(1500) {
        assert!(image.read().is_ok(), "{name}");
    }
}

#[test]
fn every_flipped_byte_of_a_header_is_found_by_its_checksum() {
    let mut sweep = Sweep::new();
    for (name, image) in images(300) {
        for at in 0..image.header.len() {
            let mut image = image.clone();
            image.header[at] ^= 1 << (at % 8);
            let result = sweep.read(&image, || format!("{name}: byte {at}"));
            assert!(result.is_none_or(|result| result.is_err()), "{name}: byte {at} is read");
        }
    }
    sweep.finish();
}

#[test]
fn every_byte_of_a_sealed_header_may_be_anything() {
    let mut sweep = Sweep::new();
    for (name, image) in images(1100) {
        for at in (0..image.header.len()).filter(|at| !(24..FIXED).contains(at)) {
            let old = image.header[at];
            for new in [0, 1, 0x7f, 0xff, old ^ 1, old ^ 0x10, old ^ 0x80, old.wrapping_add(1)] {
                let mut image = image.clone();
                image.patch(at, &[new]);
                sweep.read(&image, || format!("{name}: header byte {at} is {new}"));
            }
        }
    }
    sweep.finish();
}

#[test]
fn pairs_of_header_fields_may_be_anything() {
    let mut sweep = Sweep::new();
    let mut rng = Rng(1);
    for (name, image) in images(300) {
        for _ in 0..200 {
            let mut image = image.clone();
            let mut damage = Vec::new();
            for _ in 0..2 + rng.below(3) {
                let at = 2 + rng.below(image.header.len() as u64 - 2) as usize;
                // Small numbers reach further than random ones.
                let new = if rng.below(2) == 0 { rng.below(16) } else { rng.next() } as u8;
                image.header[at] = new;
                damage.push((at, new));
            }
            image.rows = u32::from_le_bytes(image.header[4..8].try_into().unwrap());
            image.nulls = u32::from_le_bytes(image.header[8..12].try_into().unwrap());
            image.seal();
            sweep.read(&image, || format!("{name}: header {damage:?}"));
        }
    }
    sweep.finish();
}

#[test]
fn headers_cut_anywhere_are_errors() {
    let mut sweep = Sweep::new();
    for (name, image) in images(40) {
        for len in 0..image.header.len() {
            let mut image = image.clone();
            image.header.truncate(len);
            image.seal();
            let result = sweep.read(&image, || format!("{name}: header of {len} bytes"));
            assert!(result.is_none_or(|result| result.is_err()), "{name}: {len} bytes are read");
        }
    }
    sweep.finish();
}

#[test]
fn bodies_cut_anywhere_are_errors() {
    let mut sweep = Sweep::new();
    for (name, image) in images(40) {
        for len in 0..image.body.len() {
            let mut image = image.clone();
            image.body.truncate(len);
            image.seal();
            let result = sweep.read(&image, || format!("{name}: body of {len} bytes"));
            assert!(result.is_none_or(|result| result.is_err()), "{name}: {len} bytes are read");
        }
    }
    sweep.finish();
}

/// The last buffer ends earlier and header and body agree on it.
#[test]
fn bodies_cut_in_agreement_with_the_header_do_no_harm() {
    let mut sweep = Sweep::new();
    for (name, image) in images(40) {
        for buffer in 0..image.tree().buffers.len() {
            let len = image.tree().buffers[buffer].len();
            for cut in 0..len {
                let mut image = image.clone();
                image.change(|tree| tree.buffers[buffer].truncate(cut));
                sweep.read(&image, || format!("{name}: buffer {buffer} of {cut} bytes"));
            }
        }
    }
    sweep.finish();
}

#[test]
fn random_damage_to_bodies_does_no_harm() {
    let mut sweep = Sweep::new();
    let mut rng = Rng(2);
    for (name, intact) in images(1100) {
        if intact.body.is_empty() {
            continue;
        }
        for _ in 0..60 {
            let mut image = intact.clone();
            let mut damage = Vec::new();
            for _ in 0..1 + rng.below(4) {
                let at = rng.below(image.body.len() as u64) as usize;
                let new =
                    [0, 0xff, 0x80, rng.next() as u8, image.body[at] ^ 1][rng.below(5) as usize];
                image.body[at] = new;
                damage.push((at, new));
            }
            // Where the damage breaks no rule, the checksum tells.
            if let Ok(column) = image.open() {
                assert_eq!(column.verify_checksums().is_ok(), image.body == intact.body, "{name}");
            }
            image.seal();
            sweep.read(&image, || format!("{name}: body {damage:?}"));
        }
    }
    sweep.finish();
}

#[test]
fn every_byte_of_parameters_and_tables_may_be_anything() {
    let mut sweep = Sweep::new();
    for (name, image) in images(1100) {
        let buffers = image.tree().buffers;
        for (buffer, bytes) in buffers.iter().enumerate().filter(|(_, bytes)| bytes.len() <= 200) {
            for (at, old) in bytes.iter().enumerate() {
                for new in [0, 0x7f, 0xff, old ^ 1] {
                    let mut image = image.clone();
                    image.change(|tree| tree.buffers[buffer][at] = new);
                    sweep.read(&image, || format!("{name}: buffer {buffer} byte {at} is {new}"));
                }
            }
        }
    }
    sweep.finish();
}

#[test]
fn exchanged_headers_and_bodies_do_no_harm() {
    let mut sweep = Sweep::new();
    let images: Vec<_> = images(300);
    for (name, image) in &images {
        for (other, source) in &images {
            let mut image = image.clone();
            image.header.clone_from(&source.header);
            (image.rows, image.nulls) = (source.rows, source.nulls);
            sweep.read(&image, || format!("{name} with the header of {other}"));
            image.body.clone_from(&source.body);
            image.seal();
            sweep.read(&image, || format!("{name} with the chunk of {other}"));
        }
    }
    sweep.finish();
}

#[test]
fn noise_is_an_error() {
    let mut sweep = Sweep::new();
    let mut rng = Rng(3);
    let array = array_of(&DataType::Utf8, 300, Shape::Narrow, Nulls::None);
    let intact = Image::of(&array, &Options::default());
    for _ in 0..2000 {
        let mut image = intact.clone();
        image.header = (0..rng.below(300)).map(|_| rng.next() as u8).collect();
        image.body = (0..rng.below(1000)).map(|_| rng.next() as u8).collect();
        image.seal();
        let result = sweep.read(&image, || format!("{:?}", image.header));
        assert!(result.is_none_or(|result| result.is_err()));
    }
    sweep.finish();
}
