//! Questions for customers' addresses. They run beside the deliveries, so that none waits for a shop that is slow: a delivery
//! that asks is applied later, when the answer is there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::mail::address::MailAddress;
use crate::serve::hooks::customers::{CustomerError, Customers};

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
    customers: Customers,
    asked: Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    /// By the customer's id. A question without an answer is open.
    questions: HashMap<String, Option<(ToldAddress, Instant)>>,
    /// When the last question failed, if no other succeeded since.
    failed: Option<Instant>,
}

impl CustomerQuestions {
    pub(super) fn new(customers: Customers) -> Arc<Self> {
        Arc::new(Self {
            customers,
            asked: Mutex::default(),
        })
    }

    /// The address of a customer, if the shop has told it. If not, the shop is asked, and `answered` is called once it answered.
    ///
    /// # Errors
    /// It is not known yet, or the shop could not be asked.
    pub(crate) fn address(self: &Arc<Self>, id: &str, answered: impl FnOnce() + Send + 'static) -> ToldAddress {
        let mut asked = self.asked();
        asked
            .questions
            .retain(|_, answer| answer.as_ref().is_none_or(|(_, at)| at.elapsed() < KEPT));
        match asked.questions.remove(id) {
            Some(Some((answer, _))) => return answer,
            Some(None) => {
                asked.questions.insert(id.to_owned(), None);
                return Err(CustomerError::Later);
            }
            None => {}
        }
        let rests = asked.failed.is_some_and(|at| at.elapsed() < REST);
        if rests || asked.questions.len() >= MOST {
            return Err(CustomerError::Later);
        }
        asked.questions.insert(id.to_owned(), None);
        let questions = Arc::clone(self);
        let id = id.to_owned();
        tokio::spawn(async move {
            let answer = questions.customers.address(&id).await;
            questions.keep(id, answer);
            answered();
        });
        Err(CustomerError::Later)
    }

    fn keep(&self, id: String, answer: ToldAddress) {
        let mut asked = self.asked();
        let now = Instant::now();
        asked.failed = answer.is_err().then_some(now);
        asked.questions.insert(id, Some((answer, now)));
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
