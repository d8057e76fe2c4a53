//! The baseline: a bare warp route with the same bytes and headers as the measured response, and no decision.
//!
//! It runs in its own process, this program started again, so that its CPU time is separate from the load's.

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use warp::Filter;
use warp::http::{HeaderMap, StatusCode};
use warp::reply::Response;

use crate::client::Answer;
use crate::process::Server;

/// The argument that makes this program the bare route.
pub const ARGUMENT: &str = "bare-route";

/// The argument that makes this program serve a file, with warp's own filter.
pub const FILE_ARGUMENT: &str = "bare-file";

/// Starts a server of this file.
pub fn start_file(file: &Path) -> io::Result<Server> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(FILE_ARGUMENT).arg(file);
    Server::start(command)
}

/// Serves the file until it is killed.
pub fn run_file(file: &str) -> io::Result<()> {
    let route = warp::path!("package.zip").and(warp::fs::file(file.to_owned()));
    runtime()?.block_on(async {
        warp::serve(route).incoming(listen().await?).run().await;
        Ok(())
    })
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

/// Listens, and says where.
async fn listen() -> io::Result<tokio::net::TcpListener> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    writeln!(io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    Ok(listener)
}

/// Starts the bare route with this answer, which is left in the folder `bench`.
pub fn start(bench: &Path, answer: &Answer) -> io::Result<Server> {
    let file = bench.join("bare-route.answer");
    std::fs::write(&file, answer.to_text())?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(ARGUMENT).arg(file);
    Server::start(command)
}

/// Serves the answer in `file` until it is killed.
pub fn run(file: &str) -> io::Result<()> {
    let answer = Answer::from_text(&std::fs::read_to_string(file)?).ok_or(io::ErrorKind::InvalidData)?;
    let status = StatusCode::from_u16(answer.status).map_err(io::Error::other)?;
    let mut headers = HeaderMap::new();
    for (name, value) in &answer.headers {
        // hyper adds these itself, as it does for the server that is measured.
        if !["content-length", "date"].contains(&name.as_str()) {
            let name = name.parse::<warp::http::HeaderName>().map_err(io::Error::other)?;
            headers.insert(name, value.parse().map_err(io::Error::other)?);
        }
    }
    let fields: Vec<_> = headers
        .into_iter()
        .filter_map(|(name, value)| Some((name?, value)))
        .collect();
    let body = Bytes::from(answer.body.into_bytes());
    let route = warp::path!("api" / "v1" / "updates" / String)
        .and(warp::get())
        .map(move |_slug: String| {
            let mut response = Response::new(body.clone().into());
            *response.status_mut() = status;
            for (name, value) in &fields {
                response.headers_mut().insert(name.clone(), value.clone());
            }
            response
        });
    runtime()?.block_on(async {
        warp::serve(route).incoming(listen().await?).run().await;
        Ok(())
    })
}
