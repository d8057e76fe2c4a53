//! The clients as packages: what is in their archives, and what they do where only the archive is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::instance::shared_keys;
use crate::support::{Instance, License, Server};

fn project(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// Runs a shell command in a folder, with nothing from the network and nothing of the user's; gives what it prints.
#[track_caller]
fn sh(folder: &Path, command: &str, environment: &[(&str, &str)]) -> String {
    let tools = project("tests/tools");
    let path = std::env::var("PATH").unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-euc", command]).current_dir(folder);
    shell
        .env("PATH", format!("{}:{path}", tools.join(".venv/bin").display()))
        .env("MODULES", tools.join("node_modules/.bin"))
        .env("npm_config_cache", folder.join(".npm"))
        .env("npm_config_offline", "true")
        .env("npm_config_audit", "false")
        .env("npm_config_fund", "false")
        .env("npm_config_update_notifier", "false")
        .env("PIP_NO_INDEX", "1")
        .env("PIP_NO_CACHE_DIR", "1")
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("COMPOSER_HOME", folder.join(".composer"))
        .env("COMPOSER_CACHE_DIR", folder.join(".composer/cache"))
        .env("COMPOSER_ALLOW_SUPERUSER", "1")
        .env("COMPOSER_DISABLE_NETWORK", "1")
        .env("COMPOSER_NO_INTERACTION", "1")
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .envs(environment.iter().copied());
    let output = shell.output().unwrap();
    let [printed, told] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{command}: {printed}{told}");
    printed
}

fn pack(client: &str, folder: &Path, environment: &[(&str, &str)]) {
    let script = project("packaging/pack-client");
    let command = format!(
        "umask ${{MASK:-022}}; {} {client} {}",
        script.display(),
        folder.display()
    );
    sh(folder, &command, environment);
}

/// The code in a client's README that begins with a fence of this language.
fn readme(client: &str, language: &str) -> String {
    let page = fs::read_to_string(project("clients").join(client).join("README.md")).unwrap();
    let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("\n```").unwrap().0.to_owned()
}

/// A project of somebody else's with the archives, the vectors and the client's own tests. Nothing is installed yet.
fn somebodys_project(client: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let made = folder.path();
    pack(client, made, &[]);
    for name in ["vectors", client] {
        fs::create_dir(made.join(name)).unwrap();
        let files = fs::read_dir(project("clients").join(name)).unwrap().map(Result::unwrap);
        let wanted = |name: &str| name.contains("test") || name == "statements.json";
        for file in files.filter(|file| wanted(file.file_name().to_str().unwrap())) {
            fs::copy(file.path(), made.join(name).join(file.file_name())).unwrap();
        }
    }
    folder
}

/// An example of a README for this server and license.
fn example(client: &str, language: &str, server: &Server, license: &License) -> String {
    let placeholder = "-----BEGIN PUBLIC KEY-----\n(yours)\n-----END PUBLIC KEY-----\n";
    let mut code = readme(client, language);
    for (placeholder, real) in [
        (placeholder, shared_keys().public.as_str()),
        ("XXXXX-XXXXX-XXXXX-XXXXX-XXXXX", license.key.as_str()),
        ("https://licenses.example.com", &format!("http://{}", server.address)),
    ] {
        assert!(code.contains(placeholder), "{placeholder}: {code}");
        code = code.replace(placeholder, real);
    }
    code
}

fn licensed() -> (Instance, Server, License) {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start(&instance);
    (instance, server, license)
}

/// The members that the published interface gives a statement, without its signature.
fn members() -> BTreeSet<String> {
    let published: Value = serde_json::from_str(&fs::read_to_string(project("public/openapi.json")).unwrap()).unwrap();
    let members = published["components"]["schemas"]["Statement"]["properties"].as_object();
    let names = members.unwrap().keys().cloned();
    names.filter(|name| name != "signature").collect()
}

#[test]
fn an_archive_has_the_client_with_its_licenses_and_nothing_else_and_the_same_bytes_twice() {
    let version = env!("CARGO_PKG_VERSION");
    let wheel = format!("countersign_client-{version}.dist-info");
    let source = format!("countersign_client-{version}");
    let licenses = ["LICENSE-APACHE", "LICENSE-MIT"];
    let within = |folder: &str, names: &[&str]| -> BTreeSet<String> {
        let all = licenses.iter().chain(names);
        all.map(|name| format!("{folder}{name}")).collect()
    };
    let files = [
        "countersign-client-admin.php",
        "countersign-client.php",
        "countersign-client.pot",
    ];
    let wordpress = within("", &[&files[..], &["README.md", "composer.json"]].concat());
    let files = ["README.md", "package.json", "countersign.d.mts", "countersign.mjs"];
    let javascript = within("package/", &files);
    let module = ["countersign_client/__init__.py", "countersign_client/py.typed"];
    let files = [&module[..], &["PKG-INFO", "README.md", "pyproject.toml"]].concat();
    let python_source = within(&format!("{source}/"), &files);
    let mut python = within(&format!("{wheel}/licenses/"), &[]);
    python.extend(["METADATA", "RECORD", "WHEEL"].map(|name| format!("{wheel}/{name}")));
    python.extend(module.map(str::to_owned));
    let expected = BTreeMap::from([
        (format!("countersign-wordpress-client-{version}.zip"), wordpress),
        (format!("countersign-client-{version}.tgz"), javascript),
        (format!("{source}.tar.gz"), python_source),
        (format!("{source}-py3-none-any.whl"), python),
    ]);

    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    for client in ["wordpress", "javascript", "python"] {
        pack(client, folders[0].path(), &[]);
        let elsewhere = [("TZ", "Asia/Tokyo"), ("LANG", "de_DE.UTF-8"), ("MASK", "077")];
        pack(client, folders[1].path(), &elsewhere);
    }
    for (archive, files) in expected {
        let [once, twice] = folders
            .each_ref()
            .map(|folder| fs::read(folder.path().join(&archive)).unwrap());
        assert!(once == twice, "{archive} differs");
        let listed = sh(folders[0].path(), &format!("bsdtar -tf {archive}"), &[]);
        assert_eq!(
            listed.lines().map(str::to_owned).collect::<BTreeSet<_>>(),
            files,
            "{archive}"
        );
    }
}

#[test]
fn the_package_for_npm_takes_the_vectors_and_has_types_that_hold() {
    let folder = somebodys_project("javascript");
    let made = folder.path();
    sh(made, &readme("javascript", "sh"), &[]);
    let said = sh(made, "node --test javascript/countersign.test.mjs", &[]);
    assert!(said.contains("# pass 2\n") && said.contains("# fail 0\n"), "{said}");

    let (_instance, server, license) = licensed();
    fs::write(made.join("example.mts"), example("javascript", "js", &server, &license)).unwrap();
    let wrong = "import { verify, type Statement } from 'countersign-client';\n\
        const expected = { publicKeys: [''], licenseKey: '', nonce: '', siteUrl: '', domain: '' };\n\
        const statement: Statement = await verify(new Uint8Array(), expected);\n\
        const days: string | undefined = statement.expires;\n\
        // @ts-expect-error: it may be absent.\n\
        statement.expires.length;\n\
        // @ts-expect-error: there is no such status.\n\
        statement.status === 'good';\n\
        // @ts-expect-error: a text is not what was received.\n\
        await verify('', expected);\n\
        // @ts-expect-error: nothing says which key was sent.\n\
        await verify(new Uint8Array(), { publicKeys: [''], nonce: '', siteUrl: '', domain: '' });\n\
        // @ts-expect-error: nothing else is exported.\n\
        await import('countersign-client/countersign.mjs');\n\
        console.log(days);\n";
    fs::write(made.join("wrong.mts"), wrong).unwrap();
    let compile = "$MODULES/tsc --strict --target es2022 --lib es2022,dom example.mts wrong.mts";
    sh(
        made,
        &format!("{compile} --module esnext --moduleResolution bundler --noEmit"),
        &[],
    );
    sh(made, &format!("{compile} --module nodenext"), &[]);
    assert_eq!(sh(made, "node example.mjs", &[]), "active [ 'forms' ]\n");
}

/// Makes the types from the comments in the module.
#[test]
fn the_types_for_typescript_are_those_of_the_module_and_of_the_interface() {
    let folder = TempDir::new().unwrap();
    let module = project("clients/javascript/countersign.mjs");
    let declare = "--allowJs --declaration --emitDeclarationOnly --target es2022 --module nodenext";
    let command = format!("$MODULES/tsc {declare} --outDir . {}", module.display());
    sh(folder.path(), &command, &[]);
    let made = fs::read_to_string(folder.path().join("countersign.d.mts")).unwrap();
    let kept = module.with_extension("d.mts");
    if std::env::var_os("COUNTERSIGN_BLESS").is_some() {
        fs::write(&kept, &made).unwrap();
    }
    assert_eq!(
        fs::read_to_string(kept).unwrap(),
        made,
        "COUNTERSIGN_BLESS=1 takes what was made"
    );
    let (_, statement) = made.split_once("export type Statement = {\n").unwrap();
    let lines = statement
        .lines()
        .filter(|line| line.ends_with(';') && line.starts_with("    "));
    let names = lines.map(|line| line.trim().split(['?', ':']).next().unwrap().to_owned());
    assert_eq!(names.collect::<BTreeSet<_>>(), members());
}

#[test]
fn the_wheel_takes_the_vectors_and_has_types_that_hold_and_the_source_archive_gives_that_wheel() {
    let folder = somebodys_project("python");
    let made = folder.path();
    let install = readme("python", "sh");
    sh(
        made,
        &format!(
            "python3 -m venv --without-pip venv; pip() {{ command pip --python venv/bin/python \"$@\"; }}; {install}"
        ),
        &[],
    );
    let said = sh(made, "venv/bin/python -m unittest discover python 2>&1", &[]);
    assert!(said.contains("Ran 3 tests") && said.contains("\nOK"), "{said}");

    let (_instance, server, license) = licensed();
    fs::write(made.join("example.py"), example("python", "python", &server, &license)).unwrap();
    let wrong = "from countersign_client import Statement, verify\n\
        statement: Statement = verify(b'', [''], '', '', '', license_key='')\n\
        days: str = statement['expires']\n\
        statement['status'] == 'good'  # type: ignore[comparison-overlap]\n\
        statement['standing']  # type: ignore[typeddict-item]\n\
        verify('', [''], '', '', '', license_key='')  # type: ignore[arg-type]\n\
        verify(b'', [''], '', '', '')  # type: ignore[call-arg]\n";
    fs::write(made.join("wrong.py"), wrong).unwrap();
    let check = "mypy --strict --cache-dir /dev/null --python-executable venv/bin/python example.py wrong.py";
    sh(made, check, &[]);
    assert_eq!(sh(made, "venv/bin/python example.py", &[]), "active ['forms']\n");
    let annotated = "import typing, countersign_client as c; print(*typing.get_type_hints(c.Statement))";
    let names = sh(made, &format!("venv/bin/python -c '{annotated}'"), &[]);
    assert_eq!(
        names.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>(),
        members()
    );

    sh(
        made,
        "pip wheel --no-deps --no-build-isolation --wheel-dir again countersign_client-*.tar.gz",
        &[],
    );
    sh(made, "cmp countersign_client-*.whl again/*.whl", &[]);
}

/// Follows the README in an empty plugin. Gives its files.
fn composer() -> TempDir {
    let folder = TempDir::new().unwrap();
    let made = folder.path();
    fs::create_dir_all(made.join("packages")).unwrap();
    fs::create_dir_all(made.join(".composer")).unwrap();
    // It is not asked here.
    fs::write(
        made.join(".composer/config.json"),
        r#"{ "repositories": { "packagist.org": false } }"#,
    )
    .unwrap();
    pack("wordpress", &made.join("packages"), &[]);
    sh(made, &readme("wordpress", "sh"), &[]);
    folder
}

/// A file of the client for WordPress as Composer installed it from the archive.
pub fn wordpress(name: &str) -> String {
    static FILES: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let folder = composer();
        let files = fs::read_dir(folder.path().join("vendor/countersign/wordpress-client")).unwrap();
        files
            .map(|file| file.unwrap().path())
            .map(|path| {
                (
                    path.file_name().unwrap().to_str().unwrap().to_owned(),
                    fs::read_to_string(&path).unwrap(),
                )
            })
            .collect()
    });
    files[name].clone()
}

