//! Any file as a plugin's main file, and as a theme's stylesheet.
#![no_main]

use countersign::build::source::plugin_header;
use countersign_model::plugin::PluginKind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let header = plugin_header::parse(PluginKind::Plugin, file);
    for field in [
        header.name,
        header.version,
        header.description,
        header.author,
        header.plugin_uri,
        header.update_uri,
    ] {
        assert!(!field.contains(|c: char| c.is_control() && c != '\t'));
    }
    plugin_header::main_header(PluginKind::Theme, file);
});
