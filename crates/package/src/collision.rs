//! Detects names that differ only in case or in the form of Unicode, and a file that is also a folder.

use unicase::UniCase;
use unicode_normalization::UnicodeNormalization as _;

/// Why two names cannot both be in a package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Collision {
    /// The same name twice.
    #[error("is there twice")]
    Duplicate,
    /// The names, or their folders, differ only in case.
    #[error("differs from {other} by case only")]
    Case {
        /// The other name, up to where they differ.
        other: String,
    },
    /// Two names, or their folders, are one text in two Unicode normal forms. Some file systems take them for one name.
    #[error("is the same as {other} in another form of Unicode")]
    Unicode {
        /// The other name, up to where they differ.
        other: String,
    },
    /// One name is a folder, the other a file.
    #[error("is a folder in the name of {other}")]
    FileAndFolder {
        /// The name of the folder.
        other: String,
    },
}

/// The first name that collides with another, and how. Each name comes with whether it is a folder.
///
/// Names are sorted by their caseless form, with `/` lowest. Then colliding names are neighbours, and no table of
/// all folders is needed, which would be much larger for deep names.
pub fn find<'a>(names: impl Iterator<Item = (&'a str, bool)>) -> Option<(&'a str, Collision)> {
    let mut sorted: Vec<_> = names.map(|(name, is_folder)| (folded(name), name, is_folder)).collect();
    sorted.sort_unstable();
    sorted.windows(2).find_map(|pair| {
        let [(_, first, is_folder), (_, second, second_is_folder)] = pair else {
            return None;
        };
        let collision = between((first, *is_folder), (second, *second_is_folder))?;
        Some((*first, collision))
    })
}

/// A name in its canonical caseless form (Unicode 3.13, D145), which is equal for names that differ only in case or in the form of
/// Unicode: `ς` is `σ` and `ß` is `ss`, as on macOS. `/` sorts before every character of a name.
fn folded(name: &str) -> String {
    let caseless = if name.is_ascii() {
        name.to_ascii_lowercase()
    } else {
        let decomposed: String = name.nfd().collect();
        UniCase::unicode(decomposed).to_folded_case().nfd().collect()
    };
    caseless.replace('/', "\0")
}

/// How two neighbours collide. If one continues the other, the first is the shorter one.
fn between((first, is_folder): (&str, bool), (second, second_is_folder): (&str, bool)) -> Option<Collision> {
    let mut others = second.split('/');
    let mut shared = 0;
    for component in first.split('/') {
        let other = others.next()?;
        shared += other.len() + 1;
        if component == other {
            continue;
        }
        if folded(component) != folded(other) {
            return None;
        }
        let is_one_text = component.nfd().eq(other.nfd());
        let other = second[..shared - 1].to_owned();
        return Some(if is_one_text {
            Collision::Unicode { other }
        } else {
            Collision::Case { other }
        });
    }
    match others.next() {
        // Of the same name.
        None if is_folder == second_is_folder => Some(Collision::Duplicate),
        None => Some(Collision::FileAndFolder {
            other: second.to_owned(),
        }),
        // The first one is a folder of the second one.
        Some(_) if is_folder => None,
        Some(_) => Some(Collision::FileAndFolder {
            other: second.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collides(names: &[&str]) -> Option<Collision> {
        let names = names
            .iter()
            .map(|name| (name.trim_end_matches('/'), name.ends_with('/')));
        find(names).map(|(_, collision)| collision)
    }

    #[test]
    fn what_is_one_file_or_folder_somewhere_collides() {
        let case = |other: &str| {
            Some(Collision::Case {
                other: other.to_owned(),
            })
        };
        let folder = |other: &str| {
            Some(Collision::FileAndFolder {
                other: other.to_owned(),
            })
        };
        assert_eq!(collides(&["a", "b", "a"]), Some(Collision::Duplicate));
        assert_eq!(collides(&["a/", "a/b", "a/"]), Some(Collision::Duplicate));
        assert_eq!(collides(&["a/x", "b", "A/X"]), case("a"));
        assert_eq!(collides(&["a/readme.TXT", "a/b", "a/readme.txt"]), case("a/readme.txt"));
        // As folders they are the same on a file system that ignores case.
        assert_eq!(collides(&["Inc/a", "inc/b"]), case("inc"));
        assert_eq!(collides(&["x/Inc/", "x/inc/b"]), case("x/inc"));
        assert_eq!(collides(&["ÄRGER", "ärger"]), case("ärger"));
        // To Unicode, the Kelvin sign is a K.
        assert_eq!(collides(&["\u{212a}", "k"]), case("\u{212a}"));
        assert_eq!(collides(&["ΟΣ", "οσ"]), case("οσ"));
        // By full case folding.
        assert_eq!(collides(&["οσ", "ος"]), case("οσ"));
        assert_eq!(collides(&["ΟΔΟΣ.php", "οδος.php"]), case("οδος.php"));
        assert_eq!(collides(&["straße", "strasse"]), case("straße"));
        assert_eq!(collides(&["STRASSE/a", "stra\u{1e9e}e/b"]), case("stra\u{1e9e}e"));
        assert_eq!(collides(&["\u{fb01}n", "fin"]), case("\u{fb01}n"));
        assert_eq!(collides(&["\u{b5}.js", "\u{3bc}.js"]), case("\u{3bc}.js"));
        assert_eq!(collides(&["\u{345}a", "\u{3b9}a"]), case("\u{3b9}a"));
        let unicode = |other: &str| {
            Some(Collision::Unicode {
                other: other.to_owned(),
            })
        };
        assert_eq!(
            collides(&["caf\u{e9}.txt", "cafe\u{301}.txt"]),
            unicode("caf\u{e9}.txt")
        );
        assert_eq!(collides(&["caf\u{e9}/a", "x", "cafe\u{301}/b"]), unicode("cafe\u{301}"));
        assert_eq!(collides(&["CAF\u{c9}", "cafe\u{301}"]), case("cafe\u{301}"));
        assert_eq!(collides(&["a", "a-b", "a.b", "a/b"]), folder("a/b"));
        assert_eq!(collides(&["a", "A/b"]), case("A"));
        assert_eq!(collides(&["a/", "a"]), folder("a"));
    }

    #[test]
    fn names_that_only_look_alike_do_not_collide() {
        assert_eq!(collides(&[]), None);
        assert_eq!(
            collides(&[
                "a/", "a/b", "a/b-c", "a/b.c", "a-b/c", "ab", "a/c/d", "a/c/e", "a.b", "ß", "s", "ı", "i"
            ]),
            None
        );
    }
}
