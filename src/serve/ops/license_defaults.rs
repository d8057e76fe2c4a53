//! `GET /license-defaults` of the admin socket: the server's settings for licenses that have none of their own.
//!
//! A flag or a variable of the server may differ from the `countersign.toml` that a command reads.

use serde::{Deserialize, Serialize};

use crate::serve::state::Service;
use countersign_model::staging_hosts::StagingRule;
use countersign_settings::config::ServeConfig;

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LicenseDefaults {
    /// Hours that a site may go on without an answer.
    pub grace_period_hours: u32,
    /// Which sites are staging copies, and how many of them need no seat.
    pub staging: StagingRule,
    /// How often a license may move in 30 days by itself.
    pub site_moves: u32,
}

impl From<&ServeConfig> for LicenseDefaults {
    fn from(config: &ServeConfig) -> Self {
        Self {
            grace_period_hours: config.grace_period_hours,
            staging: config.staging.clone(),
            site_moves: config.site_moves,
        }
    }
}

impl From<&Service> for LicenseDefaults {
    fn from(service: &Service) -> Self {
        let rules = service.gate.rules();
        Self {
            grace_period_hours: service.grace_period_hours,
            staging: rules.staging.clone(),
            site_moves: rules.site_moves,
        }
    }
}
