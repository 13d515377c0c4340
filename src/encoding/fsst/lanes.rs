//! Encoding: greedy longest match, several runs of values in lock step.
//!
//! ```text
//! batch of segments   |v0|v1|v2 |v3|v4  |v5|v6|v7|v8|
//! lanes               |--lane 0-|--lane 1--|--lane 2--|   one cursor each
//! scratch             |codes..  |codes.... |codes...  |   2 bytes per input byte
//! out                 |codes..codes....codes...|          stitched in order
//! ```
//!
//! One match is a chain of dependent loads (input word, slot, compare, next
//! input word) of some 20 cycles, so one cursor leaves the core idle. A step
//! moves every lane by one code without a branch on the data; the end of a
//! segment only moves the lane's segment number. A lane that is done idles on
//! an empty segment. Speeds on 15 files, in multiples of the bulk encoder of
//! the fsst-rs crate: 4 lanes 3.1 to 3.25, 3 lanes 2.95, 5 lanes 3.05, 6 and 8
//! lanes 2.8 to 2.9, as their cursors no longer fit the registers. Batches of
//! 24 to 96 KiB are equally fast.

use super::encode::Encoder;
use super::symbols::SEGMENT;

/// Cursors that a step advances.
const LANES: usize = 4;

/// Input bytes of a batch; its codes and tables stay in the caches.
const BATCH: usize = 64 << 10;

/// Bytes that a load of an input word takes from where it starts; a lane that is
/// done loads at the end of its batch.
const OVERREAD: usize = 8;

/// Scratch bytes kept free after a lane's codes, as a step always stores two.
const GAP: usize = 8;

/// A run of whole segments of a batch that one cursor encodes.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// Input position, relative to the batch.
    input: usize,
    /// Index in `Batch::ends` of the segment that the cursor is in.
    segment: usize,
    /// Position in `Batch::codes`.
    output: usize,
}

/// Buffers that every batch of a call reuses.
#[derive(Default)]
struct Batch {
    /// End of each segment; each lane's last is repeated, for it to idle in.
    ends: Vec<u32>,
    /// Position in `codes` after each segment.
    code_ends: Vec<u32>,
    codes: Vec<u8>,
    lanes: [Lane; LANES],
    /// End of the last segment, relative to the first.
    bytes: usize,
}

/// Walks the segments of consecutive values.
#[derive(Clone, Copy)]
struct Cursor {
    value: usize,
    position: usize,
}

impl Cursor {
    /// End of the segment that starts at the cursor; empty values are passed.
    #[inline(always)]
    fn segment_end(&mut self, offsets: &[usize]) -> Option<usize> {
        while *offsets.get(self.value + 1)? == self.position {
            self.value += 1;
        }
        Some((self.position + SEGMENT).min(offsets[self.value + 1]))
    }
}

impl Encoder {
    /// Encodes consecutive values: value `i` is `data[offsets[i]..offsets[i + 1]]`.
    ///
    /// Appends the codes of all values, in order and without gaps, to `out`
    /// and the number of code bytes of each value to `lens`.
    ///
    /// # Panics
    ///
    /// When the offsets descend or pass the end of `data`, and when the codes
    /// of one value may reach 4 GiB, that is for values of 2 GiB and more.
    pub fn encode(&self, data: &[u8], offsets: &[usize], out: &mut Vec<u8>, lens: &mut Vec<u32>) {
        let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else { return };
        let longest = offsets.windows(2).map(|pair| {
            assert!(pair[0] <= pair[1], "offsets descend");
            pair[1] - pair[0]
        });
        assert!(longest.max().unwrap_or(0) < 1 << 31, "a value has 2 GiB or more");
        assert!(last <= data.len(), "offsets pass the end of the data");

        let mut batch = Batch::default();
        let mut cursor = Cursor { value: 0, position: first };
        let mut value_codes = 0;
        let mut replay = cursor;
        // Segments up to here can be read in whole words.
        let readable = data.len().saturating_sub(OVERREAD);
        loop {
            let start = cursor.position;
            batch.fill(offsets, &mut cursor, readable);
            if batch.bytes == 0 {
                break;
            }
            self.encode_batch(&data[start..], &mut batch);
            batch.finish(offsets, &mut replay, &mut value_codes, out, lens);
        }
        // The last segments, of at most SEGMENT + OVERREAD bytes, are copied
        // to where bytes follow them.
        let start = cursor.position;
        let mut copy = [0; SEGMENT + 3 * OVERREAD];
        copy[..last - start].copy_from_slice(&data[start..last]);
        batch.fill(offsets, &mut cursor, last);
        if batch.bytes > 0 {
            self.encode_batch(&copy, &mut batch);
            batch.finish(offsets, &mut replay, &mut value_codes, out, lens);
        }
        lens.resize(lens.len() + offsets.len() - 1 - replay.value, 0);
    }

