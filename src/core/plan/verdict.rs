//! Decides what a found or a missing sentinel means. No IO.

use crate::record::HandoffId;

/// The newest sentinel of a transcript, if it names no known handoff.
#[derive(Debug, Clone, Copy)]
pub(super) struct MissedSentinel {
    pub(super) id: HandoffId,
    /// A person pasted it.
    pub(super) by_user: bool,
    /// It is in the agent's last message.
    pub(super) is_last: bool,
}

/// What is known of a request and of its conversation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PinEvidence {
    pub(super) is_model_call: bool,
    /// The request is of the agent's loop, and its transcript is whole.
    pub(super) of_the_loop: bool,
    /// The agent named its session.
    pub(super) is_named: bool,
    /// The handoff that the conversation's record names.
    pub(super) known: Option<HandoffId>,
    /// The handoff that the request is cut at.
    pub(super) active: Option<HandoffId>,
    /// A person's line names the active handoff.
    pub(super) by_user: bool,
    /// The transcript holds an undo.
    pub(super) was_undone: bool,
    pub(super) missed: Option<MissedSentinel>,
}

/// What follows for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PinVerdict {
    /// The conversation was pinned before, and this request is not.
    pub(super) unpinned: bool,
    /// The sentinel that is known neither to the store nor by its seal.
    pub(super) lost: Option<HandoffId>,
    /// This request is the first after a handoff that a person resumed.
    pub(super) resumed: bool,
    /// The last message asks for a handoff that is unknown: it is answered here.
    pub(super) names_unknown: bool,
}

impl PinEvidence {
    pub(super) fn verdict(&self) -> PinVerdict {
        let lost = self
            .missed
            .filter(|missed| !missed.by_user)
            .map(|missed| missed.id);
        // Without a name, another conversation with the same opening may be the one that had a handoff.
        let gone = self.known.is_some() && self.of_the_loop && self.is_named && !self.was_undone;
        PinVerdict {
            unpinned: self.active.is_none() && (gone || lost.is_some() && self.is_model_call),
            lost,
            resumed: self.of_the_loop && self.by_user && self.active.is_some() && self.known != self.active,
            names_unknown: self.is_model_call
                && self.missed.is_some_and(|missed| missed.by_user && missed.is_last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: HandoffId = HandoffId::from_u128(1);
    const TWO: HandoffId = HandoffId::from_u128(2);

    /// A request of a loop whose transcript has the sentinel that the record names.
    fn pinned() -> PinEvidence {
        PinEvidence {
            is_model_call: true,
            of_the_loop: true,
            is_named: true,
            known: Some(ONE),
            active: Some(ONE),
            by_user: false,
            was_undone: false,
            missed: None,
        }
    }

    fn without_sentinel() -> PinEvidence {
        PinEvidence {
            active: None,
            ..pinned()
        }
    }

    fn missed(by_user: bool, is_last: bool) -> Option<MissedSentinel> {
        Some(MissedSentinel {
            id: TWO,
            by_user,
            is_last,
        })
    }

    #[test]
    fn a_pinned_request_needs_no_warning() {
        let verdict = pinned().verdict();
        let quiet = PinVerdict {
            unpinned: false,
            lost: None,
            resumed: false,
            names_unknown: false,
        };
        assert_eq!(verdict, quiet);
    }

    #[test]
    fn a_missing_sentinel_unpins_only_the_loop_of_a_named_session_without_undo() {
        assert!(without_sentinel().verdict().unpinned);
        let excused = [
            PinEvidence {
                known: None,
                ..without_sentinel()
            },
            PinEvidence {
                of_the_loop: false,
                ..without_sentinel()
            },
            PinEvidence {
                is_named: false,
                ..without_sentinel()
            },
            PinEvidence {
                was_undone: true,
                ..without_sentinel()
            },
        ];
        for evidence in excused {
            assert!(!evidence.verdict().unpinned, "{evidence:?}");
        }
    }

    #[test]
    fn an_unknown_sentinel_of_the_model_is_lost_and_unpins_a_model_call() {
        let evidence = PinEvidence {
            known: None,
            missed: missed(false, false),
            ..without_sentinel()
        };
        let verdict = evidence.verdict();
        assert_eq!((verdict.lost, verdict.unpinned), (Some(TWO), true));
        let count = PinEvidence {
            is_model_call: false,
            of_the_loop: false,
            ..evidence
        };
        assert_eq!(
            (count.verdict().lost, count.verdict().unpinned),
            (Some(TWO), false)
        );
    }

    #[test]
    fn a_lost_sentinel_after_an_active_one_unpins_nothing() {
        let evidence = PinEvidence {
            missed: missed(false, false),
            ..pinned()
        };
        let verdict = evidence.verdict();
        assert_eq!((verdict.lost, verdict.unpinned), (Some(TWO), false));
    }

    #[test]
    fn a_pasted_line_is_answered_here_only_in_the_last_message_of_a_model_call() {
        let pasted = PinEvidence {
            missed: missed(true, true),
            ..pinned()
        };
        let verdict = pasted.verdict();
        assert_eq!((verdict.names_unknown, verdict.lost), (true, None));
        let earlier = PinEvidence {
            missed: missed(true, false),
            ..pasted
        };
        let count = PinEvidence {
            is_model_call: false,
            ..pasted
        };
        assert!(!earlier.verdict().names_unknown && !count.verdict().names_unknown);
    }

    #[test]
    fn a_persons_line_resumes_once() {
        let first = PinEvidence {
            known: Some(TWO),
            by_user: true,
            ..pinned()
        };
        assert!(first.verdict().resumed);
        let later = PinEvidence {
            known: Some(ONE),
            ..first
        };
        let by_model = PinEvidence {
            by_user: false,
            ..first
        };
        let side_call = PinEvidence {
            of_the_loop: false,
            ..first
        };
        for evidence in [later, by_model, side_call] {
            assert!(!evidence.verdict().resumed, "{evidence:?}");
        }
    }
}
