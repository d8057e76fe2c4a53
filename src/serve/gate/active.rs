//! Whether a site may use a license now, for clients that ask without binding.

use crate::serve::gate::Gate;
use countersign_model::binding::CheckIn;
use countersign_model::license::{License, LicenseState};
use countersign_model::seat::Seat;
use countersign_model::site_host::SiteHost;

impl Gate {
    /// Whether the license is active and this site holds a seat, or needs none. Reads bindings and never changes them.
    pub(crate) fn is_active_on(&self, license: &License, host: &SiteHost, check_in: &CheckIn<'_>) -> bool {
        if license.state(check_in.time.date_naive()) != LicenseState::Active {
            return false;
        }
        if self.is_exempt(host) {
            return true;
        }
        let bound = self.bindings.of(&license.id);
        let is_held = license.seat(&bound, &self.rules.staging, host) == Seat::Held;
        if is_held {
            self.bindings.report(&license.id, &bound, host, check_in);
        }
        is_held
    }
}