    /// Encodes the segments of `batch`, which starts at the start of `data`.
    fn encode_batch(&self, data: &[u8], batch: &mut Batch) {
        assert!(batch.bytes + OVERREAD <= data.len());
        assert!(batch.ends.len() == batch.code_ends.len());
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the features were detected; the batch was filled by
            // `Batch::fill` and its bytes are readable, as asserted above.
            return unsafe { self.step_lanes_bmi2(data, batch) };
        }
        // SAFETY: as above, without the features.
        unsafe { self.step_lanes(data, batch) }
    }

    /// [`Encoder::step_lanes`] with shifts by any register.
    ///
    /// # Safety
    ///
    /// As for [`Encoder::step_lanes`]; the CPU has BMI1 and BMI2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi1,bmi2")]
    unsafe fn step_lanes_bmi2(&self, data: &[u8], batch: &mut Batch) {
        // SAFETY: the caller's promise.
        unsafe { self.step_lanes(data, batch) }
    }

    /// Runs all lanes to the end of their segments.
    ///
    /// # Safety
    ///
    /// `batch` is as `Batch::fill` left it, and `data` has at least
    /// `batch.bytes + OVERREAD` bytes.
    #[inline(always)]
    unsafe fn step_lanes(&self, data: &[u8], batch: &mut Batch) {
        let input = data.as_ptr();
        let ends = batch.ends.as_ptr();
        let code_ends = batch.code_ends.as_mut_ptr();
        let codes = batch.codes.as_mut_ptr();
        let mut lanes = batch.lanes;
        let mut limits = [0; LANES];
        for (lane, limit) in limits.iter_mut().enumerate() {
            let next = batch.lanes.get(lane + 1).map_or(batch.bytes, |lane| lane.input);
            *limit = next;
        }
        loop {
            let left = lanes.iter().zip(limits).map(|(lane, limit)| limit - lane.input);
            // A step takes at most 8 bytes of a lane, so the longest lane is
            // not at its end before.
            let steps = left.max().unwrap_or(0).div_ceil(8);
            if steps == 0 {
                break;
            }
            for _ in 0..steps {
                for lane in &mut lanes {
                    // SAFETY: `lane.segment` is at most the lane's repeated
                    // last end, since it only moves past a segment that is not
                    // empty and the repeated one is; so both arrays have it.
                    // `lane.input` is at most that end, at most `batch.bytes`,
                    // and OVERREAD bytes follow it, so a word can be read there. `lane.output` moves by at
                    // most 2 per input byte and the lane's scratch has 2 per
                    // byte and GAP.
                    unsafe {
                        let end = *ends.add(lane.segment) as usize;
                        let left = end - lane.input;
                        let word = input.add(lane.input).cast::<u64>().read_unaligned();
                        let word = u64::from_le(word);
                        let action = self.action_at(word, left) as usize;
                        let code = (action & 0xFF) as u16 | (word << 8) as u16;
                        codes.add(lane.output).cast::<u16>().write_unaligned(code.to_le());
                        let len = action >> 8 & 15;
                        let active = action >> 12;
                        lane.output += active - (active >> 1);
                        lane.input += len;
                        *code_ends.add(lane.segment) = lane.output as u32;
                        lane.segment += (len == left) as usize & active;
                    }
                }
            }
        }
    }
}

impl Batch {
    /// Deals the next segments that end at or before `readable` to the lanes.
    fn fill(&mut self, offsets: &[usize], cursor: &mut Cursor, readable: usize) {
        let start = cursor.position;
        let share = readable.saturating_sub(start).min(BATCH).div_ceil(LANES);
        self.ends.clear();
        let mut end = start;
        for lane in 0..LANES {
            let input = end - start;
            self.lanes[lane] =
                Lane { input, segment: self.ends.len(), output: 2 * input + lane * GAP };
            while end - start - input < share {
                match cursor.segment_end(offsets) {
                    Some(segment_end) if segment_end <= readable => {
                        end = segment_end;
                        cursor.position = end;
                        self.ends.push((end - start) as u32);
                    }
                    _ => break,
                }
            }
            self.ends.push((end - start) as u32);
        }
        self.bytes = end - start;
        self.code_ends.resize(self.ends.len(), 0);
        let scratch = 2 * self.bytes + LANES * GAP;
        if self.codes.len() < scratch {
            self.codes.resize(scratch, 0);
        }
    }

    /// Appends the codes of the batch, and the code lengths of the values that
    /// end in it; `value_codes` carries the codes of a value begun before.
    fn finish(
        &self,
        offsets: &[usize],
        replay: &mut Cursor,
        value_codes: &mut u32,
        out: &mut Vec<u8>,
        lens: &mut Vec<u32>,
    ) {
        for (index, lane) in self.lanes.iter().enumerate() {
            let last = self.lanes.get(index + 1).map_or(self.ends.len(), |lane| lane.segment) - 1;
            let mut code_end = lane.output as u32;
            for segment in lane.segment..last {
                let before = replay.value;
                let Some(end) = replay.segment_end(offsets) else { return };
                lens.resize(lens.len() + replay.value - before, 0);
                *value_codes += self.code_ends[segment] - code_end;
                code_end = self.code_ends[segment];
                replay.position = end;
                if end == offsets[replay.value + 1] {
                    lens.push(*value_codes);
                    *value_codes = 0;
                    replay.value += 1;
                }
            }
            out.extend_from_slice(&self.codes[lane.output..code_end as usize]);
        }
    }
}
