//! PHP and WordPress on one side, our reading of versions and plugin headers on the other, on generated input.

use std::cmp::Ordering;

use countersign::model::version::php_version_compare;

use crate::support::random::Random;
use crate::support::tool;

#[test]
fn ten_thousand_pairs_of_versions_are_ordered_as_php_orders_them() {
    let mut random = Random::new(0x5DEE_CE66_D1CE_4E5B);
    let pairs: Vec<_> = (0..10_000).map(|_| pair(&mut random)).collect();
    let printed = tool::run("php", "tests/tools/version_compare.php", &serde_json::to_string(&pairs).unwrap());
    let theirs: Vec<Ordering> = printed.lines().map(|line| line.parse::<i8>().unwrap().cmp(&0)).collect();
    assert_eq!(theirs.len(), pairs.len());
    let differ: Vec<String> = pairs
        .iter()
        .zip(theirs)
        .filter(|((a, b), theirs)| php_version_compare(a, b) != *theirs)
        .map(|((a, b), theirs)| format!("{a:?} against {b:?}: PHP says {theirs:?}"))
        .collect();
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ[..differ.len().min(20)].join("\n"));
}

/// Two versions; every other second one is the first with a small change, so that many are close to each other.
fn pair(random: &mut Random) -> (String, String) {
    let first = if random.one_in(2) { real(random) } else { wild(random) };
    let second = match random.below(4) {
        0 => real(random),
        1 => wild(random),
        _ => mutated(random, &first),
    };
    (first, second)
}

const WORDS: [&str; 24] = [
    "dev", "Dev", "DEV", "alpha", "Alpha", "ALPHA", "a", "A", "beta", "Beta", "BETA", "b", "B", "RC", "rc", "Rc", "rC",
    "pl", "PL", "p", "P", "#", "#N#", "foo",
];

/// What plugins call their versions.
fn real(random: &mut Random) -> String {
    let mut numbers: Vec<String> = (0..1 + random.below(5)).map(|_| random.below(12).to_string()).collect();
    if random.one_in(8) {
        numbers[0] = "20210617".into();
    }
    let mut version = numbers.join(".");
    if random.one_in(2) {
        version += random.pick(&["", "-", ".", "_", "+"]);
        version += random.pick(&WORDS);
        version += random.pick(&["", "1", "2", ".1", "-2", "10"]);
    }
    version
}

/// What nobody should call a version.
fn wild(random: &mut Random) -> String {
    const PIECES: [&str; 34] = [
        "0",
        "1",
        "2",
        "9",
        "10",
        "01",
        "007",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "99999999999999999999999",
        ".",
        "..",
        "-",
        "_",
        "+",
        "--",
        "+-",
        "#",
        "/",
        "@",
        " ",
        "\t",
        "\n",
        "~",
        "v",
        "x",
        "N",
        "\0",
        "é",
        "ß",
        "\u{2028}",
        "٣",
        "😀",
    ];
    let pieces = random.below(8);
    let piece = |_| if random.one_in(3) { random.pick(&WORDS) } else { random.pick(&PIECES) };
    (0..pieces).map(piece).collect()
}

fn mutated(random: &mut Random, version: &str) -> String {
    let mut letters: Vec<char> = version.chars().collect();
    for _ in 0..random.below(3) {
        let position = random.below(letters.len() + 1);
        if position < letters.len() && random.one_in(2) {
            letters.remove(position);
        } else {
            letters.insert(position, ['.', '-', '0', '1', '#', 'a', 'b', 'p', ' '][random.below(9)]);
        }
    }
    letters.into_iter().collect()
}
