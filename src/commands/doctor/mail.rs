//! Checks mail: the settings with their files, the texts, and mails that wait too long.

use chrono::{TimeDelta, Utc};

use crate::build::counted;
use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::commands::mail::made_up;
use countersign_files::queue::{Queue, QueueState};
use countersign_mail::account::MailAccount;
use countersign_mail::queued_mail::{self, QueuedMail};
use countersign_mail::texts::MailTexts;
use countersign_settings::config::Config;

/// A buyer who has waited this long asks where the key is.
const TOO_LONG: TimeDelta = TimeDelta::minutes(30);

/// The findings; none where there is neither a mail server nor a mail.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    settings(config).into_iter().chain(queue(config)).collect()
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
    let said = texts.and_then(|texts| texts.render(&made_up::licenses(config, 1)));
    let texts = said
        .err()
        .map(|error| broken("mail", error.to_string(), Some(error.hint().to_owned())));
    [account].into_iter().chain(texts).collect()
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
    let mut told = |count: usize, finding: &str, hint: &str| {
        if count > 0 {
            findings.push(warning("mail", format!("{} {finding}", counted(count, "mail")), hint));
        }
    };
    if config.mail.is_none() {
        told(
            waiting,
            "waiting, and there is no mail server",
            "set table [mail] of countersign.toml",
        );
    } else {
        told(
            late,
            "waiting for more than half an hour",
            "`countersign mail parked list --all` says why; `countersign mail send-test` tries the mail server",
        );
    }
    told(
        parked,
        "parked",
        "`countersign mail parked list` says why; then `parked retry` or `parked drop`",
    );
    told(damaged, "damaged", "`countersign mail parked list` names the files");
    findings
}
