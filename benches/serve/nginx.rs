//! nginx with one worker, on a free port of this machine.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::Server;

/// Debian's folder of nginx, which the `PATH` of a user may lack.
const SBIN: &str = "/usr/sbin";

/// Starts nginx with one `server` that has these directives; `None` if nginx is not installed. nginx writes to `folder`.
pub fn start(folder: &Path, directives: &str) -> io::Result<Option<Server>> {
    let path = format!("{}:{SBIN}", std::env::var("PATH").unwrap_or_default());
    if Command::new("nginx").arg("-v").env("PATH", &path).output().is_err() {
        return Ok(None);
    }
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    fs::create_dir_all(folder)?;
    let configuration = format!(
        "daemon off; master_process off; pid {0}/pid; error_log stderr crit; events {{}}\n\
         http {{ access_log off; sendfile on; client_body_temp_path {0}/body; proxy_temp_path {0}/proxy;\n\
         fastcgi_temp_path {0}/fastcgi; uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi;\n\
         server {{ listen 127.0.0.1:{port}; {directives} }} }}\n",
        folder.display(),
    );
    fs::write(folder.join("nginx.conf"), configuration)?;
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "echo \"listening on http://127.0.0.1:$2\"; exec nginx -e stderr -c \"$1\"",
            "sh",
        ])
        .arg(folder.join("nginx.conf"))
        .arg(port.to_string())
        .env("PATH", path);
    let server = Server::start(command)?;
    let until = Instant::now() + Duration::from_secs(5);
    while TcpStream::connect(server.address).is_err() {
        if Instant::now() > until {
            return Err(io::Error::other("nginx did not start"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(Some(server))
}
