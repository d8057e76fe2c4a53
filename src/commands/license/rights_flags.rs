//! The flags of a license's rights, for the verbs that issue and change one. [`countersign_model::rights`] has the fields.

use clap::builder::BoolishValueParser;

use countersign_model::channel::Channel;
use countersign_model::rights::RightsEdit;

use crate::commands::license::arguments::parse_channel;

/// Rights of a license.
#[derive(clap::Args, Debug)]
pub(super) struct RightsFlags {
    /// A channel whose pre-releases its sites may have, where the plugin's entry asks for a list; repeatable
    #[arg(long = "channel", value_name = "rc|beta|alpha", value_parser = parse_channel)]
    channels: Vec<Channel>,
    /// No channel but the stable one
    #[arg(long, conflicts_with = "channels")]
    no_channels: bool,
    /// Whether its sites show nothing of you: they get no link to the customer's page or to your shop
    #[arg(long, value_name = "yes|no", num_args = 0..=1, default_missing_value = "yes", value_parser = BoolishValueParser::new())]
    white_label: Option<bool>,
}

impl RightsFlags {
    /// The edit that they ask for.
    pub(super) fn edit(&self) -> RightsEdit {
        let has_channels = self.no_channels || !self.channels.is_empty();
        RightsEdit {
            channels: has_channels.then(|| self.channels.iter().copied().collect()),
            white_label: self.white_label,
            ..RightsEdit::default()
        }
    }
}
