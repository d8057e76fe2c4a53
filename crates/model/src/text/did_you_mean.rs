//! Suggests what a mistyped name may mean.

/// The least similarity of a suggestion, from 0 to 1.
const ALIKE: f64 = 0.8;

/// The most similar of the `known` names; `None` if none is similar.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let similar = known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(known, given), known));
    let best = similar
        .filter(|(similarity, _)| *similarity > ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, known)| known)
}

/// ` (did you mean "module"?)` with the most similar of the `known` names; nothing if none is similar.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, known)
        .map(|known| format!(" (did you mean {known:?}?)"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_is_meant_and_none_where_none_is_similar() {
        let meant = |given| did_you_mean(given, ["listen", "admin_listen", "proxies"]);
        assert_eq!(meant("lisen"), " (did you mean \"listen\"?)");
        assert_eq!(meant("adminlisten"), " (did you mean \"admin_listen\"?)");
        assert_eq!(meant("zzz"), "");
    }
}
