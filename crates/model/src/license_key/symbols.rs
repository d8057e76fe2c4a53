//! The symbols of license keys: the alphabet that people type, and the check symbols, a Reed-Solomon code over GF(32).

pub(super) const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
pub(super) const RANDOM_SYMBOLS: usize = 20;
pub(super) const CHECK_SYMBOLS: usize = 5;
pub(super) const SYMBOLS: usize = RANDOM_SYMBOLS + CHECK_SYMBOLS;

/// Bits of a symbol. Check symbols are packed into a number, the first one highest.
pub(super) const BITS: usize = 5;

/// Product of (x - 2^i) for i = 1..5 over GF(32), without the leading 1; highest coefficient first.
const GENERATOR: [u8; CHECK_SYMBOLS] = [27, 15, 23, 25, 31];

/// The values of the symbols `KEY01`, XORed onto the check symbols so that a key of zeros is not a key of another
/// system.
pub(super) const CHECK_MASK: u32 = packed(&[19, 14, 30, 0, 1]);

/// The value of a symbol as a person types it, or one of the two below.
pub(super) fn read(typed: char) -> u8 {
    match ASCII.get(typed as usize) {
        Some(&value) => value,
        None if matches!(
            typed,
            '\u{A0}' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{200B}' | '\u{FEFF}'
        ) =>
        {
            SEPARATOR
        }
        None => NO_SYMBOL,
    }
}

/// Reads a symbol of a key inside other text: every character but letters and digits is a separator, and full-width letters are
/// letters.
pub(super) fn find(written: char) -> u8 {
    let narrow = match written {
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(written as u32 - 0xFEE0),
        _ => None,
    };
    let written = narrow.unwrap_or(written);
    match read(written) {
        NO_SYMBOL if !written.is_alphanumeric() => SEPARATOR,
        symbol => symbol,
    }
}

/// A blank or a dash: may be anywhere in a key.
pub(super) const SEPARATOR: u8 = 0xFE;

/// A character that no key has.
pub(super) const NO_SYMBOL: u8 = 0xFF;

/// What each ASCII character is read as.
pub(super) const ASCII: [u8; 128] = {
    let mut values = [NO_SYMBOL; 128];
    let mut value = 0;
    while value < ALPHABET.len() {
        values[ALPHABET[value] as usize] = value as u8;
        values[ALPHABET[value].to_ascii_lowercase() as usize] = value as u8;
        value += 1;
    }
    let mut at = 0;
    while at < b"OoIiLl".len() {
        values[b"OoIiLl"[at] as usize] = (at >= 2) as u8;
        at += 1;
    }
    let mut at = 0;
    while at < b"-_ \t\n\r\x0C".len() {
        values[b"-_ \t\n\r\x0C"[at] as usize] = SEPARATOR;
        at += 1;
    }
    values
};

pub(super) fn has_right_check(symbols: &[u8; SYMBOLS]) -> bool {
    let parts = symbols
        .iter()
        .zip(&PARTS)
        .map(|(&symbol, parts)| parts[usize::from(symbol)]);
    parts.fold(CHECK_MASK, |check, part| check ^ part) == 0
}

/// What each symbol adds to the check at each place; the parts of a key that is right and the mask XOR to zero.
///
/// The check symbols are the remainder of the others times x^5 by the generator polynomial (systematic Reed-Solomon
/// encoding), which is a sum over them: no part waits for another when a key is checked, as it is with every request.
pub(super) static PARTS: [[u32; 32]; SYMBOLS] = {
    const LEFTMOST: usize = BITS * (CHECK_SYMBOLS - 1);
    let mut parts = [[0; 32]; SYMBOLS];
    let mut symbol = 0;
    while symbol < 32 {
        let mut part = symbol as u32;
        let mut at = SYMBOLS;
        while at > 0 {
            at -= 1;
            parts[at][symbol] = part;
            // One place further left is once more times x.
            part = (part & !(31 << LEFTMOST)) << BITS ^ generator_times((part >> LEFTMOST) as u8);
        }
        symbol += 1;
    }
    parts
};

const fn generator_times(symbol: u8) -> u32 {
    let mut multiple = [0; CHECK_SYMBOLS];
    let mut at = 0;
    while at < CHECK_SYMBOLS {
        multiple[at] = multiply(symbol, GENERATOR[at]);
        at += 1;
    }
    packed(&multiple)
}

const fn packed(symbols: &[u8]) -> u32 {
    let mut number = 0;
    let mut at = 0;
    while at < symbols.len() {
        number = number << BITS | symbols[at] as u32;
        at += 1;
    }
    number
}

/// Multiplication in GF(32) with the field polynomial x^5 + x^2 + 1.
const fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a <<= 1;
        if a & 0x20 != 0 {
            a ^= 0x25;
        }
        b >>= 1;
    }
    product
}
