//! Questions for customers' addresses. They run beside the deliveries, so that none waits for a shop that is slow: a delivery
//! that asks is applied later, when the answer is there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::serve::hooks::customers::{CustomerError, Customers};
use countersign_mail::address::MailAddress;

/// How long nobody is asked after a question that had no answer.
const REST: Duration = Duration::from_secs(5);

/// Questions that are open, or whose answer was not taken yet.
const MOST: usize = 8;

/// How long an answer is kept for its delivery, which a person may have dropped meanwhile.
const KEPT: Duration = Duration::from_secs(60);

/// An address; `None` if there is no such customer, or none with an address.
type ToldAddress = Result<Option<MailAddress>, CustomerError>;

/// The questions to one shop.
#[derive(Debug)]
pub(crate) struct CustomerQuestions {
    customers: Arc<Customers>,
    asked: Arc<Mutex<AskedCustomers>>,
}

#[derive(Debug, Default)]
struct AskedCustomers {
    /// By the customer's id. A question without an answer is open.
    questions: HashMap<String, Option<(ToldAddress, Instant)>>,
    /// When the last question failed, if no other succeeded since.
    failed: Option<Instant>,
}

/// What to do for a delivery that needs an address.
#[derive(Debug)]
enum NextStep {
    /// The shop answered.
    Take(ToldAddress),
    /// The shop was asked, or is asked later.
    Wait,
    /// The question is open from now on.
    Ask,
}

impl CustomerQuestions {
    pub(super) fn new(customers: Customers) -> Self {
        Self {
            customers: Arc::new(customers),
            asked: Arc::default(),
        }
    }

    /// The address of a customer, if the shop has told it. If not, the shop is asked, and `answered` is called once it answered.
    ///
    /// # Errors
    /// It is not known yet, or the shop could not be asked.
    pub(crate) fn address(&self, id: &str, answered: impl FnOnce() + Send + 'static) -> ToldAddress {
        match lock(&self.asked).next_step(id) {
            NextStep::Take(answer) => return answer,
            NextStep::Wait => {}
            NextStep::Ask => {
                let customers = Arc::clone(&self.customers);
                let customer = id.to_owned();
                let question = async move { customers.address(&customer).await };
                tokio::spawn(ask(Arc::clone(&self.asked), id.to_owned(), question, answered));
            }
        }
        Err(CustomerError::Later)
    }
}

/// Asks an open question, and notes its answer.
async fn ask(
    asked: Arc<Mutex<AskedCustomers>>,
    id: String,
    question: impl Future<Output = ToldAddress> + Send + 'static,
    answered: impl FnOnce(),
) {
    // A task of its own: after a panic of a library, the question must not stay open for ever.
    let answer = tokio::spawn(question).await;
    lock(&asked).keep(id, answer.unwrap_or(Err(CustomerError::Panic)));
    answered();
}

impl AskedCustomers {
    fn next_step(&mut self, id: &str) -> NextStep {
        self.questions
            .retain(|_, answer| answer.as_ref().is_none_or(|(_, at)| at.elapsed() < KEPT));
        match self.questions.remove(id) {
            Some(Some((answer, _))) => return NextStep::Take(answer),
            Some(None) => {
                self.questions.insert(id.to_owned(), None);
                return NextStep::Wait;
            }
            None => {}
        }
        let rests = self.failed.is_some_and(|at| at.elapsed() < REST);
        if rests || self.questions.len() >= MOST {
            return NextStep::Wait;
        }
        self.questions.insert(id.to_owned(), None);
        NextStep::Ask
    }

    fn keep(&mut self, id: String, answer: ToldAddress) {
        let now = Instant::now();
        self.failed = answer.is_err().then_some(now);
        self.questions.insert(id, Some((answer, now)));
    }
}

fn lock(asked: &Mutex<AskedCustomers>) -> MutexGuard<'_, AskedCustomers> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_that_panics_is_answered_and_may_be_asked_again() {
        let asked = Arc::default();
        assert!(matches!(lock(&asked).next_step("ctm_1"), NextStep::Ask));
        assert!(matches!(lock(&asked).next_step("ctm_1"), NextStep::Wait));
        let (answered, is_answered) = tokio::sync::oneshot::channel();
        let question = async { panic!("as a library may") };
        let asking = ask(Arc::clone(&asked), "ctm_1".into(), question, || {
            let _ = answered.send(());
        });
        let _ = tokio::spawn(asking).await;
        assert_eq!(is_answered.await, Ok(()));
        let step = lock(&asked).next_step("ctm_1");
        assert!(matches!(step, NextStep::Take(Err(CustomerError::Panic))), "{step:?}");
        assert!(
            matches!(lock(&asked).next_step("ctm_1"), NextStep::Wait),
            "nobody is asked for a moment"
        );
        lock(&asked).failed = None;
        assert!(matches!(lock(&asked).next_step("ctm_1"), NextStep::Ask));
    }
}
