//! Plans as text: a label in front of each part, tables with aligned columns.

use std::fmt;

use super::{GroupPlan, GroupTableKind, KernelOrigin, KernelPlan, QueryPlan};

impl fmt::Display for QueryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![
            labelled("by", &self.processors()),
            labelled("rows", &self.rows_text()),
            labelled(
                "bytes",
                &format!("at most {} read of {} stored", self.bytes_read, self.bytes_stored),
            ),
        ];
        lines.extend(self.filter());
        if let Some(groups) = &self.groups {
            lines.push(labelled("groups", &groups.to_string()));
        }
        if !self.aggregates.is_empty() {
            lines.push(labelled("aggregates", &self.aggregates.join(", ")));
        }
        if self.passes > 1 {
            let text = format!("{}: distinct values are counted behind the others", self.passes);
            lines.push(labelled("passes", &text));
        }
        if self.stages > 1 {
            let text = format!("{} parts, each decoded before it is scanned", self.stages);
            lines.push(labelled("stages", &text));
        }
        if !self.kernels.is_empty() {
            let head = ["kernels", "threads", "registers", "shared B", "local B", "code"];
            let mut rows = vec![head.map(str::to_owned).to_vec()];
            rows.extend(self.kernels.iter().map(KernelPlan::cells));
            lines.extend(table(&rows, 1..5));
        }
        lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl QueryPlan {
    fn processors(&self) -> String {
        let device = self.device.as_ref();
        let device = device.map(|device| format!("{} {}", device.name, device.ordinal));
        match (&self.choice, device) {
            (Some(choice), None) if !choice.devices.is_empty() => {
                format!("{choice}; steps are those of the CPU")
            }
            (Some(choice), _) => choice.to_string(),
            (None, Some(device)) => format!("{device}, whose memory has the batch"),
            (None, None) => "CPU".to_owned(),
        }
    }

    fn rows_text(&self) -> String {
        let Self { rows, chunks, chunks_skipped, .. } = self;
        let verb = if self.device.is_some() { "excluded by bounds" } else { "skipped" };
        format!("{rows} in {chunks} chunks, {chunks_skipped} {verb}")
    }

    /// The steps of the filter.
    fn filter(&self) -> Vec<String> {
        if self.steps.is_empty() {
            let text = match self.chunks_skipped {
                0 => "all rows",
                skipped if skipped == self.chunks => "no row",
                _ => "all rows of other chunks",
            };
            return vec![labelled("filter", text)];
        }
        let head = match self.ordered_chunk {
            Some(chunk) => format!("filter of chunk {chunk}"),
            None => "filter".to_owned(),
        };
        let mut rows = vec![[&head, "expected", "columns", "stored B"].map(str::to_owned).to_vec()];
        rows.extend(self.steps.iter().map(|step| {
            let share =
                step.share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
            let bytes = step.bytes.to_string();
            let is_test = !step.columns.is_empty();
            vec![
                format!("{:width$}{}", "", step.text, width = 2 * (step.depth + 1)),
                if is_test { share } else { String::new() },
                step.columns.join(", "),
                if is_test { bytes } else { String::new() },
            ]
        }));
        let mut lines = table(&rows, 1..2);
        lines.iter_mut().for_each(|line| *line = line.trim_end().to_owned());
        lines
    }
}

impl fmt::Display for GroupPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, codes)) in self.keys.iter().enumerate() {
            write!(f, "{}{name} ({codes})", if index > 0 { ", " } else { "" })?;
        }
        if !self.keys.is_empty() {
            f.write_str(": ")?;
        }
        write!(f, "at most {}, {}", self.numbers, self.table)
    }
}

impl fmt::Display for GroupTableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedMemory => "in an indexed table in the shared memory of blocks",
            Self::DeviceMemory => "in an indexed table in GPU memory",
            Self::DeviceHashed => "in a hash table in GPU memory",
            Self::HostIndexed => "by the CPU in indexed tables",
            Self::HostHashed => "by the CPU in hash tables",
        })
    }
}

impl KernelPlan {
    fn cells(&self) -> Vec<String> {
        let told = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
        vec![
            format!("  {}", self.name),
            self.threads.to_string(),
            told(self.registers),
            told(self.shared_bytes),
            told(self.local_bytes),
            self.origin.to_string(),
        ]
    }
}

impl fmt::Display for KernelOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("lanepack's own"),
            Self::Memory => f.write_str("from memory"),
            Self::Cache => f.write_str("from the cache folder"),
            Self::Compiled(took) => write!(f, "compiled in {:.0} ms", took.as_secs_f64() * 1e3),
        }
    }
}

fn labelled(label: &str, text: &str) -> String {
    format!("{label:<12}{text}")
}

/// Lines of cells, as wide in each column as its longest; numbers of columns in `right` end in line.
fn table(rows: &[Vec<String>], right: std::ops::Range<usize>) -> Vec<String> {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let line = |row: &Vec<String>| {
        let cell = |(at, (text, width)): (usize, (&String, &usize))| {
            let width = *width;
            match right.contains(&at) {
                true => format!("{text:>width$}"),
                false => format!("{text:<width$}"),
            }
        };
        let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