#[test]
fn the_package_for_composer_loads_one_file_and_gives_a_plugin_its_own_namespace() {
    let folder = composer();
    let made = folder.path();
    let load = "require 'vendor/autoload.php'; echo class_exists('Countersign\\\\Client\\\\Client') ? 'there' : 'not there'; \
        foreach (get_included_files() as $file) { strpos($file, 'countersign-') && print(' ' . basename($file)); }";
    let php = |before: &str| sh(made, &format!("php -r \"{before} ${{LOAD}}\""), &[("LOAD", load)]);
    assert_eq!(php("define('ABSPATH', '/');"), "there countersign-client.php");
    // A tool that is not WordPress goes on, too.
    let end = "register_shutdown_function(function () { echo 'ended'; });";
    assert_eq!(
        php(&format!("{end} require 'vendor/autoload.php'; echo 'loaded '; exit;")),
        "loaded ended"
    );
    for name in ["countersign-client.php", "countersign-client-admin.php"] {
        let text = fs::read_to_string(made.join("license").join(name)).unwrap();
        let expected = fs::read_to_string(project("clients/wordpress").join(name)).unwrap();
        assert_eq!(
            text,
            expected.replace("\nnamespace Countersign\\Client;", "\nnamespace Acme\\Forms\\License;")
        );
        assert_ne!(text, expected);
    }
    fs::write(
        made.join("example.php"),
        format!("<?php\n{}", readme("wordpress", "php")),
    )
    .unwrap();
    sh(made, "php -l example.php license/countersign-client.php", &[]);
}
