//! The names that the desk answers to.
//!
//! SECURITY: a page of somebody else in the same browser can name this machine as it likes (DNS rebinding). It has another `Host`.

use crate::serve::pages::form::PageOrigin;
use countersign_model::issuing_key::ReferenceKey;
use countersign_settings::config::DeskUrl;

/// What the MAC of a name begins with.
const NAME: &[u8] = b"host 1\0";

/// What a name of the desk begins and ends with. Browsers take every name under `localhost` for this machine (RFC 6761, section 6.3).
const BEFORE: &str = "desk-";
const BEHIND: &str = ".localhost";

/// What makes a name ours.
pub(super) struct OwnHosts<'a> {
    pub(super) url: Option<&'a DeskUrl>,
    pub(super) key: &'a ReferenceKey,
}

impl OwnHosts<'_> {
    /// A name that no other server on this machine has: browsers send cookies to every port of a host. Every node that shares the
    /// secret knows it again.
    pub(super) fn new_name(key: &ReferenceKey, random: &[u8]) -> String {
        let random = hex(random);
        let mac = hex(&key.desk_mac(&[NAME, random.as_bytes()])[..8]);
        format!("{BEFORE}{random}{mac}{BEHIND}")
    }

    /// Which of our names this is, with or without a port.
    pub(super) fn origin(&self, host: &str) -> Option<PageOrigin> {
        let host = host.to_ascii_lowercase();
        if let Some(url) = self.url
            && (host == url.authority() || host.strip_suffix(":443") == Some(url.authority()))
        {
            return Some(PageOrigin {
                origin: url.origin().to_owned(),
                is_https: true,
            });
        }
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => name,
            Some(_) => return None,
            None => &host,
        };
        let is_plain = self.url.is_none() && matches!(name, "127.0.0.1" | "localhost");
        (is_plain || self.is_minted(name)).then(|| PageOrigin {
            origin: format!("http://{}", host.strip_suffix(":80").unwrap_or(&host)),
            is_https: false,
        })
    }

    fn is_minted(&self, name: &str) -> bool {
        let inside = name.strip_prefix(BEFORE).and_then(|name| name.strip_suffix(BEHIND));
        let Some((random, mac)) = inside.and_then(|inside| inside.split_at_checked(inside.len().saturating_sub(16)))
        else {
            return false;
        };
        let mac = u64::from_str_radix(mac, 16).map(u64::to_be_bytes);
        mac.is_ok_and(|mac| self.key.is_desk_mac(&[NAME, random.as_bytes()], &mac))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ReferenceKey {
        ReferenceKey::new(&[1; 32])
    }

    #[test]
    fn without_an_address_the_desk_is_this_machine_and_the_names_that_it_made() {
        let key = key();
        let hosts = OwnHosts { url: None, key: &key };
        let made = OwnHosts::new_name(&key, &[1, 2, 3, 4]);
        assert_eq!(made.len(), "desk-.localhost".len() + 24);
        for host in [
            "127.0.0.1:8082",
            "localhost",
            "LOCALHOST:9",
            &made,
            &format!("{made}:8082"),
        ] {
            let origin = hosts.origin(host).unwrap_or_else(|| panic!("{host}"));
            assert_eq!(origin.origin, format!("http://{}", host.to_lowercase()));
            assert!(!origin.is_https);
        }
        let other = OwnHosts::new_name(&ReferenceKey::new(&[2; 32]), &[1, 2, 3, 4]);
        let mut changed = made.clone().into_bytes();
        changed[6] = if changed[6] == b'0' { b'1' } else { b'0' };
        for host in [
            "",
            "evil.example",
            "10.0.0.7:8082",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "localhost:x",
            "127.0.0.1:8082:8082",
            "user@localhost",
            "desk-.localhost",
            "desk-0.localhost",
            "[::1]:8082",
            &other,
            str::from_utf8(&changed).unwrap(),
            &format!("{made}."),
            &format!("x.{made}"),
            &format!("{made}.evil.example"),
        ] {
            assert_eq!(hosts.origin(host), None, "{host}");
        }
    }
}
