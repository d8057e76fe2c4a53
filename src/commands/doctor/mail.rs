//! Checks mail: the settings with their files, the texts, and mails that wait too long.

use chrono::{TimeDelta, Utc};

use crate::build::counted;
use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::commands::mail::made_up;
use countersign_files::queue::{Queue, QueueState};
use countersign_mail::account::MailAccount;
use countersign_mail::queued_mail::{self, QueuedMail};
use countersign_mail::texts::MailTexts;
use countersign_mail::{MailKind, NO_MAIL_SERVER_HINT};
use countersign_settings::config::Config;

/// After this long, a buyer asks for the key.
const TOO_LONG: TimeDelta = TimeDelta::minutes(30);

/// The findings; none where there is neither a mail server nor a mail.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let found = settings(config).into_iter().chain(reminders(config));
    found.chain(queue(config)).collect()
}

fn settings(config: &Config) -> Vec<Finding> {
    let Some(settings) = &config.mail else {
        return Vec::new();
    };
    let account = MailAccount::new(settings).and_then(|account| account.check_files().map(|()| account));
    let account = match account {
        Ok(account) => ok("mail", format!("{} by {}", account.from(), account.server())),
        Err(error) => {
            let hint = error.hint();
            broken("mail", error.to_string(), Some(hint))
        }
    };
    let texts = MailTexts::load(&config.paths.registry);
    let said = texts.and_then(|texts| {
        texts.try_all()?;
        texts.render(&made_up::content(config, MailKind::License, None, 1))
    });
    let texts = said
        .err()
        .map(|error| broken("mail", error.to_string(), Some(error.hint().to_owned())));
    [account].into_iter().chain(texts).collect()
}

/// Why nobody is reminded, although days are set.
fn reminders(config: &Config) -> Option<Finding> {
    const NOBODY: &str = "mail.reminders_before or reminders_after is set, and nobody is reminded";
    let nobody = |why: &str, hint: &str| Some(warning("mail", format!("{NOBODY}: {why}"), hint));
    if config.reminders.is_empty() {
        None
    } else if config.mail.is_none() {
        nobody("there is no mail server", NO_MAIL_SERVER_HINT)
    } else if config.serve.public_url.is_none() {
        nobody(
            "there is no public_url for the link to unsubscribe",
            "set public_url in table [serve] of countersign.toml",
        )
    } else if !config.paths.downloads_key.exists() {
        nobody(
            "there is no keys/downloads.key",
            "make one with `countersign keys generate --downloads`",
        )
    } else {
        None
    }
}

/// What waits.
fn queue(config: &Config) -> Vec<Finding> {
    let Some(folder) = Queue::<QueuedMail>::existing(queued_mail::folder(&config.paths.store)) else {
        return Vec::new();
    };
    let listed = match folder.list() {
        Ok(listed) => listed,
        Err(error) => return vec![broken("mail", error.to_string(), None)],
    };
    let now = Utc::now();
    let mut waiting = 0;
    let mut late = 0;
    let mut parked = 0;
    let mut damaged = 0;
    for (id, _) in listed {
        match folder.read(id) {
            Ok(Some(mail)) if mail.state == QueueState::Parked => parked += 1,
            Ok(Some(mail)) => {
                waiting += 1;
                late += usize::from(now - mail.queued > TOO_LONG);
            }
            Ok(None) => {}
            Err(_) => damaged += 1,
        }
    }
    let mut findings = Vec::new();
    let mut report = |count: usize, finding: &str, hint: &str| {
        if count > 0 {
            findings.push(warning("mail", format!("{} {finding}", counted(count, "mail")), hint));
        }
    };
    if config.mail.is_none() {
        report(
            waiting,
            "waiting, and there is no mail server",
            "set table [mail] of countersign.toml",
        );
    } else {
        report(
            late,
            "waiting for more than half an hour",
            "`countersign mail parked list --all` says why; `countersign mail send-test` tries the mail server",
        );
    }
    report(
        parked,
        "parked",
        "`countersign mail parked list` says why; then `parked retry` or `parked drop`",
    );
    report(damaged, "damaged", "`countersign mail parked list` names the files");
    findings
}
