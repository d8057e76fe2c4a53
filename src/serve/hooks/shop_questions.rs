//! Questions to a shop. They run beside the deliveries, so that none waits for a shop that is slow: a delivery that asks is
//! applied later, when the answers are there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::serve::hooks::shop_client::{ShopClient, ShopError};
use countersign_mail::address::MailAddress;
use countersign_shops::shop::NotACustomer;

/// How long nobody is asked after a question that had no answer.
const REST: Duration = Duration::from_secs(5);

/// Deliveries whose questions are open, or whose answers were not taken yet.
const MOST: usize = 8;

/// How long answers are kept for their delivery. A person may drop it before it takes them.
const KEPT: Duration = Duration::from_secs(60);

/// The answers to the questions of a delivery; `None` where the shop has no such object.
type Answers = Result<Vec<Option<Value>>, ShopError>;

/// The questions to one shop.
#[derive(Debug)]
pub(crate) struct ShopQuestions {
    client: Arc<ShopClient>,
    asked: Arc<Mutex<AskedQuestions>>,
}

#[derive(Debug, Default)]
struct AskedQuestions {
    /// By the paths of a delivery's questions. What has no answers is open.
    questions: HashMap<Vec<String>, Option<(Answers, Instant)>>,
    /// When the last question failed, if no other succeeded since.
    failed: Option<Instant>,
}

/// What to do for a delivery that asks.
#[derive(Debug)]
enum NextStep {
    /// The shop answered.
    Take(Answers),
    /// The shop was asked, or is asked later.
    Wait,
    /// The question is open from now on.
    Ask,
}

impl ShopQuestions {
    pub(super) fn new(client: ShopClient) -> Self {
        Self {
            client: Arc::new(client),
            asked: Arc::default(),
        }
    }

    /// The answers to these questions, if the shop has given them. If not, the shop is asked, and `answered` is called once it has
    /// answered.
    ///
    /// # Errors
    /// They are not known yet, or the shop could not be asked.
    pub(crate) fn answers(&self, paths: Vec<String>, answered: impl FnOnce() + Send + 'static) -> Answers {
        match lock(&self.asked).next_step(&paths) {
            NextStep::Take(answers) => return answers,
            NextStep::Wait => {}
            NextStep::Ask => {
                let client = Arc::clone(&self.client);
                let asked = paths.clone();
                let question = async move { client.ask_all(&asked).await };
                tokio::spawn(ask(Arc::clone(&self.asked), paths, question, answered));
            }
        }
        Err(ShopError::Later)
    }

    /// The address of a customer; `None` if nobody can tell it.
    ///
    /// # Errors
    /// As [`Self::answers`], or the answer is about somebody else.
    pub(crate) fn address(
        &self,
        id: &str,
        answered: impl FnOnce() + Send + 'static,
    ) -> Result<Option<MailAddress>, ShopError> {
        let Some(customer) = &self.client.api.customer else {
            return Ok(None);
        };
        let Some(path) = (customer.path)(id) else {
            return Ok(None);
        };
        let Some(Some(answer)) = self.answers(vec![path], answered)?.pop() else {
            return Ok(None);
        };
        let address = (customer.read)(id, &answer).map_err(|NotACustomer| self.client.other_answer())?;
        Ok(address.and_then(|address| address.parse().ok()))
    }
}

/// Asks open questions, and notes their answers.
async fn ask(
    asked: Arc<Mutex<AskedQuestions>>,
    paths: Vec<String>,
    question: impl Future<Output = Answers> + Send + 'static,
    answered: impl FnOnce(),
) {
    // A task of its own: after a panic of a library, the question must not stay open for ever.
    let answer = tokio::spawn(question).await;
    lock(&asked).keep(paths, answer.unwrap_or(Err(ShopError::Panic)));
    answered();
}

impl AskedQuestions {
    fn next_step(&mut self, paths: &[String]) -> NextStep {
        self.questions
            .retain(|_, answer| answer.as_ref().is_none_or(|(_, at)| at.elapsed() < KEPT));
        match self.questions.remove(paths) {
            Some(Some((answer, _))) => return NextStep::Take(answer),
            Some(None) => {
                self.questions.insert(paths.to_vec(), None);
                return NextStep::Wait;
            }
            None => {}
        }
        let rests = self.failed.is_some_and(|at| at.elapsed() < REST);
        if rests || self.questions.len() >= MOST {
            return NextStep::Wait;
        }
        self.questions.insert(paths.to_vec(), None);
        NextStep::Ask
    }

    fn keep(&mut self, paths: Vec<String>, answer: Answers) {
        let now = Instant::now();
        self.failed = answer.is_err().then_some(now);
        self.questions.insert(paths, Some((answer, now)));
    }
}

fn lock(asked: &Mutex<AskedQuestions>) -> MutexGuard<'_, AskedQuestions> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_that_panics_is_answered_and_may_be_asked_again() {
        let asked = Arc::default();
        let paths = ["customers/ctm_1".to_owned()];
        assert!(matches!(lock(&asked).next_step(&paths), NextStep::Ask));
        assert!(matches!(lock(&asked).next_step(&paths), NextStep::Wait));
        let (answered, is_answered) = tokio::sync::oneshot::channel();
        let question = async { panic!("as a library may") };
        let asking = ask(Arc::clone(&asked), paths.to_vec(), question, || {
            let _ = answered.send(());
        });
        let _ = tokio::spawn(asking).await;
        assert_eq!(is_answered.await, Ok(()));
        let step = lock(&asked).next_step(&paths);
        assert!(matches!(step, NextStep::Take(Err(ShopError::Panic))), "{step:?}");
        assert!(
            matches!(lock(&asked).next_step(&paths), NextStep::Wait),
            "nobody is asked for a moment"
        );
        lock(&asked).failed = None;
        assert!(matches!(lock(&asked).next_step(&paths), NextStep::Ask));
    }
}
