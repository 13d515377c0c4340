//! Predicates against naive ones, codes against bytes, and damage.

use arrow_array::{BooleanArray, StringArray};
use arrow_string::like::like;
use proptest::collection::vec;
use proptest::prelude::*;

use super::codes::End;
use super::device::DeviceAutomaton;
use super::*;
use crate::encoding::fsst::{Encoder, SymbolTable, sample};

/// Characters of one to four bytes that share bytes, and what patterns and expressions
/// give a meaning to.
const LETTERS: [char; 12] = ['a', 'b', 'é', 'è', '€', '😀', '\n', '%', '_', '\\', '.', '*'];

fn text(longest: usize) -> impl Strategy<Value = String> {
    vec(prop::sample::select(&LETTERS[..]), 0..longest).prop_map(String::from_iter)
}

/// Mostly `a`, `b`, and `é`, so that there are matches.
fn letters(longest: usize) -> impl Strategy<Value = String> {
    vec(prop::sample::select(&['a', 'a', 'b', 'é', '\n'][..]), 0..longest)
        .prop_map(String::from_iter)
}

/// What patterns are put together from.
const PARTS: [&str; 15] =
    ["%", "%", "_", "_", "a", "a", "b", "é", "è", "\\%", "\\_", "\\\\", "\\a", "\\é", "."];

/// Patterns with many wildcards.
fn pattern() -> impl Strategy<Value = String> {
    vec(prop::sample::select(&PARTS[..]), 0..9).prop_map(|parts| parts.concat())
}

fn bytes(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(prop::sample::select(&[0, b'a', b'a', b'b', 0x80, 0xC3, 0xFF][..]), 0..longest)
}

