//! Notifications that the budget of a process has changed.
//!
//! The budget is that of the device's memory, as D3DKMTQueryVideoMemoryInfo answers it for the local group. It changes by what other
//! processes make resident, give back and reserve. [d3dkmthk: D3DKMTRegisterBudgetChangeNotification, D3DKMT_BUDGETCHANGENOTIFICATION]

use std::sync::Arc;

use nt::lock::lock;

use crate::vidmm::budget_group::Group;
use crate::vidmm::manager::VidMm;
use crate::vidmm::notices::{Budget, BudgetListener, BudgetRegistration};

impl VidMm {
    /// `registration` is told of budgets other than the present one, until it ends.
    pub(crate) fn add_budget_listener(&self, registration: &Arc<BudgetRegistration>) {
        let mut listeners = lock(&self.budget_listeners);
        let known = lock(&self.memory).info(registration.process(), Group::Local).budget;
        listeners.push(BudgetListener { registration: Arc::downgrade(registration), known });
    }

    /// Usage or reservations of somebody may have changed: tells those whose budget has. Called without the memory lock.
    pub(crate) fn tell_budgets(&self) {
        let mut listeners = lock(&self.budget_listeners);
        listeners.retain(|listener| listener.registration.strong_count() > 0);
        if listeners.is_empty() {
            return;
        }
        let memory = lock(&self.memory);
        for listener in listeners.iter_mut() {
            let Some(registration) = listener.registration.upgrade() else { continue };
            let budget = memory.info(registration.process(), Group::Local).budget;
            if std::mem::replace(&mut listener.known, budget) != budget {
                registration.tell(Budget(budget));
            }
        }
    }
}
