use super::*;
use crate::encoding::Words;

fn every() -> Options {
    Options::default().with_encodings(Encoding::ALL.iter().copied())
}

/// Numbers that look random, from 0 to below `end`.
fn random(seed: u64, end: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 20) % end
    }
}

/// Of chunks that are looked at as a whole, estimates are what encoding gives, to the byte:
/// data, nodes and gaps, whatever nests in what.
#[test]
fn estimates_of_few_vectors_are_exact() {
    // How ALP-RD cuts values is found from some of them.
    let options = every().without(Encoding::AlpRd);
    let context = Context::new(&options, None);
    let mut chosen = Vec::new();
    let mut check = |physical: Physical, words: &[u64]| {
        let input = Input::new(physical, u64::values(words));
        let plan = plan_input(&input, &context);
        for plan in std::iter::once(&plan).chain(&plan.others) {
            let alone = Plan { others: Vec::new(), ..plan.clone() };
            let node = encode(&input, &alone, &context).unwrap();
            assert_eq!(node.encoding, plan.encoding);
            assert_eq!(node.stored_bytes(&Vec::len), plan.bytes, "{plan}");
        }
        chosen.push(plan.encoding);
    };
    for len in [1, 70, 1024, 5000, 16 * 1024] {
        let mut few = random(len, 50);
        let mut some = random(len, 1 << 40);
        let values: Vec<u64> = (0..50).map(|_| some()).collect();
        let of = |value: &mut dyn FnMut(u64) -> u64| (0..len).map(value).collect::<Vec<u64>>();
        check(Physical::I64, &of(&mut |_| few()));
        check(Physical::I64, &of(&mut |row| row * 1000 + few()));
        check(Physical::U64, &of(&mut |_| values[few() as usize]));
        check(Physical::U64, &of(&mut |row| values[(row / 37 % 50) as usize]));
        check(Physical::U64, &of(&mut |row| if row % 100 == 7 { some() } else { few() }));
        check(Physical::F64, &of(&mut |_| (few() as f64 / 10.0).to_bits()));
        check(
            Physical::F64,
            &of(&mut |row| if row % 90 == 3 { some() } else { (some() as f64 / 8.0).to_bits() }),
        );
    }
    use Encoding::*;
    for encoding in [Plain, Constant, Ffor, Pfor, Delta, Alp, Dict, Rle] {
        assert!(chosen.contains(&encoding), "{encoding} was not chosen");
    }
}

#[test]
fn nodes_and_gaps_count() {
    let words: Vec<u64> = (0..10).map(|i| (i * i * i) << 40).collect();
    let input = Input::new(Physical::U64, u64::values(&words));
    let plan = plan_input(&input, &Context::new(&every(), None));
    let plain = plan.considered().into_iter().find(|(encoding, _)| *encoding == Encoding::Plain);
    assert_eq!(plain.unwrap().1, 32 + 8 + 128);
}

#[test]
fn data_that_do_not_fit_take_the_next_best_plan() {
    let words: Vec<u64> = (0..5000).map(|i| i % 1000).collect();
    let input = Input::new(Physical::U64, u64::values(&words));
    let options = every();
    let context = Context::new(&options, None);
    let next = plan_input_among(&[Encoding::Plain, Encoding::Ffor], &input, &context);
    // Without exceptions there is no pfor.
    let first = Plan { others: vec![next], ..empty(Encoding::Pfor) };
    assert_eq!(encode(&input, &first, &context).unwrap().encoding, Encoding::Ffor);
    let alone = Plan { others: Vec::new(), ..first };
    assert!(encode(&input, &alone, &context).is_err());
}

#[test]
fn a_plan_that_promised_too_much_gives_way() {
    let words: Vec<u64> = (0..5000).map(|i| i % 1000).collect();
    let input = Input::new(Physical::U64, u64::values(&words));
    let options = every();
    let context = Context::new(&options, None);
    let next = plan_input_among(&[Encoding::Ffor], &input, &context);
    let first = |bytes| Plan { bytes, others: vec![next.clone()], ..empty(Encoding::Plain) };
    assert_eq!(encode(&input, &first(1), &context).unwrap().encoding, Encoding::Ffor);
    let alone = Plan { others: Vec::new(), ..first(1) };
    assert_eq!(encode(&input, &alone, &context).unwrap().encoding, Encoding::Plain);
}
