//! Integration tests by behaviour: the program as a whole, over real sockets, files and processes.

mod architecture;
mod binding;
mod canary;
mod clock;
mod commands;
mod failing;
mod golden;
mod ledger;
mod linear;
mod php;
mod power;
mod preview;
mod preview_browser;
mod problems;
mod readme;
mod reload;
mod remote;
mod signature;
mod soak;
mod start;
mod statements;
mod support;
mod updates;
mod vectors;
mod wordpress;
