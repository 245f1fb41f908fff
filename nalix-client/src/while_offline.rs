//! What a call does while there is no connection.

/// What something does that is to be sent while the session has no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WhileOffline {
    /// It waits for one, as far as [`ReconnectOptions`](crate::ReconnectOptions) let it.
    #[default]
    Wait,
    /// It fails at once, with [`Offline::NotWaiting`](crate::Offline).
    Fail,
}