/// Any kind of automaton.
fn automaton() -> impl Strategy<Value = Automaton> {
    let leaf = prop_oneof![
        pattern().prop_map(|pattern| Automaton::like(&pattern)),
        vec(bytes(5), 0..5).prop_map(|values| Automaton::one_of(values.iter().map(|v| &v[..]))),
        bytes(6).prop_map(|bytes| Automaton::contains(&bytes)),
        bytes(6).prop_map(|bytes| Automaton::suffix(&bytes)),
        (bytes(6), any::<bool>())
            .prop_map(|(bound, inclusive)| Automaton::below(&bound, inclusive)),
    ];
    (leaf, any::<bool>()).prop_map(|(automaton, negate)| {
        let automaton = automaton.unwrap();
        if negate { automaton.negated() } else { automaton }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn like_equals_that_of_arrow(
        pattern in prop_oneof![pattern(), text(8)],
        values in vec(prop_oneof![letters(8), text(8)], 1..12),
    ) {
        let Ok(automaton) = Automaton::like(&pattern) else {
            prop_assert!(pattern.ends_with('\\'));
            return Ok(());
        };
        let strings = StringArray::from_iter_values(&values);
        let expected = like(&strings, &StringArray::new_scalar(&pattern)).unwrap();
        let found: BooleanArray =
            values.iter().map(|value| Some(automaton.matches(value.as_bytes()))).collect();
        prop_assert_eq!(found, expected, "{:?} of {:?}", pattern, values);
    }

    #[test]
    fn places_of_bytes_equal_those_of_slices(needle in bytes(5), value in bytes(9)) {
        let [prefix, suffix, contains] =
            [Automaton::prefix, Automaton::suffix, Automaton::contains].map(|new| new(&needle).unwrap());
        prop_assert_eq!(prefix.matches(&value), value.starts_with(&needle));
        prop_assert_eq!(suffix.matches(&value), value.ends_with(&needle));
        let found = (0..=value.len()).any(|at| value[at..].starts_with(&needle));
        prop_assert_eq!(contains.matches(&value), found);
    }

    #[test]
    fn bounds_compare_as_slices_do(bound in bytes(4), value in bytes(5)) {
        let below = |inclusive| Automaton::below(&bound, inclusive).unwrap().matches(&value);
        let above = |inclusive| Automaton::above(&bound, inclusive).unwrap().matches(&value);
        prop_assert_eq!([below(false), below(true)], [value < bound, value <= bound]);
        prop_assert_eq!([above(false), above(true)], [value > bound, value >= bound]);
    }

    #[test]
    fn one_of_many_values_is_any_of_them(
        values in vec(bytes(5), 0..12),
        others in vec(bytes(5), 1..12),
    ) {
        let automaton = Automaton::one_of(values.iter().map(|value| &value[..])).unwrap();
        for value in values.iter().chain(&others) {
            prop_assert_eq!(automaton.matches(value), values.contains(value));
        }
    }

    #[test]
    fn not_and_and_are_those_of_logic(
        left in automaton(),
        right in automaton(),
        values in vec(bytes(8), 1..12),
    ) {
        let both = left.and(&right).unwrap();
        let neither = left.clone().negated().and(&right.clone().negated()).unwrap();
        for value in &values {
            let (left, right) = (left.matches(value), right.matches(value));
            prop_assert_eq!(both.matches(value), left && right);
            prop_assert_eq!(neither.matches(value), !left && !right);
        }
    }

    #[test]
    fn no_two_states_accept_the_same_strings(automaton in automaton()) {
        let states = automaton.live() + 2;
        // The states that strings of up to so many bytes tell apart.
        let mut kinds: Vec<usize> =
            (0..states).map(|state| usize::from(automaton.accepts(state as u16))).collect();
        for _ in 0..states {
            let mut numbers = HashMap::new();
            kinds = (0..states)
                .map(|state| {
                    let behind = (0..=255).map(|byte| kinds[automaton.step(state as u16, byte) as usize]);
                    let next = numbers.len();
                    *numbers.entry((kinds[state], behind.collect::<Vec<_>>())).or_insert(next)
                })
                .collect();
        }
        kinds.sort_unstable();
        kinds.dedup();
        prop_assert_eq!(kinds.len(), states);
    }

    #[test]
    fn an_equal_predicate_is_an_equal_automaton(automaton in automaton(), other in automaton()) {
        prop_assert_eq!(&automaton.clone().negated().negated(), &automaton);
        prop_assert_eq!(&automaton.and(&automaton).unwrap(), &automaton);
        prop_assert_eq!(automaton.and(&other).unwrap(), other.and(&automaton).unwrap());
    }

    #[test]
    fn codes_decide_as_bytes_do(
        automaton in automaton(),
        symbols in vec(bytes(9), 0..40),
        values in vec(prop_oneof![bytes(9), bytes(60), letters(60).prop_map(String::into_bytes)], 0..80),
    ) {
        let symbols = table(symbols);
        let automaton_of_codes = automaton.over_codes(&symbols);
        let values: Vec<&[u8]> = values.iter().map(|value| &value[..]).collect();
        check(&automaton, &automaton_of_codes, &values, |value| encode(&symbols, value));
        check(&automaton, &automaton.over_bytes(), &values, |value| value.to_vec());
    }

    #[test]
    fn any_codes_decide_or_err_as_walked_one_by_one(
        automaton in automaton(),
        symbols in vec(bytes(9), 0..40),
        codes in vec(prop_oneof![0_u8..42, Just(255)], 0..120),
    ) {
        let symbols = table(symbols);
        let expected = one_by_one(&automaton, &symbols, &codes);
        let over_codes = automaton.over_codes(&symbols);
        let alone = over_codes.matches(&codes).map_err(|error| error.to_string());
        prop_assert_eq!(&alone, &expected);
        let mut mask = [0];
        let with_others = [&codes[..], &[0, 1, 255, 254, 0, 0, 0, 0, 0]].concat();
        let among = over_codes.select(&with_others, &[codes.len() as u32], &mut mask);
        prop_assert_eq!(among.map(|()| mask == [1]).map_err(|error| error.to_string()), expected);
    }
}

/// A symbol table of the symbols that may be in one together.
fn table(mut symbols: Vec<Vec<u8>>) -> SymbolTable {
    symbols.sort();
    symbols.dedup();
    symbols.retain(|symbol| (1..=8).contains(&symbol.len()));
    SymbolTable::from_symbols(symbols.iter().map(|symbol| &symbol[..])).unwrap()
}

/// Codes of the longest symbols that match.
fn encode(symbols: &SymbolTable, mut value: &[u8]) -> Vec<u8> {
    let mut codes = Vec::new();
    while let Some(&byte) = value.first() {
        let fits = |&code: &u8| value.starts_with(symbols.symbol(code).unwrap());
        match (0..symbols.len() as u8).rev().find(fits) {
            Some(code) => {
                codes.push(code);
                value = &value[symbols.symbol_len(code)..];
            }
            None => {
                codes.extend([255, byte]);
                value = &value[1..];
            }
        }
    }
    codes
}

/// What codes come to when each is decoded, up to the one that decides.
fn one_by_one(automaton: &Automaton, symbols: &SymbolTable, codes: &[u8]) -> Result<bool, String> {
    let mut state = automaton.start();
    let mut codes = codes.iter();
    while !automaton.is_decided(state) {
        let Some(&code) = codes.next() else { break };
        state = match (symbols.symbol(code), code) {
            (Some(symbol), _) => automaton.walk(state, symbol),
            (None, 255) => match codes.next() {
                Some(&literal) => automaton.step(state, literal),
                None => return Err("corrupt data: the codes end with an escape".into()),
            },
            (None, _) => return Err("corrupt data: a code stands for no symbol".into()),
        };
    }
    Ok(automaton.accepts(state))
}

/// Tests values one by one and all together, with and without codes behind them.
fn check(
    automaton: &Automaton,
    over_codes: &CodeAutomaton,
    values: &[&[u8]],
    encode: impl Fn(&[u8]) -> Vec<u8>,
) {
    let coded: Vec<Vec<u8>> = values.iter().map(|value| encode(value)).collect();
    let expected: Vec<bool> = values.iter().map(|value| automaton.matches(value)).collect();
    for (codes, &expected) in coded.iter().zip(&expected) {
        assert_eq!(over_codes.matches(codes).unwrap(), expected);
    }
    let lens: Vec<u32> = coded.iter().map(|codes| codes.len() as u32).collect();
    let mut codes = coded.concat();
    for _ in 0..2 {
        let mut mask = vec![!0; lens.len().div_ceil(64)];
        over_codes.select(&codes, &lens, &mut mask).unwrap();
        for bit in 0..mask.len() * 64 {
            let expected = expected.get(bit).copied().unwrap_or(false);
            assert_eq!(mask[bit / 64] >> (bit % 64) & 1 == 1, expected, "bit {bit}");
        }
        codes.extend([255; 100]);
    }
}

/// Lines like those of a log, of 30 to 3,000 bytes.
fn lines(count: usize) -> Vec<String> {
    let words = ["GET", "/index", "error", "of", "user", "äöü", "404", "timeout", "€", "\n"];
    let mut seed = 1_u64;
    let mut below = |limit: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % limit
    };
    (0..count)
        .map(|line| {
            let words_of_line = if line % 17 == 0 { 600 } else { 3 + below(20) };
            (0..words_of_line).map(|_| words[below(words.len())]).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[test]
fn trained_codes_of_short_and_long_values_decide_as_bytes_do() {
    let lines = lines(3_000);
    let values: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let symbols = SymbolTable::train(&sample(values.len(), |at| values[at]));
    let encoder = Encoder::new(&symbols).unwrap();
    let encode = |value: &[u8]| {
        let (mut codes, mut lens) = (Vec::new(), Vec::new());
        encoder.encode(value, &[0, value.len()], &mut codes, &mut lens);
        codes
    };
    assert!(values.iter().any(|value| value.len() > 2 * 1024));
    let pattern = |pattern| Automaton::like(pattern).unwrap();
    let automata = [
        pattern("%timeout%"),
        pattern("%404%error%user"),
        pattern("GET%\n%"),
        pattern("%e__o%€ äöü%"),
        pattern("%"),
        pattern(""),
        pattern("%timeout timeout timeout%").negated(),
        Automaton::one_of(values.iter().copied().step_by(50)).unwrap(),
        Automaton::one_of([values[0]]).unwrap(),
        Automaton::above(b"of", true).unwrap(),
        Automaton::above(b"err", true)
            .unwrap()
            .and(&Automaton::below(b"t", false).unwrap())
            .unwrap(),
    ];
    for automaton in automata {
        check(&automaton, &automaton.over_codes(&symbols), &values, encode);
        check(&automaton, &automaton.over_bytes(), &values, |value| value.to_vec());
    }
}

#[test]
fn wildcards_stand_for_what_they_say() {
    for (pattern, value, expected) in [
        ("", "", true),
        ("", "a", false),
        ("%", "", true),
        ("_", "", false),
        ("_", "\n", true),
        ("_", "😀", true),
        ("__", "é", false),
        ("_%", "€", true),
        ("%_", "", false),
        ("é%", "è", false),
        ("%a_", "aé", true),
        (r"\%", "%", true),
        (r"\%", "a", false),
        (r"\a\\", r"a\", true),
        (r"\\%", r"\a", true),
        (r"\😀_", "😀😀", true),
        ("a%b%c", "a\nbbc", true),
        ("a%b%c", "a\nbbcb", false),
    ] {
        let automaton = Automaton::like(pattern).unwrap();
        assert_eq!(automaton.matches(value.as_bytes()), expected, "{value:?} LIKE {pattern:?}");
    }
}

#[test]
fn predicates_of_one_meaning_are_the_same_automaton() {
    let like = |pattern| Automaton::like(pattern).unwrap();
    let one_of = |values: &[&[u8]]| Automaton::one_of(values.iter().copied()).unwrap();
    assert_eq!(like("%ab%"), Automaton::contains(b"ab").unwrap());
    assert_eq!(like("ab%%"), Automaton::prefix(b"ab").unwrap());
    assert_eq!(like("%ab"), Automaton::suffix(b"ab").unwrap());
    assert_eq!(like("ab"), one_of(&[b"ab"]));
    assert_eq!(like("a%_b_%_"), like("a_%b%__"));
    assert_eq!(like("%"), Automaton::contains(b"").unwrap());
    assert_eq!(like("%"), one_of(&[]).negated());
    assert_eq!(like("%"), Automaton::above(b"", true).unwrap());
    assert_eq!(like("").negated(), Automaton::above(b"", false).unwrap());
    assert_eq!(one_of(&[b"b", b"a", b"b"]), one_of(&[b"a", b"b"]));
    let (from, to) =
        (Automaton::above(b"ab", true).unwrap(), Automaton::below(b"ab", true).unwrap());
    assert_eq!(from.and(&to).unwrap(), one_of(&[b"ab"]));
    assert_eq!(from.and(&to.negated()).unwrap(), Automaton::above(b"ab", false).unwrap());
}

#[test]
fn endings_in_common_are_stored_once() {
    let months: [&[u8]; 4] = [b"September", b"October", b"November", b"December"];
    // The ten places of "September", and of the others those before its endings.
    assert_eq!(Automaton::one_of(months).unwrap().live(), 10 + 3 + 2 + 2);
}

#[test]
fn everything_and_nothing_have_no_live_state() {
    let everything = Automaton::like("%").unwrap();
    let nothing = Automaton::one_of([]).unwrap();
    for (automaton, expected) in [(everything, true), (nothing, false)] {
        assert_eq!(automaton.live(), 0);
        let over_codes = automaton.over_codes(&SymbolTable::empty());
        for codes in [&[][..], &[255], &[0; 100]] {
            assert_eq!(over_codes.matches(codes).unwrap(), expected);
        }
    }
}

#[test]
fn rejects_a_backslash_at_the_end() {
    for pattern in ["\\", "a\\", "%\\", "\\\\\\"] {
        let error = Automaton::like(pattern).unwrap_err();
        assert!(matches!(error, Error::Expression { .. }), "{error}");
        assert!(error.to_string().contains("backslash"), "{error}");
    }
    assert!(Automaton::like("\\\\").is_ok());
}

#[test]
fn rejects_what_takes_too_many_states() {
    let pattern = format!("%a{}b%", "_".repeat(20));
    let repeated = vec![b'a'; 5_000];
    let long = vec![b'a'; MAX_STATES + 1];
    let too_long = Automaton::one_of([&long[..]]);
    for (automaton, limit) in [
        (Automaton::like(&pattern), "4118"),
        (Automaton::contains(&repeated), "4194304"),
        (Automaton::prefix(&long), "32766"),
        (too_long, "32766"),
    ] {
        let error = automaton.unwrap_err();
        assert!(matches!(error, Error::Expression { .. }), "{error}");
        assert!(error.to_string().contains(limit), "{error}");
    }
}

#[test]
fn wildcards_in_a_row_take_a_state_each() {
    let ones = "_".repeat(1000);
    for pattern in
        [format!("%{ones}%"), format!("a{ones}%%b"), format!("%a%{ones}"), format!("%a{ones}%")]
    {
        let live = Automaton::like(&pattern).unwrap().live();
        assert!((1000..1005).contains(&live), "{live} states");
    }
}

#[test]
fn literals_of_ten_thousand_bytes_are_looked_for() {
    let literal: Vec<u8> = (0..10_000_u32).map(|at| ((at * at) >> 7) as u8 & 0x7F | 1).collect();
    let mut behind = literal.clone();
    behind.push(b'x');
    let before: Vec<u8> = literal[..9_999].to_vec();
    let inside = [b"abc", &behind[..]].concat();
    let symbols = SymbolTable::train(&sample(1, |_| &literal[..]));
    let values = [&literal[..], &behind, &before, &inside, b""];
    let equal = Automaton::one_of([&literal[..]]).unwrap();
    let contains = Automaton::contains(&literal).unwrap();
    assert_eq!([equal.live(), contains.live()], [10_001, 10_000]);
    for automaton in [equal, contains] {
        check(&automaton, &automaton.over_codes(&symbols), &values, |value| {
            encode(&symbols, value)
        });
    }
}

#[test]
fn the_most_states_have_numbers_over_codes() {
    let literal = vec![b'a'; MAX_STATES - 1];
    let automaton = Automaton::one_of([&literal[..]]).unwrap();
    let over_codes = automaton.over_codes(&table(vec![b"aaaaa".to_vec()]));
    assert_eq!((automaton.live(), over_codes.states()), (MAX_STATES, 2 * MAX_STATES + 3));
    let codes = vec![0; literal.len() / 5];
    assert_eq!(literal.len() % 5, 0);
    assert!(over_codes.matches(&codes).unwrap());
    assert!(!over_codes.matches(&codes[1..]).unwrap());
    assert!(over_codes.matches(&[&codes[..], &[1]].concat()).is_err());
}

/// What a device makes of codes.
fn walked(automaton: &DeviceAutomaton, codes: &[u8]) -> End {
    let behind = |state: u32, code: u8| match &automaton.rows {
        DeviceRows::Bytes(rows) => rows[state as usize * 256 + code as usize].into(),
        DeviceRows::Words(rows) => rows[state as usize * 256 + code as usize].into(),
    };
    match codes.iter().fold(automaton.start, |state, &code| behind(state, code)) {
        state if state < automaton.accepts => End::Rejected,
        state if state < automaton.faults => End::Accepted,
        state if state + 1 < automaton.states => End::LoneEscape,
        _ => End::UnknownCode,
    }
}

#[test]
fn devices_walk_the_same_states() {
    let symbols = table(vec![b"a".to_vec(), b"ab".to_vec(), b"bab".to_vec()]);
    // Of 10 and of 250 bytes: 20 and 500 states of codes.
    for len in [10, 126, 127, 250] {
        let automaton = Automaton::one_of([&vec![b'a'; len - 1][..]]).unwrap();
        let over_codes = automaton.over_codes(&symbols);
        assert_eq!((automaton.live(), over_codes.states()), (len, 2 * len + 3));
        assert_eq!(over_codes.first_sink() as usize, 2 * len);
        let for_device = over_codes.for_device();
        assert_eq!(matches!(for_device.rows, DeviceRows::Bytes(_)), len <= 126);
    }
    let forms = [
        Automaton::contains(b"abab").unwrap(),
        Automaton::contains(b"abab").unwrap().negated(),
        Automaton::contains(&b"ab".repeat(150)).unwrap(),
        Automaton::one_of([&b""[..], b"a", b"abba"]).unwrap(),
        Automaton::below(b"b", true).unwrap(),
    ];
    let mut ends = [0; 4];
    for automaton in forms {
        for over_codes in [automaton.over_codes(&symbols), automaton.over_bytes()] {
            let for_device = over_codes.for_device();
            // The sinks stand side by side, and are not left.
            for sink in [for_device.accepts - 1, for_device.accepts] {
                let sink = DeviceAutomaton { start: sink, ..for_device.clone() };
                let alone = walked(&sink, &[]);
                assert!((0..=255).all(|code| walked(&sink, &[code, 0]) == alone), "{alone:?}");
            }
            for number in 1..20_000_u32 {
                let letters = [0, 1, 2, 255, b'a', b'b', 3];
                let digit = |at: u32| letters[(number / 7_u32.pow(at) % 7) as usize];
                let codes: Vec<u8> = (0..number.ilog2() / 3 * 3).map(|at| digit(at % 6)).collect();
                let end = walked(&for_device, &codes);
                ends[end as usize] += 1;
                let text = |found: Result<bool>| found.map_err(|error| error.to_string());
                assert_eq!(text(end.accepted()), text(over_codes.matches(&codes)), "{codes:?}");
            }
        }
    }
    assert!(ends.iter().all(|count| *count > 100), "{ends:?}");
}

#[test]
fn corrupt_codes_are_errors_wherever_they_stand() {
    let symbols = table(vec![b"a".to_vec(), b"b".to_vec()]);
    // One of few states and one of many.
    for literal in ["c".to_owned(), "c".repeat(300)] {
        let automaton = Automaton::contains(literal.as_bytes()).unwrap().over_codes(&symbols);
        for len in 1..200 {
            for (at, code, what) in [
                (len - 1, 255, "the codes end with an escape"),
                (len - 1, 2, "a code stands for no symbol"),
                (len / 2, 254, "a code stands for no symbol"),
            ] {
                let mut codes = vec![0; len];
                codes[at] = code;
                let alone = automaton.matches(&codes).unwrap_err();
                // Behind one value and before another, and with codes to spare.
                codes.splice(0..0, [1, 1, 1]);
                codes.resize(len + 50, 0);
                let lens = [3, len as u32, 40];
                let among = automaton.select(&codes, &lens, &mut [0]).unwrap_err();
                for error in [alone, among] {
                    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                    assert!(error.to_string().contains(what), "{error}");
                }
            }
        }
    }
}

#[test]
fn codes_behind_a_decision_are_not_looked_at() {
    let symbols = table(vec![b"a".to_vec()]);
    let automaton = Automaton::contains(b"aa").unwrap().over_codes(&symbols);
    for damage in [&[200][..], &[255], &[200; 100]] {
        let codes = [&[0, 0], damage].concat();
        assert!(automaton.matches(&codes).unwrap());
        let mut mask = [0];
        automaton.select(&codes, &[codes.len() as u32], &mut mask).unwrap();
        assert_eq!(mask, [1]);
        assert!(automaton.matches(&codes[1..]).is_err());
    }
}

#[test]
fn rejects_lengths_past_the_codes() {
    let automaton = Automaton::contains(b"a").unwrap().over_bytes();
    for lens in [&[11][..], &[5, 6], &[u32::MAX; 3], &[0; 2000], &[1; 2000]] {
        let mut mask = vec![0; lens.len().div_ceil(64)];
        let outcome = automaton.select(b"bbbbbbbbbb", lens, &mut mask);
        assert_eq!(outcome.is_err(), lens[0] > 0, "{outcome:?}");
    }
}

#[test]
#[should_panic = "words of a mask of 65 bits"]
fn a_mask_of_too_few_words_panics() {
    let automaton = Automaton::contains(b"a").unwrap().over_bytes();
    let _ = automaton.select(&[0; 65], &[1; 65], &mut [0]);
}
