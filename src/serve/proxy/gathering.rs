//! Puts the pieces of a body together, within a limit of its own and the bound of all bodies.

use bytes::Bytes;

use super::budget::Hold;
use super::fault::Fault;

/// Bytes that are reserved on the strength of a declared length alone; more is reserved as they arrive.
const TRUSTED_LENGTH: usize = 1 << 20;

/// A body of which pieces arrive. One of a single piece is neither copied nor counted, since it is no longer than one read.
pub(super) struct Gathering {
    /// The only piece so far.
    first: Option<Bytes>,
    /// All pieces, once there are several.
    all: Vec<u8>,
    declared: usize,
    pub(super) hold: Hold,
}

impl Gathering {
    /// Nothing yet of a body that is `declared` bytes long, if that is known.
    pub(super) fn new(declared: usize, hold: Hold) -> Self {
        Self {
            first: None,
            all: Vec::new(),
            declared,
            hold,
        }
    }

    /// Adds a piece, and waits for room where it must.
    ///
    /// # Errors
    /// `too_long`, where there is more than `limit`; [`Code::BODIES_FULL`] where no room comes in time.
    ///
    /// [`Code::BODIES_FULL`]: super::fault::Code::BODIES_FULL
    pub(super) async fn push(
        &mut self,
        piece: Bytes,
        limit: usize,
        too_long: impl FnOnce(usize) -> Fault,
    ) -> Result<(), Fault> {
        let len = self.len() + piece.len();
        if len > limit {
            return Err(too_long(limit));
        }
        if len == piece.len() {
            self.first = Some(piece);
            return Ok(());
        }
        self.hold.grow_to(len).await?;
        if let Some(first) = self.first.take() {
            self.all.reserve(self.declared.min(TRUSTED_LENGTH).max(len));
            self.all.extend_from_slice(&first);
        } else if self.all.capacity() < len {
            // Once as much has come as is reserved on trust, the rest of the declared length is reserved.
            let left = self.declared.saturating_sub(self.all.len());
            self.all.reserve(left.max(piece.len()));
        }
        self.all.extend_from_slice(&piece);
        Ok(())
    }

    /// All of it.
    pub(super) fn bytes(&self) -> &[u8] {
        self.first.as_deref().unwrap_or(&self.all)
    }

    fn len(&self) -> usize {
        self.bytes().len()
    }

    /// All of it. Its memory counts until the last slice is gone; `is_final`: what it does not take is given back now.
    pub(super) fn done(mut self, is_final: bool) -> Bytes {
        match self.first {
            Some(only) => only,
            None if self.all.is_empty() => Bytes::new(),
            None => {
                if is_final {
                    self.hold.settle(self.all.len());
                }
                self.hold.of(self.all)
            }
        }
    }
}
