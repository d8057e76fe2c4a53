//! Finds the types that a file declares, and `let` statements that destructure a tuple literal.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The names of the types that the code declares, associated types left out.
pub fn types(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    read_types(tokens(code), false, &mut found);
    found
}

/// The `let` statements with a tuple on both sides, as `let (a , b) = (c , d)`. One with an `else` is none of them:
/// it asks whether all parts match.
pub fn tuple_lets(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    read_lets(tokens(code), &mut found);
    found
}

fn tokens(code: &str) -> TokenStream {
    code.parse().expect("rustfmt could read it")
}

/// `associates`: directly inside of an `impl` or a `trait`.
fn read_types(stream: TokenStream, associates: bool, found: &mut Vec<String>) {
    let tokens: Vec<_> = stream.into_iter().collect();
    let mut is_impl = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) => {
                let word = word.to_string();
                is_impl |= word == "trait" || (word == "impl" && begins_an_item(tokens[..at].last()));
                let declares = match word.as_str() {
                    "struct" | "enum" | "trait" | "union" => true,
                    "type" => !associates,
                    _ => false,
                };
                if declares && let Some(TokenTree::Ident(name)) = tokens.get(at + 1) {
                    found.push(name.to_string());
                }
            }
            TokenTree::Group(group) => {
                let is_body = group.delimiter() == Delimiter::Brace;
                read_types(group.stream(), is_impl && is_body, found);
                is_impl &= !is_body;
            }
            TokenTree::Punct(punct) => is_impl &= punct.as_char() != ';',
            TokenTree::Literal(_) => {}
        }
    }
}

/// Whether an item may follow this token: `impl` is a type elsewhere.
fn begins_an_item(before: Option<&TokenTree>) -> bool {
    match before {
        None => true,
        Some(TokenTree::Group(group)) => group.delimiter() != Delimiter::Parenthesis,
        Some(TokenTree::Punct(punct)) => punct.as_char() == ';',
        Some(TokenTree::Ident(word)) => word == "unsafe",
        Some(TokenTree::Literal(_)) => false,
    }
}

fn read_lets(stream: TokenStream, found: &mut Vec<String>) {
    let tokens: Vec<_> = stream.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == "let" => found.extend(tuple_let(&tokens[at + 1..])),
            TokenTree::Group(group) => read_lets(group.stream(), found),
            _ => {}
        }
    }
}

/// The text behind a `let`, if it is a tuple, perhaps with a type, `=`, a tuple and `;`.
fn tuple_let(tokens: &[TokenTree]) -> Option<String> {
    let pattern = tuple(tokens.first()?)?;
    let is = |token: &TokenTree, sign| matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign);
    let equals = tokens.iter().position(|token| is(token, '='))?;
    let value = tuple(tokens.get(equals + 1)?)?;
    is(tokens.get(equals + 2)?, ';').then(|| format!("let {pattern} = {value}"))
}

/// A group in `()` with a comma in it.
fn tuple(token: &TokenTree) -> Option<&Group> {
    let TokenTree::Group(group) = token else { return None };
    let has_comma = group
        .stream()
        .into_iter()
        .any(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','));
    (group.delimiter() == Delimiter::Parenthesis && has_comma).then_some(group)
}

#[test]
fn every_declared_type_is_found_and_nothing_else_is() {
    let code = "
        pub struct A<T>(T);
        pub(crate) enum B { C, D { e: u8 } }
        trait F: Iterator<Item = u8> { type G; fn h() { struct I; type J = u8; } }
        impl<T> F for A<T> { type G = u8; fn h() { enum K {} } }
        fn l(m: impl Fn() -> u8) -> impl Fn() { type N = u8; m }
        union O { p: u8 }
        mod q { macro! { #[derive(Serialize)] pub enum R { S } } }
        const T: &str = \"struct U;\"; // struct V;
    ";
    assert_eq!(types(code).join(" "), "A B F I J K N O R");
}

#[test]
fn only_tuples_made_to_be_taken_apart_are_found() {
    for (code, count) in [
        ("let (a, b) = (c, d);", 1),
        ("let (mut a, b): (u8, u8) = (c(), d());", 1),
        ("fn f() { if a { let ((a, b), c) = (d(), e()); } }", 1),
        ("macro! { let (a, b) = (c, d); }", 1),
        ("let (a, b) = c;", 0),
        ("let (a, b) = c(d, e);", 0),
        ("let (a, b) = (c, d).swap();", 0),
        ("let a = (b, c);", 0),
        ("let (a, b) = (c());", 0),
        ("let (Some(a), Some(b)) = (c, d) else { return };", 0),
        ("if let (Some(a), Some(b)) = (c, d) { e; }", 0),
        ("while a && let (Some(b), c) = (d, e) { f; }", 0),
    ] {
        assert_eq!(tuple_lets(code).len(), count, "{code}");
    }
}
