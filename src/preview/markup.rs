//! Adapts a section's sanitized HTML to the page: remote images become their description and URL, and links open in
//! another tab.
//!
//! The Content-Security-Policy forbids such images anyway; this shows what the CMS would show in their place.

/// Rewrites ammonia's output, which is well formed: every tag ends, every attribute is quoted.
pub(super) fn for_page(html: &str) -> String {
    let mut text = String::with_capacity(html.len() + 256);
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        text.push_str(&rest[..start]);
        let tag = &rest[start..start + tag_length(&rest[start..])];
        rest = &rest[start + tag.len()..];
        if let Some(attributes) = tag.strip_prefix("<img") {
            let shown = |name| attribute(attributes, name).unwrap_or_default();
            // If the sanitizer removed the URL, there is nothing to show.
            if shown("src").is_empty() {
                continue;
            }
            // SECURITY: the values stay escaped for an attribute. There, HTML allows bare `<` and `>`.
            let label = format!("{} {}", shown("alt"), shown("src"))
                .replace('<', "&lt;")
                .replace('>', "&gt;");
            text.push_str(&format!("<span class=\"picture\">{}</span>", label.trim()));
        } else if let Some(attributes) = tag.strip_prefix("<a ") {
            text.push_str("<a target=\"_blank\" ");
            text.push_str(attributes);
        } else {
            text.push_str(tag);
        }
    }
    text.push_str(rest);
    text
}

/// Up to the first `>` outside of an attribute, included.
fn tag_length(html: &str) -> usize {
    let mut quoted = false;
    for (position, byte) in html.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'>' if !quoted => return position + 1,
            _ => {}
        }
    }
    html.len()
}

fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = attributes.split_once(&format!(" {name}=\""))?;
    value.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::source::html::from_markdown;

    #[test]
    fn pictures_become_text_and_links_open_beside() {
        let html = from_markdown(
            "See ![a <b> \"c\"](https://example.com/p.png?a=1&b=2) and [us](https://example.com/ \"x > y\").",
        );
        assert_eq!(
            for_page(&html),
            "<p>See <span class=\"picture\">a &lt;b&gt; &quot;c&quot; https://example.com/p.png?a=1&amp;b=2</span> and \
             <a target=\"_blank\" href=\"https://example.com/\" title=\"x &gt; y\" rel=\"nofollow noopener noreferrer\">us</a>.</p>"
        );
    }

    #[test]
    fn a_picture_inside_an_attribute_is_none() {
        let html = from_markdown("[us](https://example.com/ \"<img src=x>\")");
        assert!(!for_page(&html).contains("class=\"picture\""), "{}", for_page(&html));
    }

    #[test]
    fn what_ends_within_a_tag_stays_as_it_is() {
        assert_eq!(for_page("a <b"), "a <b");
        assert_eq!(for_page("a <img alt=\"x\"> b"), "a  b", "no address");
        assert_eq!(for_page("a <img src=\"x"), "a <span class=\"picture\">x</span>");
    }
}
